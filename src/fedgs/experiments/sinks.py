"""Sinks that take a run's rounds: into memory, or into the run's folder."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from fedgs.checkpoint import State, save_checkpoint, with_table_files
from fedgs.clients import Clients, Memory
from fedgs.driver import Failed, Sink
from fedgs.errors import own_traceback
from fedgs.experiments.listening import ListenerError
from fedgs.experiments.snapshots import BestModel, Snapshot, Tensors, save_best
from fedgs.records import Record, RunFolder, save_arrays

__all__ = ["FolderSink", "MemorySink", "RunSink"]

Describe = Callable[[Memory], dict[str, Any] | None]
"""Adds words about a memory to a run's tables; returns the tables, None if there are no words."""

FLUSH_SECONDS = 2.0
CHECKPOINT_SECONDS = 10.0


class RunSink(Sink, Protocol):
    """A sink that knows how its run ended."""

    @property
    def failure(self) -> dict[str, object] | None:
        """Why the run ended early, or None."""

    @property
    def records(self) -> list[Record] | None:
        """All records; None: they are in the run's folder."""

    @property
    def snapshots(self) -> Mapping[str, Snapshot] | None:
        """The best and the last model; None: they are in the run's folder."""

    def interrupt(self) -> None:
        """Save the last whole round."""


@dataclass(eq=False)
class MemorySink:
    """Keeps records, the best and the last model in memory: nothing is written."""

    clients: Clients
    best: BestModel = field(default_factory=BestModel)
    tensors: Tensors = ()
    describe: Describe | None = None
    records: list[Record] = field(default_factory=list)
    failure: dict[str, object] | None = None
    _last: State | None = None

    @property
    def snapshots(self) -> dict[str, Snapshot]:
        """The models "best" and "last", as far as there are any."""
        kept = {} if self.best.snapshot is None else {"best": self.best.snapshot}
        if self._last is not None:
            kept["last"] = Snapshot.of(self._last, self.tensors)
        return kept

    def on_start(self, state: State) -> State:
        """Keep the first model."""
        self._last = state
        if self.describe is not None:
            self.describe(state.memory)
        return state

    def on_round(self, state: State, record: Record, seconds: Mapping[str, float]) -> None:
        """Keep the record and the models."""
        self._see(record)
        self._last = state

    def on_end(self, state: State, record: Record, seconds: Mapping[str, float]) -> None:
        """Keep the last record and the models."""
        self._last = state
        self._see(record)

    def _see(self, record: Record) -> None:
        self.records.append(record)
        if self._last is not None:
            self.best.see(self._last, record, self.tensors)

    def on_failure(self, failed: Failed) -> None:
        """Keep the reason."""
        self.failure = describe_failure(failed, self.clients)

    def interrupt(self) -> None:
        """Nothing to save."""


@dataclass(frozen=True)
class _Batch:
    """Lines that are not known to be in the files.

    Attributes:
        records_bytes, timings_bytes: how long the files are without them.
        lines: (round, record, timing).
    """

    records_bytes: int
    timings_bytes: int
    lines: list[tuple[int, str, str]] = field(default_factory=list)

    @classmethod
    def behind(cls, folder: RunFolder) -> "_Batch":
        """No lines yet, behind what the files hold."""
        return cls(folder.size("rounds.jsonl"), folder.size("timings.jsonl"))


@dataclass(eq=False)
class FolderSink:
    """Writes a run's records in batches, and checkpoints.

    A checkpoint is written every `checkpoint_every` rounds; None: every ten seconds. No file stays
    open between two writes, so that thousands of runs can be driven at once. `on_write` is called
    after files of the folder have changed.
    """

    folder: RunFolder
    clients: Clients
    engine: str
    start_memory: Memory
    checkpoint_every: int | None
    shared: Path | None = None  # the file of the memory at the start, if other runs share it
    best: BestModel = field(default_factory=BestModel)
    tensors: Tensors = ()
    begins: State | None = None  # where an earlier start stopped
    describe: Describe | None = None  # of the memory at the start
    on_write: Callable[[], None] | None = None
    failure: dict[str, object] | None = None
    records: None = None  # in the folder
    snapshots: None = None  # in the folder
    _batch: "_Batch" = field(init=False)
    _flushed: float = field(default_factory=time.monotonic)
    _saved: float = field(default_factory=time.monotonic)
    _state: State | None = None  # after the last whole round
    _model: State | None = None  # with the model that the next record evaluates
    _checkpointed: State | None = None  # the last one in a checkpoint

    def __post_init__(self) -> None:
        """The files are those of an earlier start, cut to its checkpoint."""
        self._batch = _Batch.behind(self.folder)
        self._model = self.begins

    def on_start(self, state: State) -> State:
        """Write the memory at the start, from which a resumed run continues; make table files."""
        self.start_memory = state.memory
        if self.shared is not None:
            self.folder.share("memory", self.shared)
        elif state.memory:
            save_arrays(self.folder.path / "memory.npz", state.memory)
        tables = None if self.describe is None else self.describe(state.memory)
        if tables is not None:
            self.folder.write_config(tables)
        self._model = with_table_files(self.folder, state)
        self._written()
        return self._model

    def on_round(self, state: State, record: Record, seconds: Mapping[str, float]) -> None:
        """Keep the lines; write them with the next checkpoint, or after two seconds."""
        self._keep(record, seconds)
        if self._model is not None:
            self.best.see(self._model, record, self.tensors)
        self._state = self._model = state
        now = time.monotonic()
        if (
            now - self._saved > CHECKPOINT_SECONDS
            if self.checkpoint_every is None
            else state.round % self.checkpoint_every == 0
        ):
            self._checkpoint(state)
            self._written()
        elif now - self._flushed > FLUSH_SECONDS:
            self._flush()
            self._written()

    def on_end(self, state: State, record: Record, seconds: Mapping[str, float]) -> None:
        """Write the last state before record T, so that more rounds can replace that record."""
        self._checkpoint(state)
        self._keep(record, seconds)
        self._flush()
        self._written()

    def on_failure(self, failed: Failed) -> None:
        """Write what there is, and why the run ended.

        After an error of `on_record` the run resumes at the round whose record it was given.
        """
        if isinstance(failed.exception, ListenerError):
            self.interrupt()
        self.failure = describe_failure(failed, self.clients)
        self._flush()
        self.folder.write_failure(self.failure)
        self._written()

    def interrupt(self) -> None:
        """Save the last whole round, so that the next start resumes there.

        The interrupt may have come anywhere, also while lines were written: the files are cut to
        what was in them before, and the lines of whole rounds are written again.
        """
        state, batch = self._state, self._batch
        saved = self._checkpointed
        if state is None or (saved is not None and saved.round >= state.round):
            return
        self.folder.truncate("rounds.jsonl", batch.records_bytes)
        self.folder.truncate("timings.jsonl", batch.timings_bytes)
        lines = [entry for entry in batch.lines if entry[0] < state.round]
        self._batch = _Batch(batch.records_bytes, batch.timings_bytes, lines)
        self._checkpoint(state)
        self._written()

    def _written(self) -> None:
        if self.on_write is not None:
            self.on_write()

    def _keep(self, record: Record, seconds: Mapping[str, float]) -> None:
        self.folder.keep_available(record)
        phases = "".join(f',"{phase}":{value:.6f}' for phase, value in seconds.items())
        self._batch.lines.append(
            (record.round, record.to_json(), f'{{"round":{record.round}{phases}}}')
        )

    def _flush(self) -> None:
        self.folder.append("rounds.jsonl", [line for _, line, _ in self._batch.lines])
        self.folder.append("timings.jsonl", [timing for _, _, timing in self._batch.lines])
        # One assignment: an interrupt finds the lines unwritten or written.
        self._batch = _Batch.behind(self.folder)
        self._flushed = time.monotonic()

    def _checkpoint(self, state: State) -> None:
        self._flush()
        save_best(self.folder, self.best)
        save_checkpoint(
            self.folder,
            state,
            engine=self.engine,
            start_memory=self.start_memory,
            tensors=self.tensors,
        )
        self._saved, self._checkpointed = time.monotonic(), state


def describe_failure(failed: Failed, clients: Clients) -> dict[str, object]:
    """The content of `failure.json`: round, the client's own key, error and user's traceback."""
    cause: BaseException = failed.exception
    if isinstance(cause, ListenerError):
        about = {"error": cause.error, "traceback": cause.traceback}
        return {"round": failed.round, "client": None, **about}
    if failed.client is not None and cause.__cause__:
        cause = cause.__cause__
    return {
        "round": failed.round,
        "client": None if failed.client is None else clients.names[failed.client],
        "error": f"{type(cause).__name__}: {cause}",
        "traceback": own_traceback(cause),
    }
