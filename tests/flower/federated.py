"""A simulated run and the same run as a deployment over a Grid in memory."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")  # doctests are looked for here, too
pytest.importorskip("torch")

import torch
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from tests.driving import RecordedRun, driven

from fedgs.aggregation.folds import Rows
from fedgs.availability import AvailabilityFile
from fedgs.config import Config
from fedgs.data import Synthetic
from fedgs.experiments.preparing import prepare
from fedgs.features import feature_fold
from fedgs.flower import SampledStrategy, client_state, describe, offsets
from fedgs.local.loop import LoopEngine
from fedgs.records import RunFolder
from fedgs.requests import Losses, Train
from fedgs.rng import stream
from fedgs.sampling import Wish

CLIENTS = 6
DATA = Synthetic(clients=CLIENTS)


def availability(rounds: int, folder: Path) -> Any:
    """(N, T) the clients that are available in each round; the first one always is."""
    available = stream(1, "script").random((CLIENTS, rounds)) < 0.6
    available[0] = True
    np.save(folder / "available.npy", available)
    return available


def configuration(folder: Path, *, rounds: int, training: Any = None, **tables: Any) -> Config:
    """Linear models, three clients a round."""
    common = {"rounds": rounds, "cohort_limit": 3, "local_steps": 2, "learning_rate": 0.05}
    return Config(
        data=DATA,
        availability=AvailabilityFile(path=str(folder / "available.npy")),
        training={**common, **(training or {})},
        evaluation={"every": 1},
        seed=3,
        execution={"engine": "loop"},
        **tables,
    )


def client_app(plan: Any) -> ClientApp:
    """A ClientApp whose clients train as those of the simulator, (P,) parameters in "theta"."""
    engine, app = LoopEngine(), ClientApp(mods=[client_state])

    def numbers(message: Any, name: str) -> torch.Tensor:
        return torch.from_numpy(message.content[name]["theta"].numpy().copy())

    def reply_of(message: Any, metrics: dict[str, float], model: Any = None) -> Any:
        content = RecordDict({"metrics": MetricRecord(metrics)})
        if model is not None:
            content["arrays"] = ArrayRecord({"theta": Array(model)})
        return Message(content, reply_to=message)

    @app.train()
    def train(message: Any, context: Any) -> Any:
        client, t = client_of(context), message.content["config"]["server-round"] - 1
        theta, changes = numbers(message, "arrays"), offsets(message)
        request = Train(
            plan.work,
            theta,
            np.array([client]),
            plan.learning_rate_of(t),
            (plan.seed, t),
            (Rows(),),
            offsets=torch.from_numpy(changes["theta"])[None] if changes else None,
            reports=("mean_loss", "rms_loss", "update_norm"),
        )
        rows, reports = engine.reply(request)
        metrics = {
            "num-examples": int(plan.federation.clients.data_sizes[client]),
            **{name: float(values[0]) for name, values in reports.items()},
            "learning-rate": plan.learning_rate_of(t),
            "local-steps": plan.work.local_steps,
        }
        return reply_of(message, metrics, rows[0].numpy())

    @app.evaluate()
    def evaluate(message: Any, context: Any) -> Any:
        client, config = client_of(context), message.content["config"]
        key = (plan.seed, config["server-round"] - 1)
        theta, batch = numbers(message, "arrays"), config.get("loss-batch")
        part = str(config.get("loss-on", "train"))
        (loss,) = engine.reply(Losses(plan.work, theta, np.array([client]), part, key, batch))
        return reply_of(message, {"num-examples": 1, "eval_loss": float(loss)})

    describe(app)
    return app


def client_of(context: Any) -> int:
    """The row of a client."""
    return int(str(context.node_config["client-id"]).split("-")[-1])


def simulated(config: Config) -> RecordedRun:
    """The simulated run: its records, and its last state."""
    (run,) = driven(prepare([config])[0].plan)
    return run


def responses_of(plan: Any) -> Any:
    """The mean response of a local model, as the simulator computes it."""
    fold = feature_fold(Wish("functional"), plan.work, torch.empty(0), seed=plan.data_seed)

    def responses(model: Any) -> Any:
        theta = torch.from_numpy(np.array(model["theta"]))
        return fold.finish(fold.add(fold.start(), np.array([0]), theta[None]))[0]

    return responses


class Deployed:
    """The same run over a Grid in memory.

    Attributes:
        records: of all rounds.
        models: (P,) theta^t for t = 0, 1, ...
        strategy, grid: what ran.
    """

    def __init__(
        self,
        world: Any,
        config: Config,
        available: Any,
        folder: Path,
        *,
        sampler: Any,
        node_config: Any = None,
        **settings: Any,
    ) -> None:
        rounds = available.shape[1]
        self.plan = plan = prepare([config])[0].plan
        names = [f"site-{k}" for k in range(CLIENTS)]
        known = dataclasses.replace(plan.federation.clients, names=tuple(names))
        self.grid = world(names, app=client_app(plan), node_config=node_config)
        self.strategy = SampledStrategy(
            FedAvg(fraction_evaluate=0.0),
            sampler,
            clients=known,
            cohort_limit=plan.cohort_limit,
            min_connected=0,  # a round without clients is one
            seed=plan.seed,
            records=folder / "records",
            responses=responses_of(plan),
            **{"reply_timeout": 5.0, "evaluate_timeout": 5.0, **settings},
        )
        self.grid.script = lambda: [
            100 + int(k) for k in np.flatnonzero(available[:, min(self.strategy.round, rounds - 1)])
        ]
        self.models: list[Any] = []
        self.folder = folder / "records"

    def start(self, rounds: int) -> "Deployed":
        """Run so many rounds from theta^0 of the simulator."""
        from fedgs.local.parameters import initial_parameters

        plan = self.plan
        theta = initial_parameters(plan.work.model, plan.federation, plan.seed)
        self.strategy.start(
            self.grid,
            ArrayRecord({"theta": Array(theta.numpy().copy())}),
            num_rounds=rounds,
            evaluate_fn=lambda done, arrays: self.models.append(arrays["theta"].numpy().copy()),
        )
        self.records = RunFolder(self.folder).records()
        return self

    @property
    def detail(self) -> list[str]:
        """All events in words."""
        return [f"{e['round']} {e['client']} {e['event']} {e['detail']}" for e in self.events()]

    def events(self) -> list[dict[str, Any]]:
        """All events of the run."""
        path = self.folder / "events.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
