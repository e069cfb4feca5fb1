"""Samplers that read replies, in a deployment: what they remember, over rounds and restarts."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord
from flwr.serverapp.strategy import FedAvg

from fedgs.clients import Outcome
from fedgs.errors import ConfigError, FedgsError, RunError, SelectionError
from fedgs.flower import SampledStrategy
from fedgs.flower.selector import Selector
from fedgs.graph import Graph
from fedgs.sampling import Clustered, FedGS, Uniform, Wish

FEATURES: list[Any] = [
    {"name": "clustered"},
    {"name": "clustered", "measure": "l2"},
    {"name": "divfl"},
    {"name": "divfl", "distance": "squared"},
    {"name": "fedgs", "graph": {"similarity": "update"}},
    {"name": "fedgs", "graph": {"similarity": "update", "start": "seen"}},
]


def refused(*values: float) -> Any:
    def changed(reply: Any) -> Any:
        reply.content["arrays"] = ArrayRecord({"w": Array(np.array(values))})
        return reply

    return changed


@pytest.mark.parametrize("method", FEATURES, ids=str)
def test_a_feature_that_cannot_be_compared_is_an_event(
    world: Any, tmp_path: Path, method: dict[str, Any]
) -> None:
    """A client of a float64 model sends finite numbers whose products are not finite."""
    grid = world(["a-0", "b-1", "c-2"])
    grid.faults[101] = refused(1e200, -1e200)
    chosen = SampledStrategy(
        FedAvg(fraction_evaluate=0.0), method, cohort_limit=3, records=tmp_path, clients=None
    )
    model = ArrayRecord({"w": Array(np.zeros(2))})
    result = chosen.start(grid, model, num_rounds=3)
    assert np.isfinite(result.arrays["w"].numpy()).all()
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    found = {(e["client"], e["event"], e["detail"]) for e in events if e["event"] == "feature"}
    assert found == {("b-1", "feature", "its feature is longer than 1e+150")}
    assert chosen.answers["b-1"] > 0
    assert np.isfinite(chosen._selector.state.memory["distance"]).all()


@pytest.mark.parametrize("method", [*FEATURES[:4], FEATURES[5]], ids=str)
def test_a_restarted_server_goes_on_with_the_same_memory(
    world: Any, tmp_path: Path, method: dict[str, Any]
) -> None:
    def deployed() -> Any:
        return SampledStrategy(FedAvg(fraction_evaluate=0.0), method, cohort_limit=2, seed=3)

    keys = ["a-0", "b-1", "c-2", "d-3", "e-4"]
    whole, first, second = deployed(), deployed(), deployed()
    grid, again = world(keys), world(keys)
    for node_grid in (grid, again):
        node_grid.online = [100, 101, 102]
    model = whole.start(grid, grid.model(), num_rounds=2).arrays
    grid.online = None
    whole.start(grid, model, num_rounds=3)
    first.start(again, again.model(), num_rounds=2)
    first.save_state(tmp_path / "state.npz")
    again.online = None
    second.start(again, second.load_state(tmp_path / "state.npz"), num_rounds=3)
    ours, theirs = (chosen._selector.state.memory for chosen in (second, whole))
    assert second.counts == whole.counts and ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name])


@pytest.mark.parametrize("method", FEATURES, ids=str)
def test_updates_of_other_parameters_are_refused_after_a_restart(
    world: Any, tmp_path: Path, method: dict[str, Any]
) -> None:
    def deployed(parameters: list[str]) -> Any:
        inner = FedAvg(fraction_evaluate=0.0)
        return SampledStrategy(inner, method, cohort_limit=2, parameters=parameters)

    grid = world(["a-0", "b-1", "c-2"])
    model = ArrayRecord({name: Array(np.zeros(size)) for name, size in (("w", 2), ("v", 3))})
    first, second = deployed(["w"]), deployed(["w", "v"])
    first.start(grid, model, num_rounds=2)
    first.save_state(tmp_path / "state.npz")
    arrays = second.load_state(tmp_path / "state.npz")
    with pytest.raises(ConfigError, match="whose updates have 2 numbers, got updates of 5"):
        second.start(grid, arrays, num_rounds=2)
    assert second.round == 2


@pytest.mark.parametrize("start", ["all", "seen"])
def test_responses_of_another_length_are_refused_after_a_restart(
    world: Any, tmp_path: Path, start: str
) -> None:
    method = {"name": "fedgs", "graph": {"similarity": "functional", "start": start}}

    def deployed(length: int) -> Any:
        return SampledStrategy(
            FedAvg(fraction_evaluate=0.0),
            method,
            cohort_limit=3,
            responses=lambda model: np.resize(model["w"], length),
            records=tmp_path / "records",
        )

    grid = world(["a-0", "b-1", "c-2", "d-3"])
    grid.online = [100, 101, 102]
    first, second = deployed(2), deployed(3)
    first.start(grid, grid.model(), num_rounds=2)
    first.save_state(tmp_path / "state.npz")
    arrays = second.load_state(tmp_path / "state.npz")
    grid.online = None
    second.start(grid, arrays, num_rounds=3)
    lines = (tmp_path / "records" / "events.jsonl").read_text().splitlines()
    details = {e["detail"] for e in map(json.loads, lines) if e["event"] == "feature"}
    assert details == {"its feature has 3 entries, the others' 2"}
    assert second.round == 5 and second.answers["d-3"] > 0


# Everything with a memory, of a sampler or of a weighting.
REMEMBERING: list[Any] = [
    *FEATURES,
    {"name": "fedgs", "graph": {"similarity": "update", "start": "seen", "structure": "landmarks"}},
    "oort",
    {"name": "uniform", "weighting": "fedau"},
    {"name": "uniform", "weighting": "deficit"},
]


@pytest.mark.parametrize("method", REMEMBERING, ids=str)
def test_clients_met_while_waiting_enter_a_saved_memory(
    world: Any, tmp_path: Path, method: Any
) -> None:
    def deployed(needed: int) -> Any:
        return SampledStrategy(
            FedAvg(fraction_evaluate=0.0),
            method,
            cohort_limit=2,
            min_connected=needed,
            connect_timeout=0.02,
            max_idle_rounds=1,
            seed=3,
            durations=False,
        )

    def ends(waits: bool) -> dict[str, int]:
        grid = world(["a-0", "b-1", "c-2", "d-3", "e-4"])
        grid.online = [100, 101, 102]
        first = deployed(3)
        model = first.start(grid, grid.model(), num_rounds=2).arrays
        grid.online = [103, 104]
        with pytest.raises(RunError, match="3 clients must be connected, 2 are"):
            first.start(grid, model, num_rounds=1)
        grid.online = None
        if waits:
            first.save_state(tmp_path / "state.npz")
            first = deployed(3)
            model = first.load_state(tmp_path / "state.npz")
        first.start(grid, model, num_rounds=3)
        return first.counts

    assert ends(waits=True) == ends(waits=False)


@pytest.mark.parametrize("method", FEATURES, ids=str)
def test_arrays_of_integers_are_no_part_of_an_update_in_any_round(
    world: Any, tmp_path: Path, method: dict[str, Any]
) -> None:
    def deployed() -> Any:
        return SampledStrategy(
            FedAvg(fraction_evaluate=0.0), method, cohort_limit=2, records=tmp_path / "records"
        )

    grid = world(["a-0", "b-1", "c-2", "d-3"])
    arrays = {"ids": np.arange(3), "flags": np.array([True]), "w": np.zeros(2, np.float32)}
    model = ArrayRecord({name: Array(array) for name, array in arrays.items()})
    first, second = deployed(), deployed()
    for _ in range(2):  # a second start has the model of the first one
        model = first.start(grid, model, num_rounds=3).arrays
        for name, array in arrays.items():
            assert model[name].numpy().dtype == array.dtype
    first.save_state(tmp_path / "state.npz")
    second.start(grid, second.load_state(tmp_path / "state.npz"), num_rounds=2)
    assert second.round == 8
    assert not (tmp_path / "records" / "events.jsonl").read_text()


class AveragesNothing(FedAvg):
    """A strategy of the user that leaves a model out."""

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        return None, None


@pytest.mark.parametrize("method", [*FEATURES[:4], FEATURES[5]], ids=str)
def test_updates_that_no_average_holds_are_not_remembered(
    world: Any, method: dict[str, Any]
) -> None:
    chosen = SampledStrategy(AveragesNothing(fraction_evaluate=0.0), method, cohort_limit=2)
    grid = world(["a-0", "b-1", "c-2"])
    chosen.start(grid, grid.model(), num_rounds=2)
    memory = chosen._selector.state.memory
    assert not memory["features"].any() and not any(chosen.answers.values())


class Longest(Clustered):
    """A sampler of one's own, with one more array than its base class."""

    def start(self, clients: Any) -> Any:
        return {**super().start(clients), "longest": np.full(len(clients), -1.0)}

    def observe(self, memory: Any, view: Any, outcome: Any) -> Any:
        longest = memory["longest"].copy()
        longest[outcome.clients] = np.abs(outcome.features).max(axis=1)
        return {**super().observe(memory, view, outcome), "longest": longest}


def test_an_array_that_the_base_class_does_not_grow_grows_as_any_other(world: Any) -> None:
    chosen = SampledStrategy(FedAvg(fraction_evaluate=0.0), Longest(), cohort_limit=5)
    grid = world(["a-0", "b-1", "c-2", "d-3"])
    grid.online = [100, 101]
    model = chosen.start(grid, grid.model(), num_rounds=2).arrays
    grid.online = [100, 101, 102]
    model = chosen.start(grid, model, num_rounds=1).arrays
    assert (chosen._selector.state.memory["longest"] > 0).tolist() == [True] * 3
    grid.online = None
    chosen.start(grid, model, num_rounds=1)
    assert (chosen._selector.state.memory["longest"] > 0).tolist() == [True] * 4


class OwnMemory(FedGS):
    """A sampler of one's own with a graph and a memory."""

    def observe(self, memory: Any, view: Any, outcome: Any) -> Any:
        return super().observe(memory, view, outcome)


def test_a_memory_beside_a_graph_that_is_made_here_is_refused() -> None:
    for graph in (Graph(), Graph(similarity="update")):
        with pytest.raises(ConfigError, match="'fedgs' has a memory of its own, and a deployment"):
            Selector(OwnMemory(graph=graph))
    Selector(OwnMemory(graph=Graph(similarity="update", start="seen")))


class Wishing(Clustered):
    """A sampler of one's own that asks for something else."""

    made: Any = None

    def wish(self, when: str) -> Any:
        return self.made() if when == "round" else None


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: "update", r"^wish must return a fedgs.sampling.Wish or None, got 'update'"),
        (lambda: Wish("gradient"), "^Wish.kind must be 'update' or 'functional', got 'gradient'"),
        (lambda: Wish("update", sketch=1.5), "^Wish.sketch must be an integer >= 0, got 1.5"),
        (lambda: Wish("update", sketch=True), "^Wish.sketch must be an integer >= 0, got True"),
        (lambda: Wish("update", sketch=-1), "^Wish.sketch must be an integer >= 0, got -1"),
        (lambda: Wish("functional", layer="0"), "^Wish.layer has no effect in a deployment"),
    ],
)
def test_a_wish_that_cannot_be_met_is_refused(made: Any, message: str) -> None:
    with pytest.raises(FedgsError, match=message):
        Selector(Wishing(made=made), responses=lambda model: model["w"])


@pytest.mark.parametrize("answer", ["text", [[1.0], [1.0, 2.0]], {}])
def test_responses_that_are_no_numbers_are_the_users_error(world: Any, answer: Any) -> None:
    chosen = SampledStrategy(
        FedAvg(fraction_evaluate=0.0),
        {"name": "fedgs", "graph": {"similarity": "functional"}},
        cohort_limit=2,
        responses=lambda model: answer,
    )
    grid = world(["a-0", "b-1"])
    with pytest.raises(ConfigError, match=r"^SampledStrategy\(responses=...\) raised"):
        chosen.start(grid, grid.model(), num_rounds=1)


class OwnGraph(Uniform):
    """A sampler of one's own whose graph of first replies is made for it."""

    graph: Graph = Graph(similarity="update")


def test_a_graph_is_made_for_any_sampler_that_has_one() -> None:
    selector = Selector(OwnGraph())
    for row, name in enumerate("ab"):
        selector.meet(name)
        models = ({"w": np.zeros(2)}, {"w": np.eye(2)[row]})
        assert selector.learn(row, size=5, models=lambda models=models: models) is None
    assert selector.roster.features.keys() == {0, 1}
    assert selector.view(np.arange(2), 2).memory["distance"].tolist() == [[0, 1], [1, 0]]


def test_a_memory_that_cannot_be_kept_is_refused() -> None:
    class Listing(Uniform):
        wrong: str = "observe"

        def start(self, clients: Any) -> Any:
            return [1] if self.wrong == "start" else {"seen": np.zeros(len(clients))}

        def observe(self, memory: Any, view: Any, outcome: Any) -> Any:
            return [1]

    for wrong in ("start", "observe"):
        selector = Selector(Listing(wrong=wrong))
        selector.meet("a")
        with pytest.raises(SelectionError, match=f"^{wrong} must return a mapping"):
            selector.observe(selector.view(np.arange(1), 1), Outcome(np.arange(1), np.ones(1)))
