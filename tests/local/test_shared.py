"""Requests that are answered in several places: the bits of one place, however they are cut."""

import dataclasses
import pickle
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.local.material import Keep, make_federation, mlp, model_of, replies, train_request
from torch import nn

from fedgs.aggregation import BLOCK, WeightedMean, WeightedSum
from fedgs.errors import ClientError, UpdateError, WorkerError
from fedgs.features import UpdateSketch
from fedgs.local.division import Piece, answered, count_of_units, cut
from fedgs.local.engines import new_engine
from fedgs.local.shared import Answer, SharedEngine
from fedgs.metrics import Metric
from fedgs.models import LogisticRegression
from fedgs.optimizers import Adam
from fedgs.requests import Engine, Evaluate, Failure, Losses, Request, Train, Work

CLIENTS = 150


class FakePool:
    """Places in this process, which answer in a drawn order and are lost by a drawn chance."""

    def __init__(self, places: int, seed: int, *, engine: str, losses: float = 0.0) -> None:
        self.draws = random.Random(seed)
        self.losses, self.name = losses, engine
        self.engines = {number: new_engine(engine, "cpu") for number in range(places)}
        self.waiting: dict[int, Piece] = {}
        self.sent: list[tuple[int, Piece]] = []
        self.made = places
        self.announced: Sequence[Request] = ()

    def announce(self, requests: Sequence[Request], *, engine: str, device: str) -> None:
        self.announced = requests

    def free(self) -> list[int]:
        places = [place for place in self.engines if place not in self.waiting]
        self.draws.shuffle(places)
        return places

    def send(self, place: Any, position: int, piece: Piece) -> None:
        assert place not in self.waiting and self.announced[position].work is not None
        self.waiting[place] = piece
        self.sent.append((position, piece))

    def received(self) -> Iterable[tuple[int, Answer | None]]:
        place = self.draws.choice(sorted(self.waiting))
        piece = self.waiting.pop(place)
        if self.draws.random() < self.losses:
            del self.engines[place]
            self.engines[self.made] = new_engine(self.name, "cpu")
            self.made += 1
            yield place, None
            return
        content = answered(self.engines[place], piece)
        yield place, Answer(pickle.loads(pickle.dumps(content)), self.draws.random())


def shared(places: int, seed: int = 0, *, engine: str = "loop", losses: float = 0.0) -> Any:
    return SharedEngine(FakePool(places, seed, engine=engine, losses=losses), engine, "cpu")


@pytest.fixture(scope="module")
def work() -> Work:
    federation = make_federation([1 + k % 7 for k in range(CLIENTS)], example_shape=(6,))
    return Work(federation, mlp(6, [5], 3), 0.0, 2, 4)


def same(one: object, other: object) -> bool:
    """Whether two replies have the same bits."""
    if isinstance(one, tuple):
        return isinstance(other, tuple) and all(map(same, one, other))
    if isinstance(one, dict):
        return isinstance(other, dict) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, np.asarray(other), equal_nan=True)
    if dataclasses.is_dataclass(one):
        names = [entry.name for entry in dataclasses.fields(one)]
        return all(same(getattr(one, name), getattr(other, name)) for name in names)
    return one == other


def requests_of(work: Work, cohort: int) -> list[Request]:
    """Training with every fold, and all kinds of evaluations."""
    train = train_request(work, range(cohort), key=(1, 2))
    theta, weights = train.parameters, np.full(cohort, 0.5)
    sketch = UpdateSketch(theta + torch.arange(cohort)[:, None], 3)
    folds = (*train.folds, WeightedSum(weights, theta), sketch)
    rows = torch.randn(cohort, len(theta), generator=torch.Generator().manual_seed(0))
    return [
        replace(train, folds=folds, reports=("update_norm", "mean_loss")),
        replace(train, starts=theta + 0.1 * rows, offsets=0.01 * rows),
        Losses(work, theta, np.arange(5, 140), "train", (1, 2)),
        Losses(work, theta, np.arange(5, 140), "train", (1, 2), 3),
        Evaluate(work, theta, "test", (1, 2), (Correct(),)),
        Evaluate(work, theta, "validation"),
    ]


class Correct(Metric):
    """A metric that is no sum."""

    def value(self, outputs: Any, targets: Any) -> float:
        return float(np.median(outputs[:, 0]) + targets[0])


@pytest.fixture(autouse=True)
def small_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward passes of 16 examples, so that evaluations of small federations are cut."""
    for module in ("evaluation", "division"):
        monkeypatch.setattr(f"fedgs.local.{module}.block_rows", lambda shape: 16)


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@given(st.integers(1, 4), st.integers(0, 10**6), st.sampled_from([5, 32, 33, 100, 129]))
@settings(max_examples=6, deadline=None)
def test_replies_have_the_bits_of_one_place(
    work: Work, engine: str, places: int, seed: int, cohort: int
) -> None:
    requests = requests_of(work, cohort)
    expected = replies(new_engine(engine, "cpu"), *requests)
    assert not any(isinstance(reply, Failure) for reply in expected)
    found = replies(shared(places, seed, engine=engine, losses=0.1), *requests)
    assert [same(a, b) for a, b in zip(expected, found, strict=True)] == [True] * len(requests)


def test_states_of_optimisers_are_those_of_one_place(work: Work) -> None:
    kept = replace(work, optimizer=Adam(), optimizer_state="client")
    request = replace(train_request(kept, range(100)), states=(None,) * 100)
    (expected,) = replies(new_engine("loop", "cpu"), request)
    request = replace(request, states=expected[-1], reports=("mean_loss",))
    (expected,) = replies(new_engine("loop", "cpu"), request)
    (found,) = replies(shared(3), request)
    assert same(expected, found) and len(found[-1]) == 100


def test_logistic_regression_has_the_bits_of_one_place(work: Work) -> None:
    linear = replace(work, model=LogisticRegression())
    requests = requests_of(linear, 100)
    expected = replies(new_engine("stacked", "cpu"), *requests)
    found = replies(shared(3, engine="stacked"), *requests)
    assert [same(a, b) for a, b in zip(expected, found, strict=True)] == [True] * len(requests)


def test_work_is_cut_and_shared(work: Work) -> None:
    engine = shared(2)
    request = train_request(work, range(128))
    request = replace(request, folds=request.folds[:1])
    replies(engine, request)
    sent = [piece for _, piece in engine._pool.sent]
    assert [len(piece.clients) for piece in sent] == [64, 32, 32]
    assert len(pickle.dumps(answered(new_engine("loop", "cpu"), sent[0]))) < (
        12 * len(request.parameters) + 1500
    )
    assert count_of_units(request, engine="loop", device="cpu") == 128 // BLOCK


def test_a_piece_has_the_rows_of_its_clients_alone(work: Work) -> None:
    request = train_request(work, range(128))
    rows = torch.zeros(128, len(request.parameters))
    request = replace(request, starts=rows, offsets=rows, folds=(UpdateSketch(rows, 3),))
    sizes = []
    for units in (4, 1):
        piece = cut(request, 0, units, units=4)
        assert isinstance(piece, Train)
        sizes.append(len(pickle.dumps((piece.starts, piece.offsets, piece.folds))))
    assert sizes[1] < 0.3 * sizes[0]


class Half(WeightedMean):
    """A subclass whose `add` its inherited `merge` knows nothing of."""

    def start(self) -> Any:
        return []

    def add(self, accumulator: Any, clients: Any, models: Any) -> Any:
        return [*accumulator, *(models.double() / 2)]

    def finish(self, accumulator: Any) -> Any:
        return torch.stack(accumulator).sum(dim=0).float()


def test_folds_that_cannot_be_merged_get_all_models_in_order(work: Work) -> None:
    request = train_request(work, range(100))
    request = replace(request, folds=(Half(np.ones(100)), Keep()))
    (expected,) = replies(new_engine("loop", "cpu"), request)
    (found,) = replies(shared(3), request)
    assert same(expected, found) and tuple(found[1].shape) == (100, len(request.parameters))


def test_a_piece_that_is_always_lost_fails_its_request_alone(work: Work) -> None:
    (failure,) = replies(shared(2, losses=1.0), train_request(work, range(64)))
    assert isinstance(failure, Failure) and isinstance(failure.exception, WorkerError)
    assert "3 processes were lost" in str(failure.exception)


def broken(model: Callable[[], nn.Module], work: Work) -> Work:
    return replace(work, model=model_of(model))


class Raises(nn.Linear):
    """A module that raises for batches of a client with one example."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training and len(x) == 1:
            raise ArithmeticError("one example")
        return super().forward(x)


def test_the_client_that_fails_is_named_as_in_one_place(work: Work) -> None:
    request = train_request(broken(lambda: Raises(6, 3), work), range(3, 128))
    (expected,) = replies(new_engine("loop", "cpu"), request)
    (found,) = replies(shared(2), request)
    assert isinstance(found.exception, ClientError) and found.client == expected.client
    assert str(found.exception) == str(expected.exception)
    assert 'raise ArithmeticError("one example")' in found.exception.__notes__[0]
    request = train_request(work, range(128))
    request = replace(request, parameters=torch.full_like(request.parameters, torch.nan))
    (expected,) = replies(new_engine("loop", "cpu"), request)
    (found,) = replies(shared(3), request)
    assert isinstance(found.exception, UpdateError) and found.client == expected.client
    assert str(found.exception) == str(expected.exception)


class Draws(nn.Linear):
    """A module that draws random numbers, also in evaluations."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + torch.rand(len(x), 1)


def test_models_that_draw_are_evaluated_as_a_whole(work: Work) -> None:
    drawing = broken(lambda: Draws(6, 3), work)
    theta = train_request(drawing, [0]).parameters
    requests = [Evaluate(drawing, theta, "test", (0, round)) for round in (1, 2)]
    expected: Engine = new_engine("loop", "cpu")
    engine = shared(3, losses=0.1)
    for request in requests:
        assert replies(engine, request) == replies(expected, request)
    assert len(replies(engine, *requests)) == 2
    last = [piece for _, piece in engine._pool.sent[-2:]]
    assert all(isinstance(piece, Evaluate) for piece in last)  # it is not cut again
