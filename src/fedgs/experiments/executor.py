"""Supervision: a queue of shares, at most three starts of each, and what became of every run."""

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedgs.errors import OutputError, WorkerError
from fedgs.experiments.crew import Crew, Message, Progress, RunEnded, Share, ShareRaised
from fedgs.experiments.kept_models import KeptModels
from fedgs.experiments.prepared import PreparedRun
from fedgs.plurals import counted
from fedgs.records import Record, StoredRecords, first_rounds
from fedgs.report.run_view import Run

__all__ = ["Executor", "finished_run", "shares_of"]

_log = logging.getLogger("fedgs")
STARTS = 3  # how often the runs of a share are started before they count as failed


def shares_of(runs: Sequence[PreparedRun], numbers: Sequence[int], count: int) -> list[Share]:
    """The runs with these numbers, dealt into `count` shares."""
    dealt = [list(numbers[first::count]) for first in range(count)]
    return [Share(share, _no_progress(runs, share)) for share in dealt]


class Executor:
    """Carries out prepared runs by a crew.

    A share whose member crashes is started again with the runs that had not ended; with an output
    folder they resume from their checkpoints. After three crashes its runs are lost, and the other
    shares are carried out to their end.

    Args:
        crew: where the shares are carried out.
        runs: all runs of the study, also those that no share holds.
        on_progress: called with the progress of all shares, whenever one reports its own.
    """

    def __init__(
        self,
        crew: Crew,
        runs: Sequence[PreparedRun],
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self._crew = crew
        self._runs = runs
        self._on_progress = on_progress
        self._ended: dict[int, Run] = {}
        self._crashes: dict[int, str] = {}  # how the members of lost runs ended

    def carry_out(self, shares: Sequence[Share]) -> dict[int, Run]:
        """The runs of all shares by their numbers, failed ones included.

        Raises:
            WorkerError: a member crashed three times.
            Exception: what a member raised.
        """
        queue, working = deque(shares), list[Share]()
        try:
            while queue or working:
                while queue and len(working) < self._crew.size:
                    working.append(self._started(queue.popleft()))
                for share, message in self._crew.messages():
                    self._take(share, message)
                    if isinstance(message, Progress) and self._on_progress is not None:
                        self._on_progress(sum((s.progress for s in shares), Progress(0, 0, 0)))
                for share in tuple(working):
                    how = self._crew.how_it_ended(share)
                    if how is not None:
                        working.remove(share)
                        queue.extend(self._unfinished(share, how))
        finally:
            self._crew.end()
        self._check(shares)
        return self._ended

    def _started(self, share: Share) -> Share:
        share.starts += 1
        self._crew.start(share)
        return share

    def _take(self, share: Share, message: Message) -> None:
        if isinstance(message, Progress):
            share.progress = message
        elif isinstance(message, RunEnded):
            number = share.runs[message.position]
            self._ended[number] = _ended_run(self._runs[number], message)
        elif isinstance(message, ShareRaised):
            share.error = message.error

    def _unfinished(self, share: Share, how: str) -> list[Share]:
        """The share with the runs that start again; none where all have ended or are lost."""
        share.runs = [number for number in share.runs if number not in self._ended]
        if not share.runs or share.error is not None:
            return []
        again = share.starts < STARTS
        text = "; they start again" if again else ""
        _log.warning("a worker with %d runs crashed%s: it %s", len(share.runs), text, how)
        if again:
            share.progress = _no_progress(self._runs, share.runs)
            return [share]
        for number in share.runs:
            run = self._runs[number]
            if _is_finished(run):  # it ended before the member crashed with others
                self._ended[number] = finished_run(run)
            else:
                self._crashes[number] = how
                _write_crash(run, how)
        return []

    def _check(self, shares: Sequence[Share]) -> None:
        """Raise what ended a share, or one error for all runs that are lost."""
        for share in shares:
            if share.error is not None:
                raise share.error
        if self._crashes:
            out = next((run.folder.path.parent for run in self._runs if run.folder), None)
            where = "" if out is None else f"; what the others gave is in {str(out)!r}"
            raise WorkerError(
                f"{len(self._crashes)} of {len(self._runs)} runs could not be carried out: "
                f"their worker process crashed {counted(STARTS, 'time')}, "
                f"the last one {list(self._crashes.values())[-1]}{where}; "
                "execution.workers = 1 carries out all runs in this process"
            )


def finished_run(prepared: PreparedRun, records: Sequence[Record] | None = None) -> Run:
    """A run that an earlier start has finished, as its folder holds it.

    Args:
        prepared: the run.
        records: those of its folder; None: they are read when they are first used.
    """
    assert prepared.folder is not None
    tables = prepared.folder.config()
    return _as_run(prepared, tables, failure=None, records=records, reused=True)


def _no_progress(runs: Sequence[PreparedRun], numbers: Sequence[int]) -> Progress:
    """No round done of the runs with these numbers."""
    return Progress(0, sum(runs[number].plan.rounds for number in numbers), 0)


def _ended_run(prepared: PreparedRun, ended: RunEnded) -> Run:
    run = _as_run(
        prepared, ended.tables, failure=ended.failure, records=ended.records, reused=False
    )
    return run if ended.snapshots is None else replace(run, models=_models(prepared, ended))


def _models(prepared: PreparedRun, ended: RunEnded) -> KeptModels:
    return KeptModels(prepared.plan.work, snapshots=ended.snapshots)


def _as_run(
    prepared: PreparedRun,
    tables: Mapping[str, Any],
    *,
    failure: Mapping[str, object] | None,
    records: Sequence[Record] | None,
    reused: bool,
) -> Run:
    rounds, folder = prepared.plan.rounds, prepared.folder
    if records is not None:
        records = first_rounds(records, rounds)
    else:
        assert folder is not None
        records = StoredRecords(folder, rounds)
    tables = {**tables, "training": {**tables.get("training", {}), "rounds": rounds}}
    clients = prepared.plan.federation.clients
    path = None if folder is None else folder.path
    models = None if folder is None else KeptModels(prepared.plan.work, folder, rounds)
    return Run(tables, records, clients, failure, path, reused=reused, models=models)


def _is_finished(run: PreparedRun) -> bool:
    try:
        return run.is_finished()
    except OutputError:  # its records were damaged meanwhile
        return False


def _write_crash(run: PreparedRun, how: str) -> None:
    """Leave the reason in the folder of a run that is lost."""
    folder = run.folder
    if folder is not None and folder.exists():
        rounds = 0
        with contextlib.suppress(OutputError):
            rounds = len(folder.records())
        error = "the worker process crashed"
        traceback = f"the worker process {how}"
        folder.write_failure(
            {"round": rounds, "client": None, "error": error, "traceback": traceback}
        )
