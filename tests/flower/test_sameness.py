"""The same seed and availability give the same cohorts in the simulator and in a deployment."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

from flwr.serverapp.strategy import FedAvg

from fedgs.availability import AvailabilityFile
from fedgs.config import Config
from fedgs.data import Synthetic
from fedgs.experiments.preparing import prepare
from fedgs.experiments.runner import run_all
from fedgs.flower import SampledStrategy
from fedgs.records import RunFolder
from fedgs.registry import build
from fedgs.rng import stream

ROUNDS, CLIENTS = 12, 10


@pytest.mark.parametrize("name", ["uniform", "md", "fedgs"])
@pytest.mark.parametrize("seed", [0, 5])
def test_simulator_and_deployment_select_the_same_cohorts(
    world: Any, tmp_path: Path, name: str, seed: int
) -> None:
    available = stream(1, "script").random((CLIENTS, ROUNDS)) < 0.5
    available[0] = True
    np.save(tmp_path / "available.npy", available)
    data = Synthetic(clients=CLIENTS)
    config = Config(
        data=data,
        availability=AvailabilityFile(path=str(tmp_path / "available.npy")),
        method=name,
        training={"rounds": ROUNDS, "cohort_limit": 3, "local_steps": 1},
        evaluation={"every": ROUNDS},
        seed=seed,
    )
    simulated = run_all(prepare([config]), out=None)[0].records

    clients = data.load().clients
    sizes = clients.data_sizes.tolist()
    grid = world(list(clients.names), app=world.default_app(sizes=sizes))
    deployed = SampledStrategy(
        FedAvg(fraction_evaluate=0.0),
        build("method", name),
        clients=clients,
        cohort_limit=3,
        min_connected=1,
        seed=seed,
        records=tmp_path / "records",
    )
    grid.script = lambda: [
        100 + int(k) for k in np.flatnonzero(available[:, min(deployed.round, ROUNDS - 1)])
    ]
    deployed.start(grid, world.model(), num_rounds=ROUNDS)
    records = RunFolder(tmp_path / "records").records()
    for ours, theirs in zip(records[:-1], simulated[:-1], strict=True):
        assert list(ours.available or []) == list(theirs.available or [])
        assert list(ours.cohort or []) == list(theirs.cohort or [])
        assert ours.draws == theirs.draws
        assert ours.weights == pytest.approx(theirs.weights)
