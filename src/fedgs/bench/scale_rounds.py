"""Rounds by the number of clients: time, memory and disk of a run over data in a folder."""

import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from threading import Event, Thread
from time import process_time

import numpy as np

from fedgs.available_clients import BITS, MOST_BYTES
from fedgs.config import Training
from fedgs.data import Federation, FolderWriter, open_folder
from fedgs.rng import stream
from fedgs.sampling import FedGS, Uniform

__all__ = ["RoundsRow", "make_folder", "measure_rounds", "measure_run", "rounds_markdown"]

COHORT = 20
LABELS, NUMBERS, EXAMPLES, RANGE = 10, 16, 8, 10_000
ROUNDS = 1000  # that the size on disk is extrapolated to


@dataclass(frozen=True)
class RoundsRow:
    """One line of the table.

    Attributes:
        clients: N.
        method: by which cohorts of 20 are selected.
        rounds: that were measured.
        round_seconds: median processor time of a round, with its records on the disk.
        target_seconds: 1.5 times that of the fewest clients, plus .02 s; None: this is the line.
        start_seconds: processor time before the first round.
        memory_megabytes: by how much the process grew at most, from before the run to its end,
            without the pages of the data's files; None: the system does not say.
        disk_megabytes: of the run's folder.
        of_thousand: what 1000 rounds take on the disk, extrapolated.
    """

    clients: int
    method: str
    rounds: int
    round_seconds: float
    target_seconds: float | None
    start_seconds: float
    memory_megabytes: float | None
    disk_megabytes: float
    of_thousand: float


def measure_rounds(
    clients: Sequence[int], *, methods: Sequence[str] = ("uniform", "fedgs"), rounds: int = 30
) -> Iterator[RoundsRow]:
    """Measure runs of each method for each number of clients, each in a process of its own.

    Args:
        clients: numbers of clients, each at least 20.
        methods: "uniform" or "fedgs".
        rounds: of each run, >= 3.
    """
    with tempfile.TemporaryDirectory(prefix="fedgs-scale-") as scratch:
        for method in methods:
            first: float | None = None
            for count in clients:
                data = Path(scratch) / str(count)
                with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
                    if not data.exists():
                        process.submit(make_folder, data, count).result()
                    row = process.submit(
                        measure_run, data, method, rounds=rounds, first=first
                    ).result()
                first = row.round_seconds if first is None else first
                yield row


def make_folder(folder: Path, clients: int, seed: int = 0) -> None:
    """Write a federation of clients with 8 examples of 16 numbers, of two of ten labels each."""
    rng = stream(seed, "benchmark rounds", clients)
    test = rng.standard_normal((1000, NUMBERS), dtype=np.float32), rng.integers(0, LABELS, 1000)
    with FolderWriter(folder, name="scale", num_labels=LABELS, test=test) as writer:
        for begin in range(0, clients, RANGE):
            count = min(RANGE, clients - begin)
            y = rng.integers(0, LABELS, (count, 2))[:, rng.integers(0, 2, EXAMPLES)].ravel()
            x = rng.standard_normal((len(y), NUMBERS), dtype=np.float32)
            writer.add(train=(x, y, np.full(count, EXAMPLES)))


def measure_run(
    folder: Path, method: str, *, rounds: int, first: float | None = None, ready: bool = False
) -> RoundsRow:
    """The row of one run, carried out in this process.

    Args:
        folder: of the federation.
        method: "uniform" or "fedgs".
        rounds: of the run.
        first: processor time of a round of the fewest clients; None: this is that run.
        ready: whether libraries and kernels are loaded; otherwise a short run loads them.
    """
    federation = open_folder(folder)
    if not ready:
        with tempfile.TemporaryDirectory(prefix="fedgs-scale-") as few:
            make_folder(Path(few), 100)
            measure_run(Path(few), method, rounds=3, ready=True)
    before = _private_megabytes()
    with tempfile.TemporaryDirectory(prefix="fedgs-scale-") as out:
        began = process_time()
        with _largest_memory() as largest:
            times = _rounds(federation, method, rounds, Path(out))
        sizes = {p.name: p.stat().st_size for p in Path(out).rglob("*") if p.is_file()}
    width = -(-len(federation) // 8)
    lines = sizes.get("rounds.jsonl", 0) + sizes.get("timings.jsonl", 0)
    fixed = sum(sizes.values()) - lines - sizes.get(BITS, 0)
    bits = min(ROUNDS, MOST_BYTES // width) * width if BITS in sizes else 0
    thousand = fixed + lines / rounds * ROUNDS + bits
    return RoundsRow(
        clients=len(federation),
        method=method,
        rounds=rounds,
        round_seconds=median(np.diff(times[1:]).tolist()),
        target_seconds=None if first is None else 1.5 * first + 0.02,
        start_seconds=times[0] - began,
        memory_megabytes=None if before is None else max(largest, default=before) - before,
        disk_megabytes=sum(sizes.values()) / 1e6,
        of_thousand=thousand / 1e6,
    )


def _rounds(federation: Federation, method: str, rounds: int, out: Path) -> list[float]:
    """Processor time at each record."""
    from fedgs.experiments.compare import compare

    times: list[float] = []
    compare(
        federation,
        methods=[Uniform() if method == "uniform" else FedGS()],
        availability="LDF",
        model="logistic",
        training=Training(rounds=rounds, cohort_limit=COHORT, batch_size=8),
        seeds=[0],
        out=out / "runs",
        on_record=lambda run, record: times.append(process_time()),
    )
    return times


@contextmanager
def _largest_memory() -> Iterator[list[float]]:
    """The largest private memory so far, in MB, which a thread looks at every 10 ms; or nothing."""
    largest: list[float] = []
    ended = Event()

    def look() -> None:
        while True:
            size = _private_megabytes()
            if size is not None:
                largest[:] = [max([size, *largest])]
            if ended.wait(0.01):
                return

    thread = Thread(target=look, daemon=True)
    thread.start()
    try:
        yield largest
    finally:
        ended.set()
        thread.join()


def _private_megabytes() -> float | None:
    """Resident memory of this process without pages of files; None where the system has no figure.

    Pages of the data's files are dropped by the system when memory is short.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))
    except (OSError, StopIteration, ValueError):
        return None


def rounds_markdown(rows: Sequence[RoundsRow]) -> str:
    """The table of `docs/benchmarks.md`; measured and extrapolated figures in separate columns.

    >>> print(rounds_markdown([RoundsRow(100, "uniform", 30, 0.002, None, 0.5, 12.0, 0.01, 0.3)]))
    | N | method | a round | at most | start | memory | disk, 30 rounds | disk, 1000 rounds (extrapolated) |
    |---:|---|---:|---:|---:|---:|---:|---:|
    | 100 | uniform | 2.0 ms | - | 0.5 s | 12 MB | 0.0 MB | 0.3 MB |
    """  # noqa: E501
    rounds = rows[0].rounds if rows else ROUNDS
    lines = [
        f"| N | method | a round | at most | start | memory | disk, {rounds} rounds "
        f"| disk, {ROUNDS} rounds (extrapolated) |",
        "|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        most = "-" if row.target_seconds is None else f"{1e3 * row.target_seconds:.1f} ms"
        memory = "-" if row.memory_megabytes is None else f"{row.memory_megabytes:.0f} MB"
        lines.append(
            f"| {row.clients} | {row.method} | {1e3 * row.round_seconds:.1f} ms | {most} "
            f"| {row.start_seconds:.1f} s | {memory} | {row.disk_megabytes:.1f} MB "
            f"| {row.of_thousand:.1f} MB |"
        )
    return "\n".join(lines)
