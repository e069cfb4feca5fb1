"""What is registered gives the simulator's cohorts and model in a deployment, or is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

from flwr.serverapp.strategy import FedAvg
from tests.flower.federated import Deployed, availability, configuration, simulated
from tests.parts import built_in

from fedgs.aggregation import Aggregation, Mean
from fedgs.errors import ConfigError
from fedgs.flower import SampledStrategy
from fedgs.registry import build

ROUNDS = 6
AGGREGATIONS: dict[str, dict[str, Any]] = {
    "scaffold": {"aggregation": {"name": "scaffold"}},
    "scaffold, adam": {
        "aggregation": {"name": "scaffold", "server": {"name": "adam", "rate": 0.1}}
    },
    "feddyn": {"aggregation": {"name": "feddyn", "alpha": 0.1}, "training": {"mu": 0.1}},
    "mifa": {
        "aggregation": {"name": "stale", "unit": "gradient"},
        "method": {"name": "uniform", "weighting": "all"},
        # In a round without replies the server counts with the last learning rate that it knows.
        "training": {"decay": 1.0},
    },
    "fedvarp": {
        "aggregation": {"name": "stale"},
        "method": {"name": "uniform", "weighting": "equal"},
    },
    "fedstale": {"aggregation": {"name": "stale", "beta": 0.4, "move_when_empty": False}},
    "fedawe": {
        "aggregation": {"name": "gossip", "server": {"name": "sgd", "rate": 0.5}},
        "method": {"name": "uniform", "weighting": "equal"},
        "training": {"objective": "equal"},
    },
    "fedpbc": {
        "aggregation": {"name": "postponed"},
        "method": {"name": "uniform", "weighting": "equal"},
        "training": {"objective": "equal"},
    },
}


def both(world: Any, folder: Path, tables: dict[str, Any], **settings: Any) -> tuple[Any, Deployed]:
    available = availability(ROUNDS, folder)
    if "aggregation" in tables:
        available[:, 4] = False  # a round without clients
    np.save(folder / "available.npy", available)
    config = configuration(folder, rounds=ROUNDS, **{"method": "fedgs", **tables})
    deployed = Deployed(
        world,
        config,
        available,
        folder,
        sampler=build("method", tables.get("method", "fedgs")),
        aggregation=tables.get("aggregation", "mean"),
        objective=tables.get("training", {}).get("objective", "data_size"),
        connect_timeout=0.02,
        durations=False,  # the simulation has no clock
        **settings,
    )
    return simulated(config), deployed.start(ROUNDS)


def assert_same(simulation: Any, deployed: Deployed) -> None:
    for theirs, ours in zip(simulation.records[:-1], deployed.records[:-1], strict=True):
        names = [f"site-{k}" for k in theirs.cohort]
        assert names == list(ours.cohort), f"round {ours.round}"
        assert ours.weights == pytest.approx(theirs.weights, rel=1e-6)
    theta = simulation.final.parameters.numpy()
    assert np.abs(theta - deployed.models[0]).max() > 1e-2  # it has moved
    np.testing.assert_allclose(deployed.models[-1], theta, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_an_aggregation_gives_the_simulators_model(world: Any, tmp_path: Path, name: str) -> None:
    simulation, deployed = both(world, tmp_path, AGGREGATIONS[name])
    assert {event["event"] for event in deployed.events()} == {"gave_up"}, deployed.detail
    assert_same(simulation, deployed)


# Deployed and simulated runs of these are compared; all others must be refused by name.
METHODS: list[Any] = [
    *("active_fl", "ca_fed", "clustered_sizes", "f3ast", "fedgs", "least_recent", "md", "oort"),
    *("permutation", "power_of_choice", "rbcs_f", "rpow_d", "uniform"),
    {"name": "cpow_d", "candidates": 4, "loss_batch": 8},
    {"name": "fedgs", "balance": "answered"},
    {"name": "fedgs", "balance": "share", "weighting": "deficit"},
]
WEIGHTINGS = ["all", "ca_fed", "deficit", "draws", "equal", "f3ast", "fedau"]
WEIGHTINGS += ["data_size", "inverse_participation"]
REFUSED = {
    "method": {
        "clustered": "method 'clustered' needs features of local models",
        "divfl": "method 'divfl' needs features of local models",
    },
    "weighting": {
        "coverage": "needs the distances of method 'divfl'",
        "known": "weighting 'known' reads the true rates of availability",
    },
}


def short_or_long(value: Any) -> Any:
    """Plain names are left to the long tests, but for those whose memory is the hardest to keep."""
    is_long = isinstance(value, str) and value not in ("ca_fed", "fedau", "oort", "power_of_choice")
    return pytest.param(value, marks=pytest.mark.long if is_long else ())


def test_all_that_is_registered_is_compared_or_refused() -> None:
    methods = {method if isinstance(method, str) else method["name"] for method in METHODS}
    assert methods | set(REFUSED["method"]) == set(built_in("method"))
    assert {*WEIGHTINGS, *REFUSED["weighting"]} == set(built_in("weighting"))
    aggregations = {tables["aggregation"]["name"] for tables in AGGREGATIONS.values()}
    assert {*aggregations, "mean"} == set(built_in("aggregation"))


@pytest.mark.parametrize("method", [short_or_long(method) for method in METHODS], ids=str)
def test_a_method_gives_the_simulators_cohorts(world: Any, tmp_path: Path, method: Any) -> None:
    simulation, deployed = both(world, tmp_path, {"method": method})
    assert_same(simulation, deployed)


@pytest.mark.parametrize("weighting", [short_or_long(name) for name in WEIGHTINGS])
def test_a_weighting_gives_the_simulators_model(world: Any, tmp_path: Path, weighting: str) -> None:
    sampler = {"draws": "md", "ca_fed": "ca_fed"}.get(weighting, "uniform")
    method = {"name": sampler, "weighting": weighting}
    simulation, deployed = both(world, tmp_path, {"method": method})
    assert_same(simulation, deployed)


@pytest.mark.parametrize("name", REFUSED["method"])
def test_a_method_is_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigError, match=REFUSED["method"][name]):
        SampledStrategy(FedAvg(), name)


@pytest.mark.parametrize("name", REFUSED["weighting"])
def test_a_weighting_is_refused_by_name(world: Any, name: str) -> None:
    def deploy() -> None:
        chosen = SampledStrategy(FedAvg(), {"name": "uniform", "weighting": name})
        chosen.start(world(["a", "b"]), world.model(), num_rounds=1)

    with pytest.raises(ConfigError, match=REFUSED["weighting"][name]):
        deploy()


def test_an_aggregation_of_ones_own_is_refused_by_name() -> None:
    class Half(Mean):
        pass

    for own in (Half(), Aggregation()):
        with pytest.raises(ConfigError, match=f"'{type(own).__name__}' cannot be deployed"):
            SampledStrategy(FedAvg(), "uniform", aggregation=own)
