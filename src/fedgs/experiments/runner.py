"""Carry out prepared runs: in this process, or spread over worker processes."""

import contextlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from fedgs.checkpoint import stored_round
from fedgs.errors import ConfigError
from fedgs.experiments.earlier import beside_earlier
from fedgs.experiments.output import claim
from fedgs.experiments.prepared import PreparedRun
from fedgs.experiments.this_process import Job, Progress, RunResult, jobs_of, run_here
from fedgs.experiments.transfer import CannotTravelError
from fedgs.experiments.workers import run_in_workers, worker_count
from fedgs.plurals import counted

__all__ = ["run_all"]

_log = logging.getLogger("fedgs")
_told = logging.getLogger("fedgs.runs")  # at level INFO: what the command line prints


def run_all(
    prepared: Sequence[PreparedRun],
    *,
    out: Path | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> list[RunResult]:
    """Drive all runs to their end; with `out`, go on where an earlier start stopped and leave finished runs alone.

    Runs are spread over `execution.workers` processes; the records do not depend on how many there
    are. Where a part of a run cannot be sent to another process, all runs stay in this one, and a
    warning of the logger "fedgs" says why. Runs that resume are told to the logger "fedgs.runs" at
    level INFO. An interrupt saves the last whole round of every run.

    Raises:
        OutputError: `out` belongs to something else or is in use.
        ConfigError: the same run under two labels.
        WorkerError: a worker process crashed again and again.
    """
    prepared = _distinct(prepared)
    workers = worker_count(prepared)
    with contextlib.nullcontext() if out is None else claim(out):
        prepared = prepared if out is None else beside_earlier(prepared, out)
        jobs = jobs_of(prepared, out)
        if workers > 1 and not all(job.is_finished() for job in jobs):
            for job in jobs:
                job.stored_records()  # damaged ones are found before anything is trained
            _tell_resumed(jobs)
            try:
                return run_in_workers(prepared, workers=workers, out=out, on_progress=on_progress)
            except CannotTravelError as reason:
                _log.warning("all runs stay in this process: %s", reason)
        else:
            _tell_resumed(jobs)
        return run_here(prepared, out, on_progress)


def _distinct(prepared: Sequence[PreparedRun]) -> list[PreparedRun]:
    """One of each run: those that differ in rounds or execution only are the same run, and the longest stands for it.

    Raises:
        ConfigError: the same run is asked for under two labels.
    """
    kept: dict[str, PreparedRun] = {}
    for one in prepared:
        other = kept.get(one.folder_name)
        if other is not None and other.config.label != one.config.label:
            raise ConfigError(
                f"the methods labelled {other.config.label!r} and {one.config.label!r} are the same run; give one of them"
            )
        if other is None or one.plan.rounds > other.plan.rounds:
            kept[one.folder_name] = one
    return list(kept.values())


def _tell_resumed(jobs: Sequence[Job]) -> None:
    unfinished = [
        job
        for job in jobs
        if job.folder is not None and job.folder.exists() and not job.is_finished()
    ]
    rounds = sorted(
        round
        for job in unfinished
        if job.folder is not None and (round := stored_round(job.folder)) > 0
    )
    if rounds:
        what = f"{len(rounds)} of {counted(len(jobs), 'run')}" + (
            " resumes" if len(rounds) == 1 else " resume"
        )
        where = (
            f"round {rounds[0]}"
            if rounds[0] == rounds[-1]
            else f"rounds {rounds[0]} to {rounds[-1]}"
        )
        _told.info("%s at %s", what, where)
