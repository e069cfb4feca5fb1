"""Time and memory of FedGS by the number of clients: the graph before round 0, and a selection."""

import resource
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from statistics import median
from time import process_time

import numpy as np

from fedgs.clients import Clients, View
from fedgs.errors import ConfigError
from fedgs.rng import stream
from fedgs.sampling import FedGS

__all__ = ["CLIENTS", "ScaleRow", "markdown", "measure_one", "measure_scale"]

CLIENTS = (100, 1000, 10_000, 100_000, 1_000_000)
_LABELS = 10


@dataclass(frozen=True)
class ScaleRow:
    """One line of the table.

    Attributes:
        clients: N.
        cohort: m.
        landmarks: L; None: the graph is dense.
        graph_seconds: processor time of the memory before round 0.
        selection_seconds: median processor time of a selection among half of the clients.
        peak_megabytes: by how much the largest resident memory of the process grew.
        share: of the full graph's dispersion on a sample, see
            `fedgs.sampling.landmarks.measured_quality`; None: the graph is dense.
    """

    clients: int
    cohort: int
    landmarks: int | None
    graph_seconds: float
    selection_seconds: float
    peak_megabytes: float
    share: float | None


def measure_scale(
    clients: Sequence[int] = CLIENTS, *, rounds: int = 7, seed: int = 0
) -> Iterator[ScaleRow]:
    """Measure FedGS for each number of clients, each in a process of its own.

    Args:
        clients: numbers of clients, each at least 20.
        rounds: selections of each, >= 1.
        seed: >= 0, of the label proportions, which are Dirichlet(0.5) over 10 labels.

    Raises:
        ConfigError: fewer clients than 20.
    """
    few = [count for count in clients if count < 20]
    if few:
        raise ConfigError(f"--clients must be at least 20, got {few[0]}")
    for count in clients:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            yield process.submit(measure_one, count, rounds, seed).result()


def measure_one(clients: int, rounds: int, seed: int) -> ScaleRow:
    """The row of one number of clients, measured in this process; kernels are compiled before."""
    _measured(min(clients, 2000), "landmarks" if clients > 10_000 else "dense", 1, seed)
    return _measured(clients, "auto", rounds, seed)


def _measured(count: int, structure: str, rounds: int, seed: int) -> ScaleRow:
    rng = stream(seed, "benchmark scale", count)
    features = rng.dirichlet(np.full(_LABELS, 0.5), count)
    clients = Clients(tuple(range(count)), np.ones(count, dtype=np.int64), features=features)
    cohort = min(100, count // 10)
    sampler = FedGS.model_validate({"graph": {"structure": structure}})
    before, began = _peak(), process_time()
    memory = sampler.start(clients)
    graph_seconds = process_time() - began
    counts, seconds = np.zeros(count, dtype=np.int64), []
    for number in range(rounds):
        available = np.flatnonzero(rng.random(count) < 0.5)
        view = View(number, clients, available, counts.copy(), cohort, memory=memory)
        began = process_time()
        chosen = sampler.select(view, stream(seed, "select", number)).clients
        seconds.append(process_time() - began)
        counts[chosen] += 1
    dense = "landmarks" not in memory
    return ScaleRow(
        clients=count,
        cohort=cohort,
        landmarks=None if dense else len(memory["landmarks"]),
        graph_seconds=graph_seconds,
        selection_seconds=median(seconds),
        peak_megabytes=_peak() - before,
        share=None if dense else float(memory["quality"][0]),
    )


def markdown(rows: Sequence[ScaleRow]) -> str:
    """The table of `docs/benchmarks.md`.

    >>> print(markdown([ScaleRow(100, 10, None, 0.004, 0.0002, 3.0, None)]))
    | N, m | graph | before round 0 | a selection | peak memory | of the full graph |
    |---|---|---:|---:|---:|---:|
    | 100, 10 | dense | 0.00 s | 0.2 ms | 3 MB | - |
    """
    lines = [
        "| N, m | graph | before round 0 | a selection | peak memory | of the full graph |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        graph = "dense" if row.landmarks is None else f"{row.landmarks} landmarks"
        share = "-" if row.share is None else f"{row.share:.3f}"
        lines.append(
            f"| {row.clients}, {row.cohort} | {graph} | {row.graph_seconds:.2f} s "
            f"| {1e3 * row.selection_seconds:.3g} ms | {row.peak_megabytes:.0f} MB | {share} |"
        )
    return "\n".join(lines)


def _peak() -> float:
    """The largest resident memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
