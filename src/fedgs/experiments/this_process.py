"""Runs carried out in this process: prepared runs become live runs, are driven together and give results.

A run that an earlier start began resumes from its checkpoint.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from fedgs.checkpoint import State, load_checkpoint
from fedgs.clients import Memory
from fedgs.driver import Failed, LiveRun, drive
from fedgs.errors import OutputError
from fedgs.experiments.memories import StartMemories
from fedgs.experiments.output import FolderSink, MemorySink, Sink
from fedgs.experiments.prepared import PreparedRun
from fedgs.local.engines import choose_engine, new_engine, numerics_with
from fedgs.local.threads import threads_of, usable_threads
from fedgs.records import Record, RunFolder, first_rounds
from fedgs.requests import Engine
from fedgs.sampling.base import Remembers
from fedgs.simulation import Shared, initial_state, memory_key

__all__ = ["Job", "Progress", "RunResult", "is_finished", "jobs_of", "run_here"]


@dataclass(frozen=True)
class RunResult:
    """What became of a run.

    Attributes:
        prepared: what was asked.
        tables: the resolved configuration and how it was carried out, as in `config.toml`.
        failure: why it ended early, or None.
        folder: where it is stored, or None.
        reused: nothing had to be done.
        at_hand: the records, where they are; None: in the folder.
    """

    prepared: PreparedRun
    tables: dict[str, Any]
    failure: dict[str, Any] | None
    folder: RunFolder | None
    reused: bool
    at_hand: list[Record] | None = None

    @cached_property
    def records(self) -> list[Record]:
        """All rounds, also those of earlier starts; those of a stored run are read when they are first looked at.

        Raises:
            OutputError: the folder's records cannot be read.
        """
        at_hand = self.at_hand
        if at_hand is None:
            at_hand = [] if self.folder is None else self.folder.records()
        return first_rounds(at_hand, self.prepared.plan.rounds)


@dataclass(frozen=True)
class Progress:
    """How far all runs together are: called after every round of every run.

    Attributes:
        rounds: rounds done in this start.
        total: rounds to do in this start.
        failed: runs that ended early.
    """

    rounds: int
    total: int
    failed: int


def run_here(
    prepared: Sequence[PreparedRun],
    out: Path | None,
    on_progress: Callable[[Progress], None] | None = None,
) -> list[RunResult]:
    """Drive all runs in this process; `out` is ours already."""
    return _run(jobs_of(prepared, out), on_progress)


def is_finished(prepared: PreparedRun, out: Path) -> bool:
    """Whether the run has passed all its rounds in this output folder; False for records that cannot be read."""
    try:
        return jobs_of([prepared], out)[0].is_finished()
    except OutputError:
        return False


def jobs_of(prepared: Sequence[PreparedRun], out: Path | None) -> "list[Job]":
    """The runs with the folders where they are stored."""
    return [Job(one, None if out is None else RunFolder(out / one.folder_name)) for one in prepared]


@dataclass(eq=False)
class Job:
    """A run that is carried out.

    Attributes:
        prepared: the run.
        folder: where it is stored; None: nowhere.
        tables: what `config.toml` holds, once the run has begun in this process.
        sink: takes its rounds, once the run has begun in this process.
        records: of a run that was finished before.
    """

    prepared: PreparedRun
    folder: RunFolder | None
    tables: dict[str, Any] = field(default_factory=dict)
    sink: Sink | None = None
    records: list[Record] | None = None

    def is_finished(self) -> bool:
        """Whether record T is there: the last one, or that of a run that went further."""
        if self.folder is None or not self.folder.exists():
            return False
        last = self.folder.last_record()
        return last is not None and last.round >= self.prepared.plan.rounds

    def stored_records(self) -> list[Record]:
        """What earlier starts wrote; the file is read.

        Raises:
            OutputError: it is damaged.
        """
        return self.folder.records() if self.folder is not None and self.folder.exists() else []


def _run(jobs: Sequence[Job], on_progress: Callable[[Progress], None] | None) -> list[RunResult]:
    engines: dict[tuple[str, str], Engine] = {}  # by name and device
    live: dict[tuple[str, str, int], list[LiveRun]] = {}  # by engine, device and number of threads
    tally = _Tally(on_progress)
    folders = [job.folder.path.parent for job in jobs if job.folder is not None]
    memories = StartMemories(folders[0] if folders else None)
    finished = [job.is_finished() for job in jobs]
    for job, done in zip(jobs, finished, strict=True):
        records = job.stored_records()  # damaged ones are found before anything is written
        job.records = records if done else None
    for job, done in zip(jobs, finished, strict=True):
        if not done:
            group, run = _begin(job, engines, tally, memories)
            live.setdefault(group, []).append(run)
    try:
        for (name, device, threads), runs in live.items():
            with threads_of(threads):
                drive(runs, engines[name, device])
    except BaseException:
        for job in jobs:
            if job.sink is not None:
                job.sink.interrupt()
        raise
    return [_result(job) for job in jobs]


def _begin(
    job: Job, engines: dict[tuple[str, str], Engine], tally: "_Tally", memories: StartMemories
) -> tuple[tuple[str, str, int], LiveRun]:
    plan, execution = job.prepared.plan, job.prepared.config.execution
    stored = _stored_start(job, memories)
    name, reason = job.prepared.engine
    if stored.engine and stored.engine != name:
        name, reason = choose_engine(stored.engine, device=execution.device, work=plan.work)
    if (name, execution.device) not in engines:
        engines[name, execution.device] = new_engine(name, execution.device)
    job.tables = job.prepared.tables(name, reason)
    threads = execution.threads or stored.threads or usable_threads()
    numerics = numerics_with(name, device=execution.device, work=plan.work)
    job.tables["run"] |= {"threads": threads, "numerics": numerics, **stored.about}
    if job.folder is None:
        sink: Sink = MemorySink()
    else:
        if not stored.engine:
            job.folder.create(
                job.tables, plan.federation.clients, {}
            )  # the memory follows when it is made
        else:
            job.folder.write_config(job.tables)
        job.folder.write_failure(None)
        key = memory_key(plan)
        shared = None if key is None else memories.file(key)
        sink = FolderSink(job.folder, name, stored.memory, execution.checkpoint_every, shared)
    tally.expect(max(0, plan.rounds - (0 if stored.state is None else stored.state.round)))
    job.sink = sink
    return (name, execution.device, threads), _live(
        job, stored.state, sink, tally=tally, shared=memories.start
    )


@dataclass(frozen=True)
class _Stored:
    """What an earlier start left.

    Attributes:
        state: where it got to, or the beginning; None: the sampler's memory is still to be made.
        memory: the memory at the beginning, once it is made.
        engine: which engine it began with, "" for a new run.
        about: what was stored about that.
        threads: that the loop engine began with, on which the last bits of a large model depend; 0
            where it does not matter.
    """

    state: State | None = None
    memory: Memory = field(default_factory=dict)
    engine: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)
    threads: int = 0


def _stored_start(job: Job, memories: StartMemories) -> _Stored:
    """Where an earlier start got to, its records cut to its checkpoint; otherwise the beginning."""
    folder, plan = job.folder, job.prepared.plan
    if folder is None or not folder.exists():
        return _Stored()
    stored = folder.config().get("run", {})
    about = {key: stored[key] for key in ("engine_reason", "started") if key in stored}
    began_with = stored.get("threads", 0) if stored.get("engine") == "loop" else 0
    threads = began_with if type(began_with) is int and began_with > 0 else 0
    memory = memories.of_run(folder)
    checkpoint = load_checkpoint(folder, memory)
    # Records that are shorter than the checkpoint says were lost: from the start, the same lines
    # are written again.
    if checkpoint is None or checkpoint.records_bytes > folder.size("rounds.jsonl"):
        folder.truncate("rounds.jsonl", 0)
        folder.truncate("timings.jsonl", 0)
        made = bool(memory) or not isinstance(plan.sampler, Remembers)
        return _Stored(
            initial_state(plan, memory) if made else None,
            memory,
            stored.get("engine", ""),
            about,
            threads,
        )
    if checkpoint.state.parameters.shape != initial_state(plan, {}).parameters.shape:
        raise OutputError(
            f"{folder.path / 'checkpoint.npz'} holds another model; remove the run's folder to start it anew"
        )
    folder.truncate("rounds.jsonl", checkpoint.records_bytes)
    folder.truncate("timings.jsonl", checkpoint.timings_bytes)
    return _Stored(checkpoint.state, memory, checkpoint.engine, about, threads)


def _live(job: Job, state: State | None, sink: Sink, *, tally: "_Tally", shared: Shared) -> LiveRun:
    plan = job.prepared.plan
    clients = plan.federation.clients

    def on_round(state: State, record: Record, seconds: Mapping[str, float]) -> None:
        sink.on_round(state, record, seconds)
        tally.round()

    def on_failure(failed: Failed) -> None:
        sink.on_failure(failed, clients)
        tally.failure(plan.rounds - failed.round)

    return LiveRun(plan, state, on_round, sink.on_end, on_failure, sink.on_start, shared)


class _Tally:
    """Counts rounds for the progress callback."""

    def __init__(self, on_progress: Callable[[Progress], None] | None) -> None:
        self._on_progress = on_progress
        self._rounds = self._total = self._failed = 0

    def expect(self, rounds: int) -> None:
        self._total += rounds

    def round(self) -> None:
        self._rounds += 1
        self._tell()

    def failure(self, rounds_lost: int) -> None:
        self._failed += 1
        self._total -= rounds_lost
        self._tell()

    def _tell(self) -> None:
        if self._on_progress is not None:
            self._on_progress(Progress(self._rounds, self._total, self._failed))


def _result(job: Job) -> RunResult:
    sink = job.sink
    if isinstance(sink, MemorySink):
        return RunResult(
            job.prepared, job.tables, sink.failure, None, reused=False, at_hand=sink.records
        )
    assert job.folder is not None
    tables = job.tables or job.folder.config()
    tables = {
        **tables,
        "training": {**tables.get("training", {}), "rounds": job.prepared.plan.rounds},
    }
    failure = None if sink is None else sink.failure
    return RunResult(
        job.prepared, tables, failure, job.folder, reused=sink is None, at_hand=job.records
    )
