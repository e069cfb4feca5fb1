"""What every aggregation keeps, one that is added later included."""

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
    built_in,
    fitting,
    sampler_of,
    settings_of,
    title,
)
from torch import nn

import fedgs
from fedgs.aggregation import Aggregation, ClientTable, Round, checked_step
from fedgs.arrays import IntArray
from fedgs.clients import Clients, Selection, View
from fedgs.data import Federation
from fedgs.driver import drive
from fedgs.local import StackedEngine
from fedgs.models import as_model
from fedgs.registry import build, table
from fedgs.weighting import Weighting, as_weighting, checked_weights

N, P, ROUNDS = 7, 5, 24
SIZES = np.array([5, 80, 3, 1, 40, 9, 10**9])  # client 6 has nearly all the data
EMPTY = {0, 3, 4, 11}
NETWORK = as_model(lambda: nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3)))


@pytest.fixture(params=settings_of("aggregation"), ids=title)
def aggregation(request: pytest.FixtureRequest) -> Aggregation:
    built = build("aggregation", request.param)
    assert isinstance(built, Aggregation)
    return built


def cohorts(seed: int = 0) -> list[list[int]]:
    """Told clients of each round; client 2 takes part in the last round alone."""
    rng = np.random.default_rng(seed)
    rounds = []
    for t in range(ROUNDS):
        members = np.flatnonzero((rng.random(N) < 0.4) & (np.arange(N) != 2))
        members = np.array([1, 2]) if t == ROUNDS - 1 else members
        rounds.append([] if t in EMPTY else members.tolist())
    return rounds


@dataclass
class Followed:
    """Rounds of an aggregation as the simulation calls them, with local training by hand.

    Local training is one step on F_k(theta) = a_k |theta - b_k|^2 / 2.

    Attributes:
        order: the clients are renumbered: client i of these rounds is client order[i] of the told.
    """

    aggregation: Aggregation
    order: IntArray = field(default_factory=lambda: np.arange(N))

    def __post_init__(self) -> None:
        self.clients = Clients(tuple(self.order.tolist()), SIZES[self.order])
        self.weighting = as_weighting(sampler_of(table(self.aggregation)).weighting)
        assert isinstance(self.weighting, Weighting)
        self.theta, self.round = torch.linspace(-1, 1, P), 0
        self.vectors = self.aggregation.start(self.theta, self.clients)
        generator = torch.Generator().manual_seed(3)
        self.centres = torch.randn(N, P, generator=generator)[self.order]
        self.curvatures = (0.5 + torch.rand(N, 1, generator=generator))[self.order]

    def told(self, members: list[int]) -> Round:
        """What the aggregation sees of a round with these told clients."""
        cohort = np.flatnonzero(np.isin(self.order, members))
        view = View(self.round, self.clients, cohort, np.zeros(N, dtype=np.int64), N)
        weights = np.empty(0)
        if len(cohort):
            memory = self.weighting.start(self.clients, N)
            weights = checked_weights(self.weighting, view, Selection(cohort), memory)
        return Round(
            self.round, self.clients, cohort, weights, self.weighting.is_normalised,
            view.shares, self.theta, self.vectors, 0.1 * 0.9**self.round, 1,
            self.aggregation.trains_everyone,
        )  # fmt: skip

    def results(self, round: Round) -> tuple[torch.Tensor, ...]:
        """What the folds make of the local models."""
        trainees = round.trainees
        if not len(trainees):
            return ()
        corrections = self.aggregation.corrections(round)
        models = round.parameters.repeat(len(trainees), 1)
        if corrections.starts is not None:
            models = corrections.starts
        gradients = self.curvatures[trainees] * (models - self.centres[trainees])
        if corrections.offsets is not None:
            gradients = gradients + corrections.offsets
        models = models - round.learning_rate * gradients
        folds = self.aggregation.folds(round)
        return tuple(f.finish(f.add(f.start(), trainees, models)) for f in folds)

    def step(self, members: list[int]) -> torch.Tensor:
        """Theta after the next round."""
        round = self.told(members)
        results = self.results(round)
        self.theta, self.vectors = checked_step(self.aggregation, round, results)
        self.round += 1
        return self.theta


def rows(table: ClientTable) -> torch.Tensor:
    """(N, P) all rows, NaN where none was set."""
    unset = torch.full((P,), torch.nan)
    found = [table.row(client) for client in range(N)]
    return torch.stack([unset if row is None else row.float() for row in found])


def test_parameters_and_vectors_are_finite_and_keep_their_types(aggregation: Aggregation) -> None:
    followed = Followed(aggregation)
    first = {name: type(vector) for name, vector in followed.vectors.items()}
    for members in cohorts():
        theta = followed.step(members)
        assert theta.dtype == torch.float32 and theta.isfinite().all()
        assert {name: type(vector) for name, vector in followed.vectors.items()} == first


def test_relabelled_clients_give_the_same_parameters_and_vectors(aggregation: Aggregation) -> None:
    order = np.array([4, 2, 0, 6, 3, 1, 5])
    plain, other = Followed(aggregation), Followed(aggregation, order)
    for members in cohorts():
        torch.testing.assert_close(other.step(members), plain.step(members), rtol=1e-4, atol=1e-5)
    assert list(other.vectors) == list(plain.vectors)
    for name, vector in plain.vectors.items():
        found = other.vectors[name]
        if isinstance(vector, ClientTable):
            assert isinstance(found, ClientTable)
            vector, found = rows(vector)[order], rows(found)
        elif vector.shape[:1] == (N,):
            vector = vector[order]
        assert isinstance(found, torch.Tensor)
        torch.testing.assert_close(found, vector, rtol=1e-4, atol=1e-5, equal_nan=True)


def contents(*values: Any) -> list[torch.Tensor]:
    """Copies of all tensors, those of tables included."""
    tensors: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, ClientTable):
            tensors.append(rows(value))
        elif isinstance(value, dict | tuple):
            tensors += contents(*(value.values() if isinstance(value, dict) else value))
        elif isinstance(value, torch.Tensor | np.ndarray):
            tensors.append(torch.as_tensor(value).clone())
    return tensors


def test_nothing_that_came_in_is_written_to(aggregation: Aggregation) -> None:
    followed = Followed(aggregation)
    for members in cohorts():
        round = followed.told(members)
        results = followed.results(round)
        given = (round.parameters, dict(round.vectors), results, round.cohort, round.weights)
        before = contents(*given)
        aggregation.step(round, results)
        for old, new in zip(before, contents(*given), strict=True):
            assert torch.equal(old.nan_to_num(), new.nan_to_num())
        followed.step(members)


def test_a_round_can_be_done_again_with_the_same_bits(aggregation: Aggregation) -> None:
    followed, again = Followed(aggregation), Followed(build("aggregation", table(aggregation)))  # type: ignore[arg-type]
    assert again.aggregation == aggregation
    for members in cohorts():
        assert torch.equal(followed.step(members), again.step(members))


@pytest.mark.parametrize("limit", [1, 3, 6])
def test_runs_with_gaps_resume_from_any_checkpoint_with_the_same_bits(
    aggregation: Aggregation, limit: int, toy_federation: Federation, tmp_path: Path
) -> None:
    plan = make_plan(
        toy_federation,
        sampler_of(table(aggregation)),
        aggregation=aggregation,
        availability=Absences(seed=1),
        rounds=9,
        cohort_limit=limit,
    )
    assert_resumes(plan, tmp_path / "run", every=1 if limit == 3 else 4)


@pytest.mark.parametrize("sizes", [(9,), (400, 1, 1, 1, 1, 1)])
def test_one_client_and_one_with_nearly_all_the_data(
    aggregation: Aggregation, sizes: tuple[int, ...]
) -> None:
    federation = make_federation(sizes)
    (run,) = driven(
        make_plan(
            federation,
            sampler_of(table(aggregation)),
            aggregation=aggregation,
            cohort_limit=len(sizes),
            availability=fedgs.Ideal(),
        )
    )
    assert run.final is not None and run.final.parameters.isfinite().all()
    assert not torch.equal(run.final.parameters, run.starts[0].parameters)


@pytest.mark.parametrize("name", ["md", "clustered_sizes"])
def test_clients_that_are_drawn_twice_train_once(
    name: str, aggregation: Aggregation, toy_federation: Federation
) -> None:
    rules = ["draws", *built_in("weighting")]
    sampler = next(s for rule in rules for s in fitting(rule, table(aggregation), [name]))
    (run,) = driven(
        make_plan(toy_federation, sampler, aggregation=aggregation, cohort_limit=5, rounds=8)
    )
    assert run.failed is None
    assert any(max(record.draws or [0]) > 1 for record in run.records[:-1])


@pytest.mark.parametrize("is_network", [False, True])
def test_the_engines_agree(is_network: bool, toy_federation: Federation) -> None:
    """The compiled program for linear models, or the stacked program, against the loop."""
    models = {"model": NETWORK} if is_network else {}
    plans = [
        make_plan(
            toy_federation,
            sampler_of(settings),
            aggregation=build("aggregation", settings),
            availability=Absences(seed=1),
            rounds=9,
            **models,
        )
        for settings in settings_of("aggregation")
    ]
    plain, runs = driven(*plans), [RecordedRun(plan) for plan in plans]
    drive([run.live for run in runs], StackedEngine())
    for run, expected in zip(runs, plain, strict=True):
        assert run.final is not None and expected.final is not None
        assert [r.cohort for r in run.records] == [r.cohort for r in expected.records]
        torch.testing.assert_close(
            run.final.parameters, expected.final.parameters, rtol=1e-3, atol=1e-4
        )
