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
from fedgs.sampling import Clustered, Wish

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


# Samplers that read updates, with clients that train from a model of their own.
HELD: dict[str, dict[str, Any]] = {
    "clustered": {"name": "clustered", "weighting": "equal", "measure": "l2"},
    "divfl": {"name": "divfl", "weighting": "equal"},
    "functional": {
        "name": "fedgs",
        "weighting": "equal",
        "graph": {"similarity": "functional", "start": "seen"},
    },
}


@pytest.mark.parametrize("echo", [False, True])
@pytest.mark.parametrize("name", HELD)
def test_updates_are_from_the_model_that_the_client_started_from(
    world: Any, tmp_path: Path, name: str, echo: bool
) -> None:
    server = {"name": "sgd", "rate": 0.5}
    tables = {
        **AGGREGATIONS["fedawe"],
        "aggregation": {"name": "gossip", "server": server, "echo": echo},
        "method": HELD[name],
    }
    simulation, deployed = both(world, tmp_path, tables)
    assert {event["event"] for event in deployed.events()} == {"gave_up"}, deployed.detail
    assert_same(simulation, deployed)
    ours, theirs = deployed.strategy._selector.state.memory, simulation.final.memory
    assert ours.keys() == theirs.keys()
    for array in ours:
        np.testing.assert_allclose(ours[array], theirs[array], rtol=1e-3, atol=1e-4, err_msg=array)


@pytest.mark.parametrize("method", ["clustered", "rpow_d"])
def test_what_the_cohorts_training_gives_is_refused_where_others_train_too(method: str) -> None:
    with pytest.raises(ConfigError, match=f"'postponed' trains clients .* method '{method}' reads"):
        SampledStrategy(
            FedAvg(),
            {"name": method, "weighting": "equal"},
            aggregation="postponed",
            objective="equal",
        )


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_an_aggregation_gives_the_simulators_model(world: Any, tmp_path: Path, name: str) -> None:
    simulation, deployed = both(world, tmp_path, AGGREGATIONS[name])
    assert {event["event"] for event in deployed.events()} == {"gave_up"}, deployed.detail
    assert_same(simulation, deployed)


# Graphs that grow with the cohorts.
SEEN: list[dict[str, Any]] = [
    {"similarity": "oracle", "start": "seen"},
    {"similarity": "update", "start": "seen", "sketch": 32},
    {"similarity": "update", "start": "seen", "refresh": 0.0, "normalize": False},
    {"similarity": "functional", "start": "seen"},
    {"similarity": "update", "start": "seen", "structure": "landmarks", "landmarks": 4},
]
# Deployed and simulated runs of these are compared; all others must be refused by name.
METHODS: list[Any] = [
    *("active_fl", "ca_fed", "clustered", "clustered_sizes", "divfl", "f3ast", "fedgs"),
    *("least_recent", "md", "oort", "permutation", "power_of_choice", "rbcs_f", "rpow_d"),
    "uniform",
    {"name": "cpow_d", "candidates": 4, "loss_batch": 8},
    {"name": "fedgs", "balance": "answered"},
    {"name": "fedgs", "balance": "share", "weighting": "deficit"},
    {"name": "clustered", "measure": "l2", "sketch": 16},
    {"name": "divfl", "first_updates": "first_contact", "distance": "cosine"},
    *({"name": "fedgs", "graph": graph} for graph in SEEN),
]
WEIGHTINGS = ["all", "ca_fed", "coverage", "deficit", "draws", "equal", "f3ast", "fedau"]
WEIGHTINGS += ["data_size", "inverse_participation"]
REFUSED = {
    "weighting": {
        "known": "weighting 'known' reads the true rates of availability",
    },
}


def short_or_long(value: Any) -> Any:
    """Plain names are left to the long tests, but for those whose memory is the hardest to keep."""
    is_long = isinstance(value, str) and value not in ("ca_fed", "fedau", "oort", "power_of_choice")
    return pytest.param(value, marks=pytest.mark.long if is_long else ())


def test_all_that_is_registered_is_compared_or_refused() -> None:
    methods = {method if isinstance(method, str) else method["name"] for method in METHODS}
    assert methods == set(built_in("method"))
    assert {*WEIGHTINGS, *REFUSED["weighting"]} == set(built_in("weighting"))
    aggregations = {tables["aggregation"]["name"] for tables in AGGREGATIONS.values()}
    assert {*aggregations, "mean"} == set(built_in("aggregation"))


@pytest.mark.parametrize("method", [short_or_long(method) for method in METHODS], ids=str)
def test_a_method_gives_the_simulators_cohorts(world: Any, tmp_path: Path, method: Any) -> None:
    simulation, deployed = both(world, tmp_path, {"method": method})
    assert_same(simulation, deployed)


@pytest.mark.parametrize("weighting", [short_or_long(name) for name in WEIGHTINGS])
def test_a_weighting_gives_the_simulators_model(world: Any, tmp_path: Path, weighting: str) -> None:
    sampler = {"draws": "md", "ca_fed": "ca_fed", "coverage": "divfl"}.get(weighting, "uniform")
    method = {"name": sampler, "weighting": weighting}
    simulation, deployed = both(world, tmp_path, {"method": method})
    assert_same(simulation, deployed)


def test_features_of_all_clients_before_round_0_are_refused() -> None:
    class Everyone(Clustered):
        def wish(self, when: Any) -> Wish:
            return Wish("update")

    for method, why in (
        ({"name": "divfl", "first_updates": "everyone"}, "method.first_updates = 'zeros' or 'firs"),
        (Everyone(), "use a method that reads the features of each cohort"),
    ):
        with pytest.raises(ConfigError, match=f"needs features of all clients before .*{why}"):
            SampledStrategy(FedAvg(), method)


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
