"""Rounds by the number of worker processes, of runs over data in a folder."""

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from fedgs.bench.scale_rounds import COHORT, make_folder
from fedgs.config import Execution, Training
from fedgs.data import Folder
from fedgs.errors import ConfigError
from fedgs.sampling import Uniform

__all__ = ["WorkersRow", "measure_workers", "workers_markdown"]


@dataclass(frozen=True)
class WorkersRow:
    """One line of the table.

    Attributes:
        clients: N.
        workers: W processes, each with one run.
        round_seconds: median wall time of a round of one of the runs.
        alone_seconds: that of one worker alone; None: the fewest workers are not one.
    """

    clients: int
    workers: int
    round_seconds: float
    alone_seconds: float | None

    @property
    def rounds_a_second(self) -> float:
        """Of all runs together."""
        return self.workers / self.round_seconds

    @property
    def extrapolated(self) -> float | None:
        """W times the rounds of one worker alone."""
        return None if self.alone_seconds is None else self.workers / self.alone_seconds


def measure_workers(
    clients: Sequence[int], workers: Sequence[int], *, rounds: int = 30
) -> Iterator[WorkersRow]:
    """Measure as many runs of `uniform` at a time as there are workers, one in each.

    Starts of processes are not measured, and neither is the first round of a run.

    Args:
        clients: numbers of clients, each at least 20.
        workers: numbers of workers, each at least 1; for the extrapolation, the first one is 1.
        rounds: of each run, >= 3.

    Raises:
        ConfigError: no worker.
    """
    if any(number < 1 for number in workers):
        raise ConfigError(f"--workers must be at least 1, got {min(workers)}")
    for count in clients:
        with tempfile.TemporaryDirectory(prefix="fedgs-scale-") as scratch:
            make_folder(Path(scratch) / "data", count)
            alone: float | None = None
            for number in workers:
                seconds = _round_seconds(Path(scratch), number, rounds)
                alone = seconds if number == 1 else alone
                yield WorkersRow(count, number, seconds, alone)


def _round_seconds(scratch: Path, workers: int, rounds: int) -> float:
    """The median wall time of a round."""
    from fedgs.experiments.compare import compare

    results = compare(
        Folder(path=str(scratch / "data")),
        methods=[Uniform()],
        availability="LDF",
        model="logistic",
        training=Training(rounds=rounds, cohort_limit=COHORT, batch_size=8),
        execution=Execution(workers=workers, threads=1),
        seeds=range(workers),
        out=scratch / f"runs-{workers}",
    )
    seconds = []
    for run in results.runs:
        assert run.path is not None
        lines = (run.path / "timings.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines[1:]]
        seconds += [sum(value for key, value in row.items() if key != "round") for row in rows]
    return float(median(seconds))


def workers_markdown(rows: Sequence[WorkersRow]) -> str:
    """The table of `docs/benchmarks.md`; measured and extrapolated figures in separate columns.

    >>> print(workers_markdown([WorkersRow(100, 2, 0.005, alone_seconds=0.004)]))
    | N | workers | a round | rounds a second, all workers | W times one worker (extrapolated) |
    |---:|---:|---:|---:|---:|
    | 100 | 2 | 5.0 ms | 400 | 500 |
    """
    lines = [
        "| N | workers | a round | rounds a second, all workers "
        "| W times one worker (extrapolated) |",
        "|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        extrapolated = "-" if row.extrapolated is None else f"{row.extrapolated:.0f}"
        lines.append(
            f"| {row.clients} | {row.workers} | {1e3 * row.round_seconds:.1f} ms "
            f"| {row.rounds_a_second:.0f} | {extrapolated} |"
        )
    return "\n".join(lines)
