"""A federation from a labelled data set and a partition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.material import labelled

from fedgs.data import (
    Assignment,
    ByColumn,
    DirichletOverClasses,
    Iid,
    Labelled,
    Partition,
    share_out,
)
from fedgs.errors import DataError


@settings(max_examples=20, deadline=None)
@given(data=labelled(), fraction=st.sampled_from([0.0, 0.2, 0.5, 0.99]))
def test_the_federation_holds_every_example_once(
    data: tuple[np.ndarray, int, int], fraction: float
) -> None:
    labels, clients, seed = data
    x = np.arange(len(labels), dtype=np.float32)[:, None]
    source = Labelled("mine", x, labels, (x[:1], labels[:1]), int(labels.max()) + 1)
    federation = share_out(source, Iid(), clients, seed=seed, validation_fraction=fraction)
    parts = [part for part in (federation.train, federation.validation) if part is not None]
    rows = np.concatenate([part.index for part in parts])
    assert np.array_equal(np.sort(rows), np.arange(len(labels)))
    for part in parts:
        # the example is the one that its index names
        assert np.array_equal(part.x[:, 0], part.index)
        assert np.array_equal(part.y, labels[part.index])
    sizes = np.diff(federation.train.offsets)
    held_out = (
        np.zeros_like(sizes)
        if federation.validation is None
        else np.diff(federation.validation.offsets)
    )
    assert np.array_equal(held_out, np.floor(fraction * (sizes + held_out) + 1e-9))


def test_small_clients_keep_a_training_example_when_the_hold_out_rounds_to_nothing() -> None:
    sizes = np.array([1, 2, 7, 9])
    labels = np.zeros(19, dtype=int)
    columns = {"who": np.repeat(np.arange(4), sizes)}
    x = np.zeros((19, 2), dtype=np.float32)
    federation = share_out(
        Labelled("tiny", x, labels, (x, labels), 1), ByColumn(column="who"), 4, columns=columns
    )
    assert federation.clients.data_sizes.tolist() == [1, 2, 6, 8]
    assert federation.validation is not None
    assert np.diff(federation.validation.offsets).tolist() == [0, 0, 1, 1]  # floor(.2 s)


def test_a_hold_out_of_nothing_at_all_is_no_validation_part() -> None:
    x, labels = np.zeros((4, 2), dtype=np.float32), np.zeros(4, dtype=int)
    # floor(.2) = 0 everywhere
    assert share_out(Labelled("tiny", x, labels, (x, labels), 1), Iid(), 4).validation is None


def test_a_client_without_examples_is_refused_by_name_or_left_out() -> None:
    x, labels = np.zeros((3, 2), dtype=np.float32), np.zeros(3, dtype=int)
    source = Labelled("tiny", x, labels, (x, labels), 1)
    with pytest.raises(
        DataError,
        match=r"client 3 has no training example \(and 1 more\); data.drop_empty = true leaves",
    ):
        share_out(source, Iid(), 5)
    federation = share_out(source, Iid(), 5, drop_empty=True)
    assert federation.clients.names == (0, 1, 2)
    assert federation.facts["left_out"] == [3, 4]


def test_a_partition_that_loses_an_example_is_refused() -> None:
    class Forgetful(Partition):
        name = "forgetful"

        def assign(self, labels, clients, rng, *, columns=None):  # type: ignore[no-untyped-def]
            return Assignment.from_owners(np.zeros(len(labels) - 1, dtype=np.int64), clients)

    x, labels = np.zeros((4, 2), dtype=np.float32), np.zeros(4, dtype=int)
    with pytest.raises(
        DataError, match="partition 'forgetful' must give each of the 4 examples out exactly once"
    ):
        share_out(Labelled("tiny", x, labels, (x, labels), 1), Forgetful(), 1)


def test_the_seed_draws_the_hold_out_too() -> None:
    x, labels = np.arange(40, dtype=np.float32)[:, None], np.zeros(40, dtype=int)
    source = Labelled("tiny", x, labels, (x, labels), 1)
    columns = {"who": np.arange(40) % 2}  # a partition that no seed changes
    first, again, other = (
        share_out(source, ByColumn(column="who"), 2, seed=seed, columns=columns)
        for seed in (0, 0, 1)
    )
    assert first.fingerprint == again.fingerprint
    assert first.validation is not None
    assert other.validation is not None
    assert not np.array_equal(first.validation.index, other.validation.index)


def test_clients_that_are_left_out_have_no_shift() -> None:
    x, labels = np.zeros((40, 1), dtype=np.float32), np.arange(40) % 4
    source = Labelled("tiny", x, labels, (x, labels), 4)
    partition = DirichletOverClasses(minimum=0, sigma=3.0)
    federation = share_out(source, partition, 20, drop_empty=True)
    assert 1 < len(federation) < 20
    assert len(federation.facts["shift"]) == len(federation)
    assert len(federation.facts["left_out"]) == 20 - len(federation)
