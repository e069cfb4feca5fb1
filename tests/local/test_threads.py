"""How many threads a model is trained in, and who decides."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fedgs
from fedgs.aggregation import WeightedMean
from fedgs.config import Execution
from fedgs.data import Federation
from fedgs.errors import ConfigError
from fedgs.experiments.compare import compare
from fedgs.experiments.grid import build_config
from fedgs.experiments.preparing import prepare_one
from fedgs.experiments.runner import worker_count
from fedgs.experiments.study import Results
from fedgs.local import LoopEngine, initial_parameters, threads
from fedgs.models import as_model
from fedgs.records import RunFolder
from fedgs.requests import Evaluate, Train, Work

SEEN: list[int] = []


class Counting(nn.Module):
    """A classifier that notes the number of threads of each forward pass."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        SEEN.append(torch.get_num_threads())
        logits: torch.Tensor = self.inner(x)
        return logits


def small_cnn() -> nn.Module:
    return Counting(
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))
    )


def large_cnn() -> nn.Module:
    # 64·64·9·36 + ... = 1.4 million multiplications an example, 2.7·10⁸ a batch of 200
    layers = (
        nn.Conv2d(1, 64, 3),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1),
        nn.Flatten(),
        nn.Linear(64 * 36, 3),
    )
    return Counting(nn.Sequential(*layers))


def small_mlp() -> nn.Module:  # 6.4·10⁵ parameters: 1.3·10⁸ multiplications a batch of 200
    return Counting(
        nn.Sequential(nn.Flatten(), nn.Linear(64, 800), nn.Dropout(0.5), nn.Linear(800, 3))
    )


def recurrent() -> nn.Module:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head = nn.GRU(8, 64, batch_first=True), nn.Linear(64, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.head(self.layer(x.squeeze(1))[0][:, -1])
            return logits

    return Counting(Recurrent())


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    SEEN.clear()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def pictures() -> Federation:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(600, 1, 8, 8)).astype(np.float32), np.arange(600) % 3
    return Federation.from_arrays(
        x, y, client=np.arange(600) // 200, test=(x[:50], y[:50]), name="pictures"
    )


def study(
    federation: Federation,
    model: Callable[[], nn.Module],
    out: Path | None = None,
    **execution: Any,
) -> Results:
    return compare(
        federation,
        methods=["uniform"],
        model=model,
        training={"rounds": 2, "cohort_limit": 2, "local_steps": 2, "batch_size": 200},
        execution={"engine": "loop", "workers": 1, **execution},
        out=out,
    )


@pytest.mark.parametrize(
    ("model", "expected"),
    [(small_cnn, {1}), (large_cnn, {2}), (small_mlp, {1}), (recurrent, {2})],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_small_models_have_one_thread_and_large_ones_all(
    pictures: Federation, two_threads: None, model: Callable[[], nn.Module], expected: set[int]
) -> None:
    work = Work(pictures, as_model(model), 0.0, 2, 200)
    engine = LoopEngine()
    workbench = engine.workbench(work)
    SEEN.clear()  # what the model was tried with
    start = initial_parameters(work.model, pictures, 0)
    engine.reply(
        Train(work, start, np.array([0, 1]), 0.1, (0, 0), (WeightedMean(np.array([0.5, 0.5])),))
    )
    assert set(SEEN) == expected
    assert workbench.is_small(200) == (expected == {1})
    assert torch.get_num_threads() == 2


def test_a_small_convolution_is_evaluated_in_one_thread(
    pictures: Federation, two_threads: None
) -> None:
    work = Work(pictures, as_model(small_cnn), 0.0, 2, 200)
    engine = LoopEngine()
    engine.workbench(work)
    SEEN.clear()
    engine.reply(Evaluate(work, initial_parameters(work.model, pictures, 0), "test"))
    assert set(SEEN) == {1}


def test_counting_leaves_the_module_and_all_generators_as_they_are(pictures: Federation) -> None:
    def with_buffers() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout(0.5), nn.Flatten(), nn.Linear(72, 3)
        )

    before = torch.get_rng_state()
    workbench = LoopEngine().workbench(Work(pictures, as_model(with_buffers), 0.0, 2, 8))
    assert torch.equal(torch.get_rng_state(), before)
    assert workbench.flat.module.training
    assert int(workbench.flat.module.get_buffer("1.num_batches_tracked")) == 0
    # convolution 2·9·36 and linear 72·3 multiplications
    assert workbench.multiplications == 2 * 9 * 36 + 72 * 3


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_setting_is_obeyed_and_stored(
    pictures: Federation, tmp_path: Path, two_threads: None, count: int
) -> None:
    (run,) = study(pictures, large_cnn, tmp_path / "out", threads=count).runs
    assert run.failure is None
    assert run.about["threads"] == count
    assert count in SEEN
    assert torch.get_num_threads() == 2


def test_a_resumed_run_keeps_its_number_of_threads(
    pictures: Federation, tmp_path: Path, two_threads: None
) -> None:
    (run,) = study(pictures, large_cnn, tmp_path / "out", threads=1, checkpoint_every=1).runs
    assert run.path is not None
    before = (run.path / "rounds.jsonl").read_bytes()
    (run.path / "rounds.jsonl").write_bytes(before[:-5])
    SEEN.clear()
    (again,) = study(pictures, large_cnn, tmp_path / "out").runs
    assert (run.path / "rounds.jsonl").read_bytes() == before
    assert again.about["threads"] == 1
    config = RunFolder(run.path).config()
    assert config["run"]["threads"] == 1


def test_the_number_of_threads_is_no_part_of_a_runs_identity(pictures: Federation) -> None:
    def fingerprint(**execution: Any) -> str:
        data = fedgs.Synthetic(clients=3)
        config = build_config(
            {"data": data, "availability": "IDL", "method": "md", "execution": execution}
        )
        return prepare_one(config, data.load()).fingerprint

    assert fingerprint() == fingerprint(threads=3)


@pytest.mark.parametrize(
    ("value", "message"),
    [(0, "greater than or equal to 1, got 0"), (1.5, "valid integer"), ("2", "valid integer")],
)
def test_a_number_of_threads_is_at_least_one(value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"execution.threads should be .*{message}"):
        Execution(threads=value)


@pytest.mark.parametrize(
    ("quota", "environment", "expected"),
    [(None, None, 2), (1.5, None, 1), (0.2, None, 1), (8.0, None, 2), (1.0, "2", 2)],
)
def test_a_containers_share_limits_the_threads_unless_they_were_set(
    monkeypatch: pytest.MonkeyPatch,
    two_threads: None,
    quota: float | None,
    environment: str | None,
    expected: int,
) -> None:
    monkeypatch.setattr(threads, "cpu_quota", lambda: quota)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if environment is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", environment)
    assert threads.usable_threads() == expected


@pytest.mark.parametrize(("count", "workers"), [(None, 4), (1, 4), (2, 2), (3, 1), (9, 1)])
def test_workers_and_their_threads_share_the_cores(
    pictures: Federation, monkeypatch: pytest.MonkeyPatch, count: int | None, workers: int
) -> None:
    monkeypatch.setattr("fedgs.experiments.runner.physical_cores", lambda: 4)
    common = {
        "data": fedgs.Synthetic(clients=3),
        "availability": "IDL",
        "method": "md",
        "model": as_model(small_cnn),
    }
    configs = [
        build_config({**common, "seed": seed, "execution": {"threads": count}}) for seed in range(6)
    ]
    assert worker_count([prepare_one(config, pictures) for config in configs]) == workers
