"""The speed of the engines, compared with a floor.

The floor is a bare PyTorch loop that makes the same steps on ready batches.
"""

import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from fedgs.aggregation import WeightedMean
from fedgs.data.federation import Federation, Normalization
from fedgs.data.targets import Task
from fedgs.errors import ConfigError
from fedgs.local.engines import make_engine
from fedgs.local.parameters import build_module, initial_parameters
from fedgs.models import CifarCNN, FashionCNN, LogisticRegression, Model
from fedgs.requests import Engine, Evaluate, Failure, Precision, Train, Work
from fedgs.suggestions import nearest

__all__ = [
    "SETTINGS",
    "Measured",
    "Setting",
    "answered",
    "bare_loop",
    "machine",
    "measure_setting",
    "random_work",
    "training_requests",
]


@dataclass(frozen=True)
class Setting:
    """One of the paper's settings, by its shapes; the examples are random.

    Attributes:
        data_sizes: n_k of the clients.
        example_shape: of one example; images are uint8 and normalised.
        cohort, local_steps, batch_size, learning_rate: M, E, B and eta.
        test_examples: the server's.
        grid_runs: how many runs are trained at once where a grid's speed is measured.
        labels: C, how many labels or tokens there are.
        task: "classes", or "sequence" for tokens with a label at every place.
    """

    model: Model
    data_sizes: tuple[int, ...]
    example_shape: tuple[int, ...]
    cohort: int
    batch_size: int
    learning_rate: float
    test_examples: int
    grid_runs: int
    local_steps: int = 10
    labels: int = 10
    task: Task = "classes"


SETTINGS = {
    "synthetic": Setting(
        LogisticRegression(), tuple(range(37, 397, 12)), (60,), 6, 10, 0.1, 870, 150
    ),
    "fashion_mnist": Setting(FashionCNN(), (100,) * 100, (1, 28, 28), 10, 32, 0.1, 1000, 1),
    "cifar10": Setting(CifarCNN(), (100,) * 100, (3, 32, 32), 10, 32, 0.03, 1000, 1),
}


@dataclass(frozen=True)
class Measured:
    """What was measured; seconds are medians.

    Attributes:
        engine: which engine ran, and why.
        round_seconds: training and averaging one cohort of one run.
        evaluation_seconds: test and validation metrics of one model.
        floor_seconds: a bare loop over the same number of steps.
        run_rounds_per_second: rounds of all runs of a grid, without evaluation.
        peak_megabytes: the process's peak memory so far (on CUDA the device's, of this setting).
    """

    setting: str
    engine: str
    round_seconds: float
    evaluation_seconds: float
    floor_seconds: float
    run_rounds_per_second: float
    peak_megabytes: float

    @property
    def ratio(self) -> float:
        """How many times the floor a round takes."""
        return self.round_seconds / self.floor_seconds


def measure_setting(
    name: str,
    *,
    engine: str = "auto",
    device: str = "cpu",
    precision: Precision = "float32",
    repeats: int = 5,
) -> Measured:
    """Measure one of `SETTINGS`; floor and engine take turns, so that a busy machine slows both.

    Args:
        name: a key of `SETTINGS`.
        engine: as in a configuration.
        device: as in a configuration.
        precision: as in a configuration.
        repeats: how many times each is timed, >= 1.

    Raises:
        ConfigError: no such setting, or no such device.
    """
    if name not in SETTINGS:
        raise ConfigError(
            f"setting must be one of {', '.join(SETTINGS)}; got {name!r}{nearest(name, SETTINGS)}"
        )
    setting = SETTINGS[name]
    work = random_work(setting, precision)
    chosen, reason = make_engine(engine, device, work)
    where = torch.device(device)
    if where.type == "cuda":
        torch.cuda.reset_peak_memory_stats(where)
    theta = initial_parameters(work.model, work.federation, 0).to(where)
    single = training_requests(setting, work, theta, 1)
    metrics = [Evaluate(work, theta, "test"), Evaluate(work, theta, "validation")]
    floor = bare_loop(setting, work, where)
    jobs = [lambda: answered(chosen, single), floor, lambda: answered(chosen, metrics)]
    round_seconds, floor_seconds, evaluation_seconds = _take_turns(jobs, repeats, where)
    rate = 1 / round_seconds
    if setting.grid_runs > 1:
        grid = training_requests(setting, work, theta, setting.grid_runs)
        (grid_seconds,) = _take_turns([lambda: answered(chosen, grid)], repeats, where)
        rate = setting.grid_runs / grid_seconds
    return Measured(
        setting=name,
        engine=reason,
        round_seconds=round_seconds,
        evaluation_seconds=evaluation_seconds,
        floor_seconds=floor_seconds,
        run_rounds_per_second=rate,
        peak_megabytes=_peak_megabytes(where),
    )


def bare_loop(setting: Setting, work: Work, device: torch.device) -> Callable[[], None]:
    """The floor: plain SGD of one PyTorch module on ready batches, and nothing else.

    The module is in channels-last memory order for images.
    """
    module = build_module(work.model, work.federation).to(device)
    x = torch.randn(
        setting.cohort * setting.local_steps,
        setting.batch_size,
        *setting.example_shape,
        device=device,
    )
    places = setting.example_shape if setting.task == "sequence" else ()
    if places:
        x = torch.randint(setting.labels, x.shape, device=device)
    y = torch.randint(setting.labels, (*x.shape[:2], *places), device=device)
    batches = list(x)
    if len(setting.example_shape) == 3:
        for parameter in module.parameters():
            if parameter.ndim == 4:
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
        batches = [batch.contiguous(memory_format=torch.channels_last) for batch in batches]
    trained: list[torch.Tensor] = list(module.parameters())

    def run() -> None:
        for batch, labels in zip(batches, y, strict=True):
            with torch.autocast(
                device.type, dtype=torch.bfloat16, enabled=work.precision == "bf16"
            ):
                logits = module(batch)
            flat = logits.float().reshape(-1, setting.labels)
            gradients = torch.autograd.grad(
                functional.cross_entropy(flat, labels.reshape(-1)), trained
            )
            with torch.no_grad():
                for tensor, gradient in zip(trained, gradients, strict=True):
                    tensor.sub_(gradient, alpha=1e-4)

    return run


def machine() -> str:
    """The processor and the number of threads, for a table's caption."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        processor = next(
            line.partition(":")[2].strip() for line in lines if line.startswith("model name")
        )
    except (OSError, StopIteration):
        processor = sys.platform
    return f"{processor}, {torch.get_num_threads()} threads, PyTorch {torch.__version__}"


def random_work(setting: Setting, precision: Precision) -> Work:
    """A federation of random examples in the setting's shapes.

    For every five training examples there is one validation example.
    """
    rng = np.random.default_rng(0)
    images = len(setting.example_shape) == 3

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        shape = (count, *setting.example_shape)
        if setting.task == "sequence":
            text = rng.integers(setting.labels, size=(*shape[:-1], shape[-1] + 1))
            return text[:, :-1], text[:, 1:]
        x = (
            rng.integers(0, 256, shape, dtype=np.uint8)
            if images
            else rng.standard_normal(shape).astype(np.float32)
        )
        return x, np.arange(count) % setting.labels

    owner = np.repeat(np.arange(len(setting.data_sizes)), setting.data_sizes)
    validation = owner[::5]
    channels = setting.example_shape[0]
    federation = Federation.from_arrays(
        *draw(len(owner)),
        client=owner,
        test=draw(setting.test_examples),
        validation=(*draw(len(validation)), validation),
        normalization=Normalization(255.0, (0.5,) * channels, (0.25,) * channels)
        if images
        else None,
        classes=setting.labels,
        task=setting.task,
    )
    return Work(federation, setting.model, 0.0, setting.local_steps, setting.batch_size, precision)


def training_requests(setting: Setting, work: Work, theta: torch.Tensor, runs: int) -> list[Train]:
    """One round of so many runs, each with its own random cohort."""
    rng = np.random.default_rng(1)
    requests = []
    for run in range(runs):
        clients = np.sort(rng.choice(len(work.federation), setting.cohort, replace=False))
        sizes = work.federation.clients.data_sizes[clients]
        weights = sizes / sizes.sum(dtype=np.float64)
        requests.append(
            Train(work, theta, clients, setting.learning_rate, (run, 0), (WeightedMean(weights),))
        )
    return requests


def answered(engine: Engine, requests: Sequence[Train | Evaluate]) -> None:
    """Let an engine answer requests; the exception of a request that fails is raised."""
    for _, reply in engine.answer(requests):
        if isinstance(reply, Failure):
            raise reply.exception


def _take_turns(
    jobs: Sequence[Callable[[], None]], repeats: int, device: torch.device
) -> list[float]:
    """The median seconds of each job, after one call to warm up."""
    times: list[list[float]] = [[] for _ in jobs]
    for repeat in range(repeats + 1):
        for job, taken in zip(jobs, times, strict=True):
            start = time.perf_counter()
            job()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            if repeat:
                taken.append(time.perf_counter() - start)
    return [statistics.median(taken) for taken in times]


def _peak_megabytes(device: torch.device) -> float:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3  # kilobytes on Linux
