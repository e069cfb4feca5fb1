"""Carry out prepared runs.

Runs that an earlier start finished are reused, others resume, in this process or in workers.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from fedgs.checkpoint import stored_round
from fedgs.cluster import Cluster, open_cluster
from fedgs.errors import ConfigError
from fedgs.experiments.cluster_crew import ClusterCrew, cluster_shares
from fedgs.experiments.crew import Progress
from fedgs.experiments.earlier import beside_earlier
from fedgs.experiments.executor import Executor, finished_run, shares_of
from fedgs.experiments.listening import Listener, OnRecord
from fedgs.experiments.output import claim
from fedgs.experiments.payload import bytes_of
from fedgs.experiments.prepared import PreparedRun
from fedgs.experiments.this_process import ThisProcess
from fedgs.experiments.transfer import TransferError
from fedgs.experiments.workers import WorkerProcesses
from fedgs.machine import physical_cores
from fedgs.plurals import counted
from fedgs.records import RunFolder
from fedgs.report.labels import labelled
from fedgs.report.run_view import Run

__all__ = ["distinct", "part_of", "run_all", "worker_count"]

T = TypeVar("T")
_log = logging.getLogger("fedgs")
_resumed = logging.getLogger("fedgs.runs")  # at level INFO: what the command line prints
SMALL_GRID = 20_000  # run-rounds below which stacked runs share one tensor program


def run_all(
    prepared: Sequence[PreparedRun],
    *,
    out: Path | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_record: OnRecord | None = None,
    part: tuple[int, int] | None = None,
) -> list[Run]:
    """Drive all runs to their end; finished runs of the output folder are reused, others resume.

    Runs are spread over `execution.workers` processes; the records do not depend on how many there
    are. If a part of a run cannot be sent to another process, all runs stay in this one, and a
    warning of the logger "fedgs" says why. The logger "fedgs.runs" reports runs that resume, at
    level INFO. An interrupt saves the last whole round of every run.

    Args:
        prepared: the runs; of runs that differ in rounds alone, the longest is carried out.
        out: the folder of the records; None: nothing is written.
        on_progress: called after every round of every run.
        on_record: called in this process with a run (without its records) and each of its new
            records, in the order of its rounds, before the record is stored. Its exception ends the
            run, which then resumes at that round.
        part: (i, n), 1 <= i <= n: the i-th of n parts of the runs alone, see `part_of`. Other
            processes may write the other parts to the same folder meanwhile.

    Returns:
        One `Run` for each distinct run, in their order, failed ones included.

    Raises:
        OutputError: `out` belongs to something else or is in use.
        ConfigError: the same run under two labels.
        WorkerError: a worker process crashed again and again.
    """
    prepared = distinct(prepared)
    names = None
    if part is not None:
        prepared = part_of(prepared, part)
        names = [run.folder_name for run in prepared]
    with (
        _cluster_for(prepared, out) as cluster,
        contextlib.nullcontext() if out is None else claim(out, names),
    ):
        if out is not None:
            prepared = [
                replace(run, folder=RunFolder(out / run.folder_name))
                for run in beside_earlier(prepared, out)
            ]
        runs = _finished(prepared)
        _report_resumed(prepared)
        numbers = [n for n in range(len(prepared)) if n not in runs]
        listener = None if on_record is None else _listener(on_record, prepared, numbers)
        if cluster is None:
            runs |= _carried_out(prepared, numbers, on_progress, listener)
        elif numbers:
            runs |= _on_cluster(cluster, prepared, numbers, on_progress, listener)
    return [runs[number] for number in range(len(prepared))]


def part_of(runs: Sequence[T], part: tuple[int, int]) -> list[T]:
    """The i-th of n parts: every n-th run, beginning with the i-th.

    >>> part_of(["a", "b", "c", "d", "e"], (2, 3))
    ['b', 'e']
    """
    number, parts = part
    return list(runs[number - 1 :: parts])


def _finished(prepared: Sequence[PreparedRun]) -> dict[int, Run]:
    """The runs that an earlier start has finished; all stored records are read.

    Raises:
        OutputError: records are damaged; nothing was trained.
    """
    runs: dict[int, Run] = {}
    for number, run in enumerate(prepared):
        records = [] if run.folder is None or not run.folder.exists() else run.folder.records()
        if run.is_finished():
            runs[number] = finished_run(run, records)
    return runs


def _carried_out(
    prepared: Sequence[PreparedRun],
    numbers: Sequence[int],
    on_progress: Callable[[Progress], None] | None,
    listener: Listener | None,
) -> dict[int, Run]:
    """The runs with these numbers, in worker processes where that pays and can be done."""
    workers = min(worker_count(prepared), len(numbers))
    if workers > 1:
        shares = shares_of(prepared, numbers, workers)
        try:
            crew = WorkerProcesses(prepared, shares, listener)
            return Executor(crew, prepared, on_progress).carry_out(shares)
        except TransferError as reason:
            _log.warning("all runs stay in this process: %s", reason)
    shares = shares_of(prepared, numbers, min(1, len(numbers)))
    return Executor(ThisProcess(prepared, listener), prepared, on_progress).carry_out(shares)


@contextlib.contextmanager
def _cluster_for(prepared: Sequence[PreparedRun], out: Path | None) -> Iterator[Cluster | None]:
    """The cluster that `execution.cluster` names, joined and checked; None without one.

    Nothing is joined where no run is left to be carried out.

    Raises:
        ConfigError: runs that name several clusters; see also `open_cluster`.
    """
    executions = [run.config.execution for run in prepared]
    names = {execution.cluster for execution in executions}
    if len(names) > 1:
        raise ConfigError("execution.cluster must be the same for all runs of a study")
    (name,) = names or {None}
    if name is None or (out is not None and all(_is_stored(run, out) for run in prepared)):
        yield None
        return
    federations = {id(run.plan.federation): run.plan.federation for run in prepared}
    with open_cluster(
        name,
        trusted=any(execution.trust_network for execution in executions),
        data_bytes=sum(map(bytes_of, federations.values())),
    ) as cluster:
        yield cluster


def _is_stored(run: PreparedRun, out: Path) -> bool:
    return replace(run, folder=RunFolder(out / run.folder_name)).is_finished()


def _on_cluster(
    cluster: Cluster,
    prepared: Sequence[PreparedRun],
    numbers: Sequence[int],
    on_progress: Callable[[Progress], None] | None,
    listener: Listener | None,
) -> dict[int, Run]:
    """The runs with these numbers, on the nodes of a cluster."""
    from fedgs.experiments.cohorts import share_cohorts  # imports all engines

    runs = share_cohorts(cluster, prepared, numbers, on_progress, listener)
    numbers = [number for number in numbers if number not in runs]
    if not numbers:
        return runs
    crew = ClusterCrew(cluster, prepared, listener)
    shares = cluster_shares(prepared, numbers, crew.size)

    def with_nodes(progress: Progress) -> None:
        if on_progress is not None:
            on_progress(replace(progress, nodes=crew.nodes))

    return runs | Executor(crew, prepared, with_nodes).carry_out(shares)


def _listener(
    on_record: OnRecord, prepared: Sequence[PreparedRun], numbers: Sequence[int]
) -> Listener:
    """What gives the records of the runs with these numbers to a function.

    Rounds whose records an earlier start has stored are not new.
    """
    views = labelled(
        Run(
            run.tables(*run.engine),
            (),
            run.plan.federation.clients,
            path=None if run.folder is None else run.folder.path,
        )
        for run in prepared
    )
    following = {number: _stored_rounds(prepared[number].folder) for number in numbers}
    return Listener(on_record, dict(enumerate(views)), following)


def _stored_rounds(folder: RunFolder | None) -> int:
    """How many whole rounds are stored; the record of the final model is not one."""
    if folder is None or not folder.exists():
        return 0
    return sum(record.cohort is not None for record in folder.records())


def worker_count(prepared: Sequence[PreparedRun]) -> int:
    """How many processes carry out these runs: `execution.workers`, or a fixed rule.

    The rule: one a physical core for images; for vectors, where runs share tensor programs, one a
    core for grids of at least 20,000 run-rounds and one in all below. Never more than there are
    runs. Where `execution.threads` says how many threads each process has, so many cores count as
    one.
    """
    wanted = max((run.config.execution.workers or 0 for run in prepared), default=0)
    if wanted:
        return max(1, min(wanted, len(prepared)))
    images = any(len(run.plan.federation.example_shape) > 1 for run in prepared)
    several = images or sum(run.plan.rounds for run in prepared) >= SMALL_GRID
    threads = max((run.config.execution.threads or 1 for run in prepared), default=1)
    return max(1, min(physical_cores() // threads, len(prepared))) if several else 1


def distinct(prepared: Sequence[PreparedRun]) -> list[PreparedRun]:
    """One of each run: those that differ in rounds or execution alone are the same run.

    Raises:
        ConfigError: the same run is given two labels.
    """
    longest: dict[str, PreparedRun] = {}
    for run in prepared:
        other = longest.get(run.folder_name)
        if other is not None and other.config.label != run.config.label:
            raise ConfigError(
                f"the methods labelled {_label(other)!r} and {_label(run)!r} "
                "are the same run; give one of them"
            )
        if other is None or run.plan.rounds > other.plan.rounds:
            longest[run.folder_name] = run
    return list(longest.values())


def _label(run: PreparedRun) -> str:
    return run.config.label or run.config.method.name or type(run.config.method).__name__


def _report_resumed(prepared: Sequence[PreparedRun]) -> None:
    rounds = sorted(round for folder in _unfinished(prepared) if (round := stored_round(folder)))
    if rounds:
        runs = f"{len(rounds)} of {counted(len(prepared), 'run')}"
        resume = "resumes" if len(rounds) == 1 else "resume"
        low, high = rounds[0], rounds[-1]
        where = f"round {low}" if low == high else f"rounds {low} to {high}"
        _resumed.info("%s %s at %s", runs, resume, where)


def _unfinished(prepared: Sequence[PreparedRun]) -> Iterator[RunFolder]:
    for run in prepared:
        if run.folder is not None and run.folder.exists() and not run.is_finished():
            yield run.folder
