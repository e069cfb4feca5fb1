"""Server steps in a deployment: those of the simulator, restarts, refusals."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

import torch
from flwr.app import Array, ArrayRecord
from flwr.serverapp import strategy as strategies
from flwr.serverapp.strategy import FedAvg

from fedgs.aggregation import Mean
from fedgs.clients import Clients, Selection, View
from fedgs.errors import ConfigError, OutputError
from fedgs.flower import SampledStrategy
from fedgs.records import RunFolder
from fedgs.sampling import Sampler, Uniform

SITES = tuple(f"site-{k}" for k in range(5))
FEDERATION = Clients(SITES, np.array([10, 20, 30, 40, 50]))
STEPS: list[Any] = [
    {"name": "sgd", "rate": 0.5},
    {"name": "momentum", "rate": 0.7},
    {"name": "adagrad", "rate": 0.1},
    {"name": "adam", "rate": 0.1},
    {"name": "yogi", "rate": 0.1},
    {"name": "amplified", "period": 3, "factor": 2.0},
]
# Rounds 1 and 5 have no client; a period of three rounds ends in round 5.
SCRIPT = [[0, 1, 2], [], [1, 3, 4], [0], [2, 3], [], [0, 1, 2, 3, 4], [4]]


class Recording(FedAvg):
    """Keeps what each round averages to."""

    averages: list[dict[str, np.ndarray] | None]

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        arrays, metrics = super().aggregate_train(server_round, replies)
        self.averages.append({name: array.numpy().copy() for name, array in arrays.items()})
        return arrays, metrics


def strategy(server: Any, inner: Any = None, sampler: Any = None, **more: Any) -> SampledStrategy:
    settings = {
        "cohort_limit": 2,
        "min_connected": 0,
        "connect_timeout": 0.05,
        "reply_timeout": 0.2,
        "clients": FEDERATION,
        "max_idle_rounds": None,
    }
    inner = inner if inner is not None else FedAvg(fraction_evaluate=0.0)
    return SampledStrategy(inner, sampler or Uniform(), server=server, **{**settings, **more})


def grid_of(world: Any, chosen: SampledStrategy) -> Any:
    grid = world(list(SITES), app=world.default_app(sizes=FEDERATION.data_sizes.tolist()))
    grid.script = lambda: [100 + k for k in SCRIPT[min(chosen.round, len(SCRIPT) - 1)]]
    return grid


@pytest.mark.parametrize("server", STEPS, ids=lambda step: step["name"])
def test_the_steps_are_those_of_the_simulator(world: Any, server: Any) -> None:
    models, inner = [], Recording(fraction_evaluate=0.0)
    inner.averages = []
    chosen = strategy(server, inner)
    chosen.start(
        grid_of(world, chosen),
        world.model(3.0, -1.0, 0.5),
        num_rounds=len(SCRIPT),
        evaluate_fn=lambda done, arrays: models.append(arrays["w"].numpy().copy()),
    )
    step, averages = Mean(server=server).server_step, iter(inner.averages)
    theta = torch.tensor([3.0, -1.0, 0.5])
    moments = step.start(theta)
    for t, available in enumerate(SCRIPT):
        average = next(averages)["w"] if available else None
        target = None if average is None else torch.from_numpy(average)
        theta, moments = step.step(t, theta, target, moments)
        assert models[t + 1].tobytes() == theta.numpy().tobytes()
    assert next(averages, None) is None
    assert len({model.tobytes() for model in models}) > 5


@pytest.mark.parametrize("server", STEPS, ids=lambda step: step["name"])
def test_a_restarted_server_goes_on_exactly(world: Any, tmp_path: Path, server: Any) -> None:
    whole = strategy(server)
    unbroken = whole.start(grid_of(world, whole), world.model(), num_rounds=len(SCRIPT))
    model = world.model()
    for rounds in (2, 2, len(SCRIPT) - 4):  # a restart in the middle of a period, and at its end
        part = strategy(server, state=tmp_path / "state.npz")
        if (tmp_path / "state.npz").exists():
            model = part.load_state(tmp_path / "state.npz")
        result = part.start(grid_of(world, part), model, num_rounds=rounds)
    assert result.arrays["w"].numpy().tobytes() == unbroken.arrays["w"].numpy().tobytes()


def test_an_amplified_period_may_end_in_a_round_without_an_average(world: Any) -> None:
    class Nobody(Sampler):
        def select(self, view: View, rng: np.random.Generator) -> Selection:
            return Selection(view.available[: 0 if view.round == 1 else 1])

    chosen = strategy({"name": "amplified", "period": 2, "factor": 3.0}, sampler=Nobody())
    grid = world(list(SITES))  # client 0 adds 1
    result = chosen.start(grid, world.model(3.0, 1.0), num_rounds=2)
    assert result.arrays["w"].numpy().tolist() == [6.0, 1.0]


def test_whole_numbers_and_running_statistics_stay_those_of_the_average(world: Any) -> None:
    def app() -> Any:
        from flwr.app import Message, MetricRecord, RecordDict
        from flwr.clientapp import ClientApp

        made = ClientApp()

        @made.train()
        def train(message: Any, context: Any) -> Any:
            arrays = {
                name: np.asarray(array.numpy() + 2)
                for name, array in message.content["arrays"].items()
            }
            record = ArrayRecord({name: Array(array) for name, array in arrays.items()})
            content = {"arrays": record, "metrics": MetricRecord({"num-examples": 1})}
            return Message(RecordDict(content), reply_to=message)

        return made

    model = ArrayRecord(
        {
            "w": Array(np.ones((2, 3), dtype=np.float64)),
            "half": Array(np.ones(2, dtype=np.float16)),
            "bn.running_var": Array(np.ones(3, dtype=np.float32)),
            "bn.num_batches_tracked": Array(np.array(5)),
        }
    )
    chosen = strategy({"name": "sgd", "rate": 0.25}, describe=False, clients=None)
    grid = world([0, 1], app=app())
    arrays = chosen.start(grid, model, num_rounds=1).arrays
    assert arrays["w"].numpy().tolist() == [[1.5] * 3] * 2
    assert arrays["half"].numpy().tolist() == [1.5] * 2
    assert arrays["bn.running_var"].numpy().tolist() == [3.0] * 3
    assert arrays["bn.num_batches_tracked"].numpy().item() == 7
    assert [arrays[name].numpy().dtype for name in ("w", "half")] == [np.float64, np.float16]


def test_a_model_that_is_not_finite_is_no_model(world: Any) -> None:
    chosen = strategy({"name": "sgd", "rate": 1e38})
    result = chosen.start(grid_of(world, chosen), world.model(2.0, 1.0), num_rounds=1)
    assert result.arrays["w"].numpy().tolist() != [2.0, 1.0]  # a rate of 1e38 is still finite
    again = chosen.start(grid_of(world, chosen), world.model(3e38, 1.0), num_rounds=1)
    assert again.arrays["w"].numpy().tolist() == [np.float32(3e38), 1.0]
    grown = strategy({"name": "momentum", "rate": 3e38})
    result = grown.start(world(list(SITES)), world.model(2e38, 1.0), num_rounds=1)
    assert result.arrays["w"].numpy().tolist() == [np.float32(2e38), 1.0]
    # The update that was refused is not in the moments either.
    assert grown._selector.state.moments["momentum"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", ["FedAvgM", "FedAdam", "FedYogi", "FedAdagrad"])
def test_a_strategy_with_a_server_step_of_its_own_gets_no_other_one(name: str) -> None:
    inner = getattr(strategies, name)()
    message = (
        f"^server = 'adam' does not go with the inner strategy {name}, which has a server step of "
        "its own; use FedAvg or FedProx, or leave server out$"
    )
    with pytest.raises(ConfigError, match=message):
        SampledStrategy(inner, "uniform", server={"name": "adam", "rate": 0.1})
    assert SampledStrategy(inner, "uniform", server="sgd").round == 0


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ("adm", r"^server.name must be .*'adm'; did you mean 'adam'"),
        ({"name": "adam"}, "^server.rate must be given$"),
        ({"name": "momentum", "beta": 1}, "^server.beta should be less than 1, got 1$"),
        (Mean(), "server"),
    ],
)
def test_wrong_server_steps_are_one_sentence(server: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SampledStrategy(FedAvg(), "uniform", server=server)


def test_a_state_belongs_to_one_server_step(world: Any, tmp_path: Path) -> None:
    chosen = strategy({"name": "momentum", "rate": 0.7})
    chosen.start(grid_of(world, chosen), world.model(), num_rounds=1)
    chosen.save_state(tmp_path / "state.npz")
    with np.load(tmp_path / "state.npz") as stored:
        meta = json.loads(str(stored["meta"]))
    assert meta["names"]["moments"] == ["momentum"]
    with pytest.raises(OutputError, match=r"was saved with the server step .*'momentum'.*'sgd'"):
        strategy("sgd").load_state(tmp_path / "state.npz")
    with pytest.raises(OutputError, match=r"was saved with the server step .*0.7.* not .*0.5"):
        strategy({"name": "momentum", "rate": 0.5}).load_state(tmp_path / "state.npz")
    plain = strategy("sgd")
    plain.start(grid_of(world, plain), world.model(), num_rounds=1)
    plain.save_state(tmp_path / "plain.npz")
    with pytest.raises(OutputError, match=r"was saved with the server step .*'sgd'.*'momentum'"):
        strategy("momentum").load_state(tmp_path / "plain.npz")


def test_the_records_name_the_server_step_as_a_simulation_does(world: Any, tmp_path: Path) -> None:
    for server, aggregation in (("sgd", None), (STEPS[1], "momentum")):
        folder = tmp_path / str(aggregation)
        chosen = strategy(server, records=folder)
        chosen.start(grid_of(world, chosen), world.model(), num_rounds=1)
        config = RunFolder(folder).config()
        assert ("aggregation" in config) == (aggregation is not None)
        if aggregation is not None:
            assert config["aggregation"]["server"]["name"] == aggregation
