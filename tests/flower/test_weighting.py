"""Weightings in a deployment: sums of any value, memories, restarts, refusals."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord
from flwr.serverapp.strategy import FedAvg, FedAvgM
from tests.flower.conftest import without_times

from fedgs.arrays import FloatArray
from fedgs.clients import Clients, Memory, Outcome, Selection, View
from fedgs.errors import ConfigError, SelectionError
from fedgs.flower import SampledStrategy
from fedgs.registry import build
from fedgs.rng import stream
from fedgs.sampling import Sampler, Uniform
from fedgs.weighting import Weighting

SITES = tuple(f"site-{k}" for k in range(5))
SIZES = [10, 20, 30, 40, 50]
FEDERATION = Clients(SITES, np.array(SIZES))
LABELLED = Clients(
    SITES, np.array(SIZES), np.array([[10, 0], [10, 10], [0, 30], [25, 15], [5, 45]])
)
OURS = {"name": "inverse_participation", "normalise": False}
UNNORMALISED: list[Any] = ["all", "fedau", "f3ast", OURS]
SHARES = {"name": "fedgs", "weighting": "deficit", "balance": "share"}


class First(Sampler):
    """The first available clients."""

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        return Selection(view.available[: view.cohort_size])


class Log(Weighting):
    """Remembers the rounds, and the clients and weights of each one's outcome."""

    value: float = 1.0

    @property
    def is_normalised(self) -> bool:
        return False

    def start(self, clients: Clients, cohort_limit: int) -> Memory:
        return {"sums": np.zeros(len(clients)), "empty": np.zeros(1), "met": np.zeros(1)}

    def weights(self, view: View, selection: Selection, memory: Memory) -> FloatArray:
        return np.full(len(selection.clients), self.value)

    def observe(self, memory: Memory, view: View, outcome: Outcome | None) -> Memory:
        sums = memory["sums"].copy()
        if outcome is not None:
            sums[outcome.clients] += outcome.weights
        empty = memory["empty"] + (outcome is None)
        return {"sums": sums, "empty": empty, "met": memory["met"] + len(view.available)}


def strategy(sampler: Any, inner: Any = None, **settings: Any) -> SampledStrategy:
    defaults = {
        "cohort_limit": 2,
        "min_connected": 0,
        "connect_timeout": 0.05,
        "reply_timeout": 0.2,
        "clients": FEDERATION,
    }
    inner = inner if inner is not None else FedAvg(fraction_evaluate=0.0)
    return SampledStrategy(inner, sampler, **{**defaults, **settings})


def grid_of(world: Any, chosen: SampledStrategy, script: list[list[int]] | None = None) -> Any:
    grid = world(list(SITES), app=world.default_app(sizes=SIZES))
    if script is not None:
        grid.script = lambda: [100 + k for k in script[min(chosen.round, len(script) - 1)]]
    return grid


def weighting_memory(chosen: SampledStrategy) -> Memory:
    return chosen._selector.state.weighting


@pytest.mark.parametrize(
    ("inner", "factor"),
    [(FedAvg(fraction_evaluate=0.0), 1.0), (FedAvgM(server_learning_rate=0.5), 0.5)],
    ids=["fedavg", "fedavgm"],
)
def test_weights_that_do_not_sum_to_1_apply_to_the_updates(
    world: Any, inner: Any, factor: float
) -> None:
    chosen = strategy(First(weighting="all"), inner)
    result = chosen.start(grid_of(world, chosen), world.model(3.0, 1.0), num_rounds=1)
    # Clients 0 and 1 move by 1 and 2 and have 10 and 20 of 150 examples.
    move = factor * (1 / 15 * 1 + 2 / 15 * 2)
    assert result.arrays["w"].numpy() == pytest.approx([3.0 + move, 1.0], rel=1e-6)
    assert result.arrays["w"].numpy().dtype == np.float32


def test_weights_follow_the_objective(world: Any) -> None:
    chosen = strategy(First(weighting="all"), objective="equal")
    result = chosen.start(grid_of(world, chosen), world.model(3.0, 1.0), num_rounds=1)
    # Clients 0 and 1 move by 1 and 2, and p_k = 1/5.
    assert result.arrays["w"].numpy() == pytest.approx([3.0 + 3 / 5, 1.0], rel=1e-6)


@pytest.mark.parametrize(("value", "expected"), [(0.0, 3.0), (0.25, 3.75), (10.0, 33.0)])
def test_a_sum_may_be_0_below_1_or_above(world: Any, value: float, expected: float) -> None:
    chosen = strategy(First(weighting=Log(value=value)))
    result = chosen.start(grid_of(world, chosen), world.model(3.0, 1.0), num_rounds=1)
    assert result.arrays["w"].numpy() == pytest.approx([expected, 1.0], rel=1e-6)


def test_whole_numbers_and_running_statistics_are_averaged(world: Any) -> None:
    def counting(reply: Any) -> Any:
        arrays = {name: array.numpy().copy() for name, array in reply.content["arrays"].items()}
        for name in ("bn.running_var", "bn.num_batches_tracked"):
            arrays[name] += 4
        reply.content["arrays"] = ArrayRecord({n: Array(array) for n, array in arrays.items()})
        return reply

    chosen = strategy(First(weighting=Log(value=10.0)))
    grid = grid_of(world, chosen)
    grid.faults = {100: counting, 101: counting}
    model = ArrayRecord(
        {
            "w": Array(np.array([3.0, 1.0], dtype=np.float32)),
            "bn.running_var": Array(np.array([5.0], dtype=np.float32)),
            "bn.num_batches_tracked": Array(np.array([7])),
        }
    )
    result = chosen.start(grid, model, num_rounds=1)
    moved = {name: array.numpy().tolist() for name, array in result.arrays.items()}
    assert moved == {"w": [33.0, 1.0], "bn.running_var": [9.0], "bn.num_batches_tracked": [11.0]}


@pytest.mark.parametrize(
    "method",
    [
        *(
            {"name": "least_recent", "weighting": rule}
            for rule in (*UNNORMALISED, "inverse_participation", "deficit")
        ),
        SHARES,
    ],
    ids=str,
)
def test_a_restart_between_participations_goes_on_exactly(
    world: Any, tmp_path: Path, method: dict[str, Any]
) -> None:
    # Client 4 is absent from round 1 to round 6; nobody is available in rounds 3 and 5.
    script = [[3, 4], [0, 1], [1, 2, 3], [], [0, 3], [], [2, 4], [1, 4]]

    def run(folder: Path, *parts: int) -> tuple[FloatArray, list[Any], Memory]:
        model = world.model()
        for rounds in parts:
            chosen = strategy(
                build("method", method),
                clients=LABELLED,
                state=folder / "state.npz",
                records=folder / "records",
            )
            if (folder / "state.npz").exists():
                model = chosen.load_state(folder / "state.npz")
            result = chosen.start(grid_of(world, chosen, script), model, num_rounds=rounds)
        lines = without_times((folder / "records" / "rounds.jsonl").read_text())
        return result.arrays["w"].numpy(), lines, weighting_memory(chosen)

    whole, halves = run(tmp_path / "whole", 8), run(tmp_path / "halves", 4, 1, 3)
    assert halves[0].tobytes() == whole[0].tobytes()
    assert halves[1] == whole[1]
    assert list(halves[2]) == list(whole[2])
    assert all(halves[2][name].tobytes() == whole[2][name].tobytes() for name in whole[2])


@pytest.mark.parametrize(
    "method", [*({"name": "f3ast", "weighting": rule} for rule in UNNORMALISED), SHARES], ids=str
)
def test_simulator_and_deployment_have_the_same_weights(
    world: Any, tmp_path: Path, method: dict[str, Any]
) -> None:
    pytest.importorskip("torch")
    from fedgs.availability import AvailabilityFile
    from fedgs.config import Config
    from fedgs.data import Synthetic
    from fedgs.experiments.preparing import prepare
    from fedgs.experiments.runner import run_all
    from fedgs.records import RunFolder

    rounds, data = 14, Synthetic(clients=8)
    available = stream(1, "script").random((8, rounds)) < 0.4
    available[:, [0, 6, 7, 11]] = False
    np.save(tmp_path / "available.npy", available)
    config = Config(
        data=data,
        availability=AvailabilityFile(path=str(tmp_path / "available.npy")),
        method=method,
        training={"rounds": rounds, "cohort_limit": 3, "local_steps": 1},
        evaluation={"every": rounds},
    )
    simulated = run_all(prepare([config]), out=None)[0].records
    clients = data.load().clients
    chosen = strategy(
        build("method", method), clients=clients, cohort_limit=3, records=tmp_path / "records"
    )
    grid = world(list(clients.names), app=world.default_app(sizes=clients.data_sizes.tolist()))
    grid.script = lambda: [
        100 + int(k) for k in np.flatnonzero(available[:, min(chosen.round, rounds - 1)])
    ]
    chosen.start(grid, world.model(), num_rounds=rounds)
    records = RunFolder(tmp_path / "records").records()
    assert sum(not record.cohort for record in simulated[:-1]) >= 4
    for ours, theirs in zip(records[:-1], simulated[:-1], strict=True):
        assert list(ours.cohort or []) == list(theirs.cohort or [])
        assert ours.weights == pytest.approx(theirs.weights, rel=1e-12)


def test_every_round_is_observed_also_an_aborted_one(world: Any) -> None:
    # Rounds 0 and 2: nobody is connected. Rounds 1 and 3: the reply of client 1 is refused.
    script = [[], [0, 1], [], [1], [0]]

    def refused(reply: Any) -> Any:
        reply.content["metrics"]["num-examples"] = 0
        return reply

    chosen = strategy(First(weighting=Log(value=2.0)))
    grid = grid_of(world, chosen, script)
    grid.faults = {101: refused}
    chosen.start(grid, world.model(), num_rounds=5)
    memory = weighting_memory(chosen)
    assert memory["sums"].tolist() == [4.0, 0.0, 0.0, 0.0, 0.0]
    assert memory["empty"].tolist() == [3.0]
    assert memory["met"].tolist() == [4.0]


def test_an_average_that_is_not_finite_counts_as_no_round_of_its_clients(world: Any) -> None:
    chosen = strategy(First(weighting=Log(value=1e300)))
    result = chosen.start(grid_of(world, chosen), world.model(3.0, 1.0), num_rounds=1)
    assert result.arrays["w"].numpy().tolist() == [3.0, 1.0]
    assert weighting_memory(chosen)["sums"].tolist() == [0.0] * 5
    assert weighting_memory(chosen)["empty"].tolist() == [1.0]


def test_an_empty_selection_is_observed(world: Any) -> None:
    class Nobody(First):
        def select(self, view: View, rng: np.random.Generator) -> Selection:
            return Selection(view.available[:0])

    chosen = strategy(Nobody(weighting=Log()))
    chosen.start(grid_of(world, chosen), world.model(), num_rounds=3)
    assert weighting_memory(chosen)["empty"].tolist() == [3.0]


def test_the_memory_grows_with_clients_that_join_in_the_middle(world: Any) -> None:
    chosen = strategy(First(weighting={"name": "fedau"}), clients=None)
    script = [[0, 1], [0], [0], [0, 1], [1, 2, 3]]
    chosen.start(grid_of(world, chosen, script), world.model(), num_rounds=4)
    before = weighting_memory(chosen)
    # Client 1: intervals of 1 and 3 rounds.
    assert before["mean"].tolist() == [1.0, 2.0]
    chosen.start(grid_of(world, chosen, script), world.model(), num_rounds=1)
    after = weighting_memory(chosen)
    assert after["mean"].tolist() == [1.0, 5 / 3, 1.0, 1.0]
    assert after["rounds"].tolist() == [1, 0, 0, 1]
    assert after["intervals"].tolist() == [4, 3, 1, 0]


def test_a_state_without_the_weightings_memory_is_continued_with_a_fresh_one(
    world: Any, tmp_path: Path
) -> None:
    first = strategy(Uniform(weighting="fedau"))
    first.start(grid_of(world, first), world.model(), num_rounds=3)
    first.save_state(tmp_path / "state.npz")
    with np.load(tmp_path / "state.npz") as stored:
        arrays = dict(stored)
    meta = json.loads(str(arrays.pop("meta")))
    assert list(meta["names"].pop("weighting")) == ["rounds", "intervals", "mean"]
    meta["format"] = 2
    arrays = {name: array for name, array in arrays.items() if not name.startswith("weighting.")}
    np.savez(tmp_path / "old.npz", meta=np.array(json.dumps(meta)), **arrays)
    again = strategy(Uniform(weighting="fedau"))
    again.start(grid_of(world, again), again.load_state(tmp_path / "old.npz"), num_rounds=1)
    assert again.round == 4
    assert weighting_memory(again)["intervals"].sum() == 2


def test_a_state_without_a_weightings_memory_has_no_such_arrays(world: Any, tmp_path: Path) -> None:
    chosen = strategy(Uniform())
    chosen.start(grid_of(world, chosen), world.model(), num_rounds=1)
    chosen.save_state(tmp_path / "state.npz")
    with np.load(tmp_path / "state.npz") as stored:
        meta = json.loads(str(stored["meta"]))
        assert sorted(meta["names"]) == ["memory", "model", "optimizer"]


def test_known_rates_are_refused_before_anything_starts() -> None:
    message = (
        r"^weighting 'known' reads the true rates of availability, which a deployment does not "
        r"know; 'fedau' estimates them$"
    )
    with pytest.raises(ConfigError, match=message):
        strategy(Uniform(weighting="known"))


def test_a_selection_may_not_name_a_weighting_with_a_memory(world: Any) -> None:
    class Naming(First):
        def select(self, view: View, rng: np.random.Generator) -> Selection:
            return Selection(view.available[: view.cohort_size], weighting="fedau")

    chosen = strategy(Naming())
    with pytest.raises(SelectionError, match="reads neither rates nor earlier rounds; got 'fedau'"):
        chosen.start(grid_of(world, chosen), world.model(), num_rounds=1)


def test_a_selection_may_name_a_weighting_of_any_sum(world: Any) -> None:
    class Naming(First):
        def select(self, view: View, rng: np.random.Generator) -> Selection:
            return Selection(view.available[: view.cohort_size], weighting="all")

    chosen = strategy(Naming())
    result = chosen.start(grid_of(world, chosen), world.model(), num_rounds=1)
    assert result.arrays["w"].numpy()[0] == pytest.approx(1 / 3, rel=1e-6)


def test_ca_fed_asks_all_for_losses_and_goes_on_after_a_restart(world: Any, tmp_path: Path) -> None:
    # Client k's loss is k, so the last clients can be dropped; nobody is connected in round 3.
    script = [[0, 1, 2, 3, 4], [3, 4], [0, 1, 4], [], [0, 2, 3], [1, 4], [0, 1, 2, 3, 4]]
    method = build("method", "ca_fed")

    def run(folder: Path, *parts: int) -> tuple[FloatArray, Memory, Any]:
        model = world.model()
        for rounds in parts:
            chosen = strategy(method, state=folder / "state.npz", cohort_limit=5)
            if (folder / "state.npz").exists():
                model = chosen.load_state(folder / "state.npz")
            grid = grid_of(world, chosen, script)
            result = chosen.start(grid, model, num_rounds=rounds)
        return result.arrays["w"].numpy(), weighting_memory(chosen), grid

    whole, halves = run(tmp_path / "whole", 7), run(tmp_path / "halves", 2, 2, 3)
    assert halves[0].tobytes() == whole[0].tobytes()
    assert all(halves[1][name].tobytes() == whole[1][name].tobytes() for name in whole[1])
    memory = whole[1]
    assert memory["rounds"].tolist() == [7] * 5
    assert memory["on"].tolist() == [sum(k in present for present in script) for k in range(5)]
    assert memory["losses"].tolist() == [0, 1, 2, 3, 4]
    asked = [node for kind, node in whole[2].asked if kind == "evaluate"]
    assert len(asked) == sum(map(len, script))
