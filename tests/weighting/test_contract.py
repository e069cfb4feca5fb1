"""What every weighting keeps, one that is added later included."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.conftest import make_federation
from tests.driving import RecordedRun, driven, make_plan
from tests.parts import (
    Absences,
    assert_resumes,
    fitting,
    sampler_for,
    settings_of,
    title,
)
from torch import nn

import fedgs
from fedgs.arrays import FloatArray, IntArray
from fedgs.clients import Clients, Memory, Outcome, Selection, View
from fedgs.data import Federation
from fedgs.driver import drive
from fedgs.local import StackedEngine
from fedgs.models import as_model
from fedgs.registry import table
from fedgs.sampler_answers import checked_memory
from fedgs.sampling import LearnsFromModels, Remembers, Sampler
from fedgs.weighting import Weighting, as_weighting, checked_weights

N, M, ROUNDS = 7, 3, 24
SIZES = np.array([5, 80, 3, 1, 40, 9, 10**9])  # client 6 has nearly all the data
NETWORK = as_model(lambda: nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3)))
EMPTY, ABORTED = {3, 4, 11}, {6, 15}


@pytest.fixture(params=settings_of("weighting"), ids=title)
def weighting(request: pytest.FixtureRequest) -> Weighting:
    return as_weighting(request.param)


@dataclass(frozen=True)
class Told:
    """What one round tells, by client."""

    available: Any
    cohort: Any
    draws: Any
    losses: FloatArray
    features: FloatArray


def history(seed: int = 0) -> list[Told]:
    """Rounds with a client that is never selected before the last one, and clients drawn twice."""
    rng, rounds = np.random.default_rng(seed), []
    for t in range(ROUNDS):
        available = (rng.random(N) < 0.6) & (t not in EMPTY)
        available[2] |= t == ROUNDS - 1
        order = [k for k in rng.permutation(N) if available[k] and k != 2][:M]
        if t == ROUNDS - 1:
            order = [2, *order[: M - 1]]
        cohort = np.isin(np.arange(N), order)
        draws = rng.integers(1, 3, N)
        rounds.append(Told(available, cohort, draws, rng.random(N), rng.normal(size=(N, 4))))
    return rounds


@dataclass
class Followed:
    """Rounds of a weighting as the simulation calls them, without models.

    Attributes:
        order: the clients are renumbered: client i of these rounds is client order[i] of the told.
    """

    weighting: Weighting
    order: IntArray = field(default_factory=lambda: np.arange(N))
    sizes: IntArray = field(default_factory=lambda: SIZES)

    def __post_init__(self) -> None:
        names, labels = np.array(list("abcdefg")), np.eye(N, 3, dtype=np.int64) + 1
        self.clients = Clients(
            tuple(names[self.order].tolist()), self.sizes[self.order], labels[self.order]
        )
        sampler = sampler_for(table(self.weighting))
        assert isinstance(sampler, Sampler)
        self.sampler, self.round = sampler, 0
        self.counts = np.zeros(N, dtype=np.int64)
        self.memory: Memory = self.weighting.start(self.clients, M)
        self.of_sampler: Memory = {}
        if isinstance(sampler, Remembers):
            asks = isinstance(sampler, LearnsFromModels) and sampler.wish("start") is not None
            self.of_sampler = (
                sampler.start_from(self.clients, np.eye(N)[self.order])  # type: ignore[attr-defined]
                if asks
                else sampler.start(self.clients)
            )

    def view(self, told: Told) -> View:
        return View(
            self.round,
            self.clients,
            np.flatnonzero(told.available[self.order]),
            self.counts,
            M,
            losses=told.losses[self.order],
            memory=self.of_sampler,
            rates=np.linspace(0.2, 1.0, N)[self.order],
        )

    def selection(self, told: Told) -> Selection:
        cohort = np.flatnonzero(told.cohort[self.order])
        return Selection(cohort, told.draws[self.order][cohort])

    def step(self, told: Told, *, aborted: bool = False) -> FloatArray:
        """(N,) the weights of the round by told client, 0 for clients that are not in it."""
        view, selection, outcome = self.view(told), self.selection(told), None
        of_told = np.zeros(N)
        if len(selection.clients):
            weights = checked_weights(self.weighting, view, selection, self.memory)
            of_told[self.order[selection.clients]] = weights
            features = told.features[self.order][selection.clients]
            outcome = Outcome(selection.clients, weights, features)
        outcome = None if aborted else outcome
        if outcome is not None:
            self.counts = self.counts.copy()
            self.counts[outcome.clients] += 1
            if isinstance(self.sampler, Remembers):
                self.of_sampler = self.sampler.observe(self.of_sampler, view, outcome)
        self.memory = checked_memory(self.weighting.observe(self.memory, view, outcome), "observe")
        self.round += 1
        return of_told

    def steps(self, rounds: list[Told]) -> FloatArray:
        """(T, N) the weights of all rounds."""
        return np.array([self.step(told, aborted=self.round in ABORTED) for told in rounds])


def by_client(memory: Memory, order: IntArray) -> dict[str, Any]:
    """The arrays with every axis of length N in the order of the told clients."""
    back, arrays = np.argsort(order), {}
    for name, array in memory.items():
        for axis, length in enumerate(array.shape):
            array = np.take(array, back, axis) if length == N else array
        arrays[name] = array
    return arrays


def test_weights_are_finite_and_have_the_sum_that_is_promised(weighting: Weighting) -> None:
    weights = Followed(weighting).steps(history())
    assert np.isfinite(weights).all() and (weights >= 0).all()
    trained = np.array([told.cohort.any() for told in history()])
    assert trained.sum() == ROUNDS - len(EMPTY)
    assert weights[-1, 2] > 0  # it was never selected before
    if weighting.is_normalised:
        np.testing.assert_allclose(weights[trained].sum(axis=1), 1, rtol=1e-14)


def test_relabelled_clients_have_the_same_weights_and_memory(weighting: Weighting) -> None:
    order = np.array([4, 2, 0, 6, 3, 1, 5])
    plain, other = Followed(weighting), Followed(weighting, order)
    np.testing.assert_allclose(other.steps(history()), plain.steps(history()), rtol=1e-12)
    expected, found = plain.memory, by_client(other.memory, order)
    assert list(found) == list(expected)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-12)


def test_nothing_that_came_in_is_written_to(weighting: Weighting) -> None:
    followed = Followed(weighting)
    for told in history():
        view, selection, memory = followed.view(told), followed.selection(told), followed.memory
        memory = {name: array.copy() for name, array in memory.items()}  # can be written to
        given = [view.available, view.counts, selection.clients, *memory.values()]
        before = [array.copy() for array in given]
        outcome = None
        if len(selection.clients):
            weights = weighting.weights(view, selection, memory)
            outcome = Outcome(selection.clients, weights.copy())
        after = weighting.observe(memory, view, outcome)
        for old, new in zip(before, given, strict=True):
            np.testing.assert_array_equal(old, new)
        assert list(after) == list(memory)
        followed.step(told)


def test_equal_settings_and_histories_give_equal_bits(weighting: Weighting) -> None:
    again = as_weighting(table(weighting))
    assert again == weighting
    first, second = Followed(weighting), Followed(again)
    assert first.steps(history()).tobytes() == second.steps(history()).tobytes()


def test_the_memory_goes_on_from_a_file(weighting: Weighting, tmp_path: Path) -> None:
    whole, rounds = Followed(weighting), history()
    expected = whole.steps(rounds)
    for stop in (1, 4, 7, 16):  # after a round, within and after empty ones, after an aborted one
        followed = Followed(weighting)
        followed.steps(rounds[:stop])
        np.savez(tmp_path / "memory.npz", **followed.memory)  # type: ignore[arg-type]
        with np.load(tmp_path / "memory.npz") as arrays:
            followed.memory = dict(arrays)
        assert followed.steps(rounds[stop:]).tobytes() == expected[stop:].tobytes()


def test_clients_that_are_alike_have_the_same_weight(weighting: Weighting) -> None:
    followed = Followed(weighting, sizes=np.full(N, 5))
    same = np.ones(N, dtype=np.bool_)
    told = Told(same, same, np.ones(N, dtype=np.int64), np.ones(N), np.ones((N, 4)))
    view = followed.view(told)
    view = View(0, followed.clients, view.available, view.counts, N, view.losses, view.memory,
                rates=np.full(N, 0.5))  # fmt: skip
    weights = checked_weights(weighting, view, Selection(np.arange(N)), followed.memory)
    np.testing.assert_allclose(weights, weights[0], rtol=1e-14)
    if weighting.is_normalised:
        np.testing.assert_allclose(weights, 1 / N, rtol=1e-14)


def test_a_federation_of_one_client(weighting: Weighting) -> None:
    (run,) = driven(
        make_plan(
            make_federation((9,)),
            sampler_for(table(weighting)),
            cohort_limit=1,
            availability=fedgs.Ideal(),
        )
    )
    assert run.final is not None and run.final.parameters.isfinite().all()
    weights = np.array([record.weights for record in run.records[:-1]])
    assert weights.shape == (6, 1) and (weights > 0).all()
    assert not weighting.is_normalised or (weights == 1).all()


@pytest.mark.parametrize("limit", [1, 3, 6])
def test_runs_with_gaps_resume_from_any_checkpoint_with_the_same_bits(
    weighting: Weighting, limit: int, toy_federation: Federation, tmp_path: Path
) -> None:
    sampler = sampler_for(table(weighting))
    plan = make_plan(
        toy_federation, sampler, availability=Absences(seed=1), rounds=9, cohort_limit=limit
    )
    whole = assert_resumes(plan, tmp_path / "run", every=1 if limit == 3 else 4)
    assert limit == 1 or any(limit > record.num_available > 0 for record in whole.records[:-1])


@pytest.mark.parametrize("name", ["md", "clustered_sizes"])
def test_clients_that_are_drawn_twice_train_once(
    name: str, weighting: Weighting, toy_federation: Federation
) -> None:
    sampler = next(fitting(table(weighting), samplers=[name]), None)
    if sampler is None:
        pytest.skip("refused together, see tests/test_combinations.py")
    (run,) = driven(make_plan(toy_federation, sampler, cohort_limit=5, rounds=8))
    assert run.failed is None
    assert any(max(record.draws or [0]) > 1 for record in run.records[:-1])
    assert all(len(r.weights) == len(r.cohort or []) for r in run.records[:-1])


# The compiled program for linear models, and the stacked program; each against the loop.
ENGINES = [(StackedEngine, False), (StackedEngine, True)]


@pytest.mark.parametrize(("engine", "is_network"), ENGINES)
def test_the_weights_do_not_depend_on_the_engine(
    engine: type, is_network: bool, toy_federation: Federation
) -> None:
    plans = [
        make_plan(
            toy_federation,
            sampler_for(settings),
            availability=Absences(seed=1),
            rounds=9,
            **({"model": NETWORK} if is_network else {}),
        )
        for settings in settings_of("weighting")
    ]
    plain = driven(*plans)
    runs = [RecordedRun(plan) for plan in plans]
    drive([run.live for run in runs], engine())
    for run, expected in zip(runs, plain, strict=True):
        assert run.final is not None and expected.final is not None
        for ours, theirs in zip(run.records[:-1], expected.records[:-1], strict=True):
            assert ours.cohort == theirs.cohort
            np.testing.assert_allclose(ours.weights, theirs.weights, rtol=1e-4)
        torch.testing.assert_close(
            run.final.parameters, expected.final.parameters, rtol=1e-3, atol=1e-4
        )
