"""Aggregations in runs: resume, empty rounds, plug-ins, workers, and settings."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from tests.conftest import make_federation
from tests.driving import RecordedRun, make_plan
from tests.parts import Absences

import fedgs
from fedgs.aggregation import Aggregation, Gossip, Mean, Scaffold, Stale
from fedgs.availability import Ideal
from fedgs.clients import Clients
from fedgs.data import Federation
from fedgs.driver import drive
from fedgs.errors import ConfigError
from fedgs.experiments.grid import build_config
from fedgs.local import LoopEngine, StackedEngine
from fedgs.models import LogisticRegression
from fedgs.requests import Work

EQUAL = fedgs.Uniform(weighting="equal")


def run(federation: Federation, aggregation: Aggregation, **settings: Any) -> RecordedRun:
    recorded = RecordedRun(make_plan(federation, aggregation=aggregation, **settings))
    drive([recorded.live], settings.pop("engine", LoopEngine()))
    return recorded


def test_mean_with_sgd_of_rate_1_is_the_default_bit_for_bit(toy_federation: Federation) -> None:
    default = RecordedRun(make_plan(toy_federation))
    named = RecordedRun(make_plan(toy_federation, aggregation=Mean(server="sgd")))
    drive([default.live, named.live], LoopEngine())
    assert default.records == named.records
    assert default.final is not None and named.final is not None
    assert torch.equal(default.final.parameters, named.final.parameters)


def assert_same_move(ours: RecordedRun, fedavg: RecordedRun, relative: float) -> None:
    """The parameters differ by no more than this share of what FedAvg moved."""
    assert ours.final is not None and fedavg.final is not None
    moved = (fedavg.final.parameters - fedavg.starts[0].parameters).norm()
    assert moved > 0.1
    assert (ours.final.parameters - fedavg.final.parameters).norm() <= relative * moved


@pytest.mark.parametrize(
    "aggregation",
    [
        Mean(server={"name": "momentum", "beta": 0.0}),
        Mean(server={"name": "amplified", "period": 2, "factor": 1.0}),
        Mean(server={"name": "amplified", "period": 1, "factor": 1.0}),
        Stale(),
        Stale(unit="gradient"),
        Stale(beta=0.5),
        Stale(beta=0.0),
    ],
    ids=repr,
)
@pytest.mark.parametrize("weighting", ["all", "data_size"])
def test_neutral_settings_with_everybody_are_fedavg(
    aggregation: Aggregation, weighting: str, toy_federation: Federation
) -> None:
    everybody: dict[str, Any] = {"availability": Ideal(), "cohort_limit": len(toy_federation)}
    fedavg = run(toy_federation, Mean(), **everybody)
    sampler = fedgs.Uniform(weighting=weighting)
    assert_same_move(run(toy_federation, aggregation, sampler=sampler, **everybody), fedavg, 1e-6)


@pytest.mark.parametrize(
    "aggregation",
    [
        Mean(server={"name": "momentum", "beta": 0.0}),
        Mean(server={"name": "amplified", "period": 2, "factor": 1.0}),
        Stale(beta=0.0),
    ],
    ids=repr,
)
def test_neutral_settings_are_fedavg_with_gaps_too(
    aggregation: Aggregation, toy_federation: Federation
) -> None:
    gaps: dict[str, Any] = {"availability": Absences(seed=1), "rounds": 9}
    assert_same_move(
        run(toy_federation, aggregation, **gaps), run(toy_federation, Mean(), **gaps), 1e-6
    )


@pytest.mark.parametrize("aggregation", [Stale(), Scaffold(), Gossip()], ids=repr)
def test_with_one_client_that_is_always_available_it_is_fedavg(aggregation: Aggregation) -> None:
    alone: dict[str, Any] = {"availability": Ideal(), "cohort_limit": 1, "sampler": EQUAL}
    federation = make_federation((9,))
    assert_same_move(run(federation, aggregation, **alone), run(federation, Mean(), **alone), 1e-5)


def tables_of(aggregation: object) -> Any:
    settings = {"data": "synthetic", "availability": "IDL", "method": "uniform"}
    return build_config({**settings, "aggregation": aggregation}).tables().get("aggregation")


def test_the_default_is_no_part_of_a_configuration() -> None:
    assert tables_of("mean") is None and tables_of({"name": "mean", "server": "sgd"}) is None
    assert tables_of("stale")["beta"] == 1.0
    server = tables_of({"name": "mean", "server": {"name": "adam", "rate": 0.1}})["server"]
    assert server["name"] == "adam" and server["beta2"] == 0.99


@pytest.mark.parametrize(
    ("aggregation", "message"),
    [
        ("men", r"^aggregation.name must be one of .*mean, .*'men'; did you mean 'mean'"),
        ({"name": "stale", "beta": 2}, "aggregation.beta should be less than or equal to 1, got 2"),
        ({"name": "mean", "server": {"name": "adam"}}, "^aggregation.server.rate must be given"),
        ({"name": "mean", "server": "adm"}, r"^aggregation.server.name must be .*'adm'; did you"),
        ({"name": "mean", "server": {"name": "momentum", "beta": 1}}, "server.beta should be less"),
    ],
)
def test_wrong_settings_are_one_sentence(aggregation: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tables_of(aggregation)


class Wrong(Aggregation):
    """Returns what it is given."""

    result: Any

    def folds(self, round: Any) -> Any:
        return Mean().folds(round)

    def step(self, round: Any, results: Any) -> Any:
        return self.result(round)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda round: round.parameters, r"must return \(parameters, vectors\), got"),
        (lambda round: (3, {}), "must return parameters as a tensor, got"),
        (lambda round: (round.parameters[1:], {}), "must return .* parameters of torch.float32"),
        (lambda round: (round.parameters.double(), {}), "got torch.float64 of shape"),
        (lambda round: (round.parameters, {"a": 3}), "must be a mapping of names to tensors"),
    ],
)
def test_a_wrong_step_is_named(result: Any, message: str, toy_federation: Federation) -> None:
    recorded = run(toy_federation, Wrong(result=result))
    assert recorded.failed is not None
    with pytest.raises(fedgs.errors.UpdateError, match=message):
        raise recorded.failed.exception


@pytest.mark.parametrize(
    ("aggregation", "message"),
    [
        (Gossip(), "^aggregation 'gossip' needs method.weighting = 'equal'.* got 'data_size'$"),
        (Gossip(server="momentum"), "^aggregation 'gossip' needs the server step 'sgd'"),
    ],
)
def test_combinations_without_meaning_are_refused(
    aggregation: Aggregation, message: str, toy_federation: Federation
) -> None:
    sampler = EQUAL if "server" in message else fedgs.Uniform()
    with pytest.raises(ConfigError, match=message):
        make_plan(toy_federation, sampler, aggregation=aggregation)


def test_gossip_for_another_objective_is_refused(toy_federation: Federation) -> None:
    work = Work(toy_federation, LogisticRegression(), 0.0, 1, 4)
    message = "^aggregation 'gossip' needs training.objective = 'equal'.* got 'data_size'"
    with pytest.raises(ConfigError, match=message):
        make_plan(toy_federation, EQUAL, aggregation=Gossip(), work=work)
    make_plan(toy_federation, EQUAL, aggregation=Gossip(), work=replace(work, objective="equal"))


@pytest.mark.parametrize("aggregation", [Scaffold(), Gossip()], ids=repr)
def test_round_0_is_fedavg(aggregation: Aggregation, toy_federation: Federation) -> None:
    settings: dict[str, Any] = {"sampler": EQUAL, "rounds": 1, "availability": Ideal()}
    ours = run(toy_federation, aggregation, **settings)
    fedavg = run(toy_federation, Mean(), **settings)
    assert ours.final is not None and fedavg.final is not None
    torch.testing.assert_close(ours.final.parameters, fedavg.final.parameters, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_gossip_with_everybody_available_is_fedavg(rate: float, toy_federation: Federation) -> None:
    settings: dict[str, Any] = {"sampler": EQUAL, "availability": Ideal(), "cohort_limit": 6}
    server = {"name": "sgd", "rate": rate}
    ours, fedavg = (run(toy_federation, kind(server=server), **settings) for kind in (Gossip, Mean))
    assert_same_move(ours, fedavg, 1e-6)


@pytest.mark.parametrize("kind", [Mean, Stale, Scaffold])
def test_a_period_that_ends_in_an_empty_round_is_amplified(
    kind: type[Aggregation], toy_federation: Federation
) -> None:
    # Nobody is available in round 4, with which the only period ends.
    settings: dict[str, Any] = {"rounds": 5, "availability": Absences(seed=1), "sampler": EQUAL}
    plain = run(toy_federation, kind(), **settings)
    server = {"name": "amplified", "period": 5, "factor": 3.0}
    amplified = run(toy_federation, kind(server=server), **settings)
    assert plain.records[4].num_available == 0 and plain.final and amplified.final
    start = plain.starts[0].parameters
    torch.testing.assert_close(
        amplified.final.parameters - start,
        3.0 * (plain.final.parameters - start),
        rtol=1e-4,
        atol=1e-6,
    )


def test_scaffold_with_one_step_and_everybody_is_fedavg(toy_federation: Federation) -> None:
    work = Work(toy_federation, LogisticRegression(), 0.0, 1, 4)
    sampler = fedgs.Uniform(weighting="all")
    settings: dict[str, Any] = {"availability": Ideal(), "cohort_limit": 6, "work": work}
    ours = run(toy_federation, Scaffold(), sampler=sampler, **settings)
    fedavg = run(toy_federation, Mean(), sampler=sampler, **settings)
    assert ours.final is not None and fedavg.final is not None
    torch.testing.assert_close(ours.final.parameters, fedavg.final.parameters, rtol=1e-4, atol=1e-5)


class Watching(fedgs.Uniform):
    """Remembers the updates and their norms as clients report them."""

    wanted_reports: ClassVar[Any] = ("update_norm",)

    def wish(self, when: str) -> Any:
        return fedgs.Wish("update", sketch=0) if when == "round" else None

    def start(self, clients: Clients) -> Any:
        return {"wrong": np.zeros(1)}

    def start_from(self, clients: Clients, features: Any) -> Any:
        return self.start(clients)

    def observe(self, memory: Any, view: Any, outcome: Any) -> Any:
        norms = np.linalg.norm(outcome.features, axis=1)
        differ = ~np.isclose(norms, outcome.reports["update_norm"], rtol=1e-4)
        return {"wrong": memory["wrong"] + differ.sum()}


@pytest.mark.parametrize("engine", [LoopEngine(), StackedEngine()], ids=lambda one: one.name)
def test_updates_that_samplers_see_begin_at_the_clients_own_start(
    engine: Any, toy_federation: Federation
) -> None:
    plan = make_plan(
        toy_federation,
        Watching(weighting="equal"),
        aggregation=Gossip(),
        availability=Absences(seed=1),
        rounds=9,
    )
    recorded = RecordedRun(plan)
    drive([recorded.live], engine)
    assert recorded.final is not None and recorded.final.memory["wrong"].tolist() == [0.0]


class WithoutEmpty(Aggregation):
    """Does not expect a round without a cohort."""

    def folds(self, round: Any) -> Any:
        return Mean().folds(round)

    def step(self, round: Any, results: Any) -> Any:
        return results[0], round.vectors


def test_a_step_that_cannot_do_without_a_cohort_is_refused_before_round_0(
    toy_federation: Federation,
) -> None:
    failed = run(toy_federation, WithoutEmpty()).failed
    assert failed is not None and failed.round == 0
    message = "step of aggregation 'WithoutEmpty' in a round without a cohort raised IndexError"
    assert message in str(failed.exception)


class Counted(Aggregation):
    """Counts the calls of `step`, with and without a cohort."""

    def start(self, parameters: Any, clients: Any) -> Any:
        return {"calls": torch.zeros(2, dtype=torch.int64)}

    def folds(self, round: Any) -> Any:
        return Mean().folds(round)

    def step(self, round: Any, results: Any) -> Any:
        calls = round.vectors["calls"].clone()
        calls[0 if results else 1] += 1
        return round.parameters, {"calls": calls}


def test_step_is_called_in_every_round(toy_federation: Federation) -> None:
    ran = run(toy_federation, Counted(), availability=Absences(seed=0), rounds=6)
    assert ran.final is not None
    assert [record.num_available > 0 for record in ran.records[:6]].count(False) == 1
    assert ran.final.vectors["calls"].tolist() == [5, 1]
