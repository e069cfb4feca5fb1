"""Attempts to make the kernels that train read outside their arrays, for `tests/test_bounds.py`."""

from dataclasses import replace

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.bounds.common import few, outside, put, refused

from fedgs.aggregation import WeightedMean
from fedgs.data import Federation
from fedgs.data.federation import Part
from fedgs.errors import UserError
from fedgs.local import LoopEngine, StackedEngine
from fedgs.local.averages import weighted_means
from fedgs.local.batches import client_keys, local_batches
from fedgs.local.linear import LinearProgram
from fedgs.local.terms import Terms
from fedgs.models import LogisticRegression
from fedgs.requests import Failure, Train, Work

rng = np.random.default_rng(0)
x, y = rng.normal(size=(24, 5)).astype(np.float32), rng.integers(0, 3, 24)
federation = Federation.from_arrays(x, y, client=np.repeat(np.arange(4), 6), test=(x, y))
work = Work(federation, LogisticRegression(), 0.0, 3, 4)
program = LinearProgram(work)
good = {
    "starts": torch.zeros(2, 18),
    "run": np.array([0, 1, 1]),
    "rates": np.full(3, 0.1),
    "rows": rng.integers(0, 24, (3, 3, 4)),
    "sizes": np.full((3, 3), 4),
}
asked = {
    "vectors": torch.zeros(2, 18),
    "run": np.array([0, 1, 1]),
    "split": "train",
    "begin": np.array([0, 5, 24]),
    "end": np.array([3, 24, 24]),
}
means = {
    "models": torch.ones(5, 4),
    "begin": np.array([0, 2]),
    "end": np.array([2, 5]),
    "weights": [np.ones(2), np.ones(3)],
}
with_terms = Terms(np.array([1, 0, 1]), torch.ones(3, 18), losses=True)
program.train(**good)
program.train(**good, terms=with_terms)
program.train(**good | {"sizes": np.array([[4, 4, 0], [1, 0, 0], [0, 0, 0]])})  # fewer steps
program.sums(**asked, rows=np.arange(24)[::-1])
program.sums(**asked)
weighted_means(**means)


@few
@given(st.data(), st.integers(0, 99))
def numbers_out_of_range(data, place):
    name, least, end = data.draw(st.sampled_from([("run", 0, 2), ("rows", 0, 24), ("sizes", 0, 5)]))
    refused(program.train, **good | {name: put(good[name], place, data.draw(outside(least, end)))})
    start = put(with_terms.start, place, data.draw(outside(0, 2)))
    refused(program.train, **good, terms=Terms(start))
    rows = put(np.arange(24), place, data.draw(outside(0, 24)))
    refused(program.sums, **asked, rows=rows)
    name, least, end = data.draw(st.sampled_from([("run", 0, 2), ("begin", 0, 25), ("end", 0, 25)]))
    refused(program.sums, **asked | {name: put(asked[name], place, data.draw(outside(least, end)))})
    name = data.draw(st.sampled_from(["begin", "end"]))
    refused(weighted_means, **means | {name: put(means[name], place, data.draw(outside(0, 6)))})
    sizes = put(np.array([3, 5]), place, data.draw(st.integers(-(2**63), 0)))
    refused(local_batches, client_keys((0, 0), np.arange(2)), sizes, local_steps=3, batch_size=4)
    clients = put(np.array([0, 1]), place, data.draw(outside(0, 4)))
    for engine in (LoopEngine(), StackedEngine()):
        ((_, reply),) = engine.answer(
            [Train(work, torch.zeros(18), clients, 0.1, (0, 0), (WeightedMean(np.ones(2)),))]
        )
        assert isinstance(reply, Failure) and isinstance(reply.exception, UserError), reply


@few
@given(
    st.lists(st.integers(1, 2**62), min_size=4, max_size=4).filter(lambda sizes: sizes != [6] * 4)
)
def sizes_that_are_not_those_of_the_rows(sizes):
    federation = Federation.from_arrays(x, y, client=np.repeat(np.arange(4), 6), test=(x, y))
    object.__setattr__(federation.clients, "data_sizes", np.array(sizes))
    work = Work(federation, LogisticRegression(), 0.0, 3, 4)
    for engine in (LoopEngine(), StackedEngine()):
        ((_, reply),) = engine.answer(
            [Train(work, torch.zeros(18), np.arange(4), 0.1, (0, 0), (WeightedMean(np.ones(4)),))]
        )
        assert isinstance(reply, Failure) and isinstance(reply.exception, UserError), reply
        assert "data_sizes" in str(reply.exception)


def other_shapes_and_types():
    for name, values in {
        "starts": [
            torch.zeros(2, 17),
            torch.zeros(2, 12),
            torch.zeros(2, 6),
            torch.zeros(18),
            torch.zeros(2, 18, dtype=torch.float64),
            torch.zeros(1, 18),
        ],
        "run": [np.zeros(2, int), np.zeros((3, 1), int), np.zeros(3), np.full(3, np.nan)],
        "rates": [np.ones(2), np.ones((3, 1))],
        "rows": [
            good["rows"][:2],
            good["rows"][0],
            good["rows"] + 0.0,
            good["rows"][..., :2],
            good["rows"].astype(np.uint64) - np.uint64(25),
        ],
        "sizes": [
            good["sizes"][:2],
            good["sizes"][:, :2],
            good["sizes"] + np.nan,
            good["sizes"].T[:1],
        ],
    }.items():
        for value in values:
            refused(program.train, **good | {name: value})
    for terms in (
        Terms(np.zeros(2, int)),
        Terms(np.zeros(3)),
        Terms(offsets=torch.zeros(2, 18)),
        Terms(offsets=torch.zeros(3, 24)),
        Terms(offsets=torch.zeros(18)),
        Terms(offsets=torch.zeros(3, 18, dtype=torch.float64)),
    ):
        refused(program.train, **good, terms=terms)
    for rows in (np.arange(23), np.zeros(24), np.zeros((24, 1), int)):
        refused(program.sums, **asked, rows=rows)
    for name, values in {
        "vectors": [
            torch.zeros(2, 17),
            torch.zeros(18),
            torch.zeros(1, 18),
            torch.zeros(2, 18, dtype=torch.float16),
        ],
        "begin": [np.zeros(2, int), np.zeros(3), np.array([4, 5, 24]), np.full(3, np.inf)],
        "end": [np.ones(4, int), np.array([3, 24, 0])],
        "split": ["validation"],
    }.items():
        for value in values:
            refused(program.sums, **asked | {name: value})
    for name, values in {
        "models": [torch.ones(4, 4), torch.ones(20), torch.ones(5, 4, dtype=torch.float64)],
        "begin": [np.array([0]), np.array([2, 2]), np.array([0.0, 2.0])],
        "end": [np.array([2, 2]), np.array([0, 5])],
        "weights": [[np.ones(2)], [np.ones(1), np.ones(3)], [np.ones(2), np.ones((3, 1))]],
    }.items():
        for value in values:
            refused(weighted_means, **means | {name: value})
    keys = client_keys((0, 0), np.arange(2))
    for sizes in (
        np.array([3]),
        np.array([3.0, 4.0]),
        np.array([np.nan, 3]),
        np.ones((2, 2), int),
        np.array([True, True]),
    ):
        refused(local_batches, keys, sizes, local_steps=3, batch_size=4)
    for steps, size in ((0, 4), (-1, 4), (3, 0), (3, -4), (2.5, 4), (3, None)):
        refused(local_batches, keys, np.array([3, 4]), local_steps=steps, batch_size=size)
    refused(local_batches, keys + 0.5, np.array([3, 4]), local_steps=3, batch_size=4)


@few
@given(st.lists(st.integers(-3, 30), min_size=1, max_size=6), st.integers(0, 3))
def offsets(values, labels):
    part = Part(x, y, np.array(values))
    if values != [0, 24]:
        refused(replace, federation, test=part)
    if values != [0, 6, 12, 18, 24]:
        refused(replace, federation, train=part)
    if (
        min(np.diff(values), default=-1) < 0
        or values[0] != 0
        or len(values) != 5
        or values[-1] != 24
    ):
        refused(replace, federation, validation=part)
    refused(replace, federation, num_labels=min(labels, int(y.max())))


if __name__ == "__main__":
    for attempt in (
        numbers_out_of_range,
        sizes_that_are_not_those_of_the_rows,
        other_shapes_and_types,
        offsets,
    ):
        attempt()
    print("done")
