"""Where runs are written: the output folder, and the sinks that take a run's rounds."""

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from fedgs.checkpoint import State, save_checkpoint
from fedgs.clients import Clients, Memory
from fedgs.driver import Failed
from fedgs.errors import OutputError, own_traceback
from fedgs.experiments.locks import only_writer
from fedgs.records import Record, RunFolder, save_arrays, write_atomically

__all__ = ["FolderSink", "MemorySink", "Sink", "claim"]

MARKER = "fedgs.json"
FLUSH_SECONDS = 2.0
CHECKPOINT_SECONDS = 10.0


@contextlib.contextmanager
def claim(folder: Path) -> Iterator[None]:
    """Make the output folder, or recognise it as ours, and keep other processes out while the block runs.

    A `KeyboardInterrupt` that leaves the block says how to resume.

    Raises:
        OutputError: the folder holds something else, is not writable, or is in use.
    """
    marker = folder / MARKER
    try:
        if folder.exists():
            if not folder.is_dir():
                raise OutputError(f"--out must be a folder; {str(folder)!r} is a file")
            if not marker.is_file() and any(folder.iterdir()):
                raise OutputError(
                    f"--out must be new, empty or a folder of fedgs runs; {str(folder)!r} holds something else"
                )
        folder.mkdir(parents=True, exist_ok=True)
        if not marker.is_file():
            write_atomically(marker, json.dumps({"format": 1}).encode())
        file = marker.open("r+")
    except OutputError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise OutputError(
            f"--out {str(folder)!r} cannot be written: {getattr(error, 'strerror', None) or error}"
        ) from None
    with file, only_writer(folder, file.fileno()):
        try:
            yield
        except KeyboardInterrupt as interrupt:
            interrupt.args = interrupt.args or (
                f"the same call with out={str(folder)!r} resumes where this one stopped",
            )
            raise


class Sink(Protocol):
    """Takes what a run gives.

    Attributes:
        failure: why the run ended early, or None.
    """

    failure: dict[str, Any] | None

    def on_start(self, state: State) -> None: ...
    def on_round(self, state: State, record: Record, seconds: Mapping[str, float]) -> None: ...
    def on_end(self, state: State, record: Record, seconds: Mapping[str, float]) -> None: ...
    def on_failure(self, failed: Failed, clients: Clients) -> None: ...
    def interrupt(self) -> None: ...


@dataclass(eq=False)
class MemorySink:
    """Keeps records in memory: nothing is written."""

    records: list[Record] = field(default_factory=list)
    failure: dict[str, Any] | None = None

    def on_start(self, state: State) -> None:
        """Nothing to keep."""

    def on_round(self, state: State, record: Record, seconds: Mapping[str, float]) -> None:
        """Keep the record."""
        self.records.append(record)

    def on_end(self, state: State, record: Record, seconds: Mapping[str, float]) -> None:
        """Keep the last record."""
        self.records.append(record)

    def on_failure(self, failed: Failed, clients: Clients) -> None:
        """Keep the reason."""
        self.failure = describe_failure(failed, clients)

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
    """Writes a run's records in batches, and a checkpoint every `checkpoint_every` rounds (None: every ten seconds).

    No file stays open between two writes, so that thousands of runs can be driven at once.
    """

    folder: RunFolder
    engine: str
    start_memory: Memory
    checkpoint_every: int | None
    shared: Path | None = (
        None  # the file of the memory at the start, where other runs begin with the same one
    )
    failure: dict[str, Any] | None = None
    _batch: "_Batch" = field(init=False)
    _flushed: float = field(default_factory=time.monotonic)
    _saved: float = field(default_factory=time.monotonic)
    _state: State | None = None  # the last one seen
    _kept: State | None = None  # the last one in a checkpoint

    def __post_init__(self) -> None:
        """The files are those of an earlier start, cut to its checkpoint."""
        self._batch = _Batch.behind(self.folder)

    def on_start(self, state: State) -> None:
        """Write the memory at the start, which a resumed run goes on with."""
        self.start_memory = state.memory
        if self.shared is not None:
            self.folder.share("memory", self.shared)
        elif state.memory:
            save_arrays(self.folder.path / "memory.npz", state.memory)

    def on_round(self, state: State, record: Record, seconds: Mapping[str, float]) -> None:
        """Keep the lines; write them with the next checkpoint, or after two seconds."""
        self._keep(record, seconds)
        self._state = state
        now = time.monotonic()
        if (
            now - self._saved > CHECKPOINT_SECONDS
            if self.checkpoint_every is None
            else state.round % self.checkpoint_every == 0
        ):
            self._checkpoint(state)
        elif now - self._flushed > FLUSH_SECONDS:
            self._flush()

    def on_end(self, state: State, record: Record, seconds: Mapping[str, float]) -> None:
        """The checkpoint of the last state comes before record T, so that more rounds can replace that record."""
        self._checkpoint(state)
        self._keep(record, seconds)
        self._flush()

    def on_failure(self, failed: Failed, clients: Clients) -> None:
        """Write what there is, and why the run ended."""
        self.failure = describe_failure(failed, clients)
        self._flush()
        self.folder.write_failure(self.failure)

    def interrupt(self) -> None:
        """Save the last whole round, so that the next start goes on from it.

        The interrupt may have come anywhere, also while lines were written: the files are cut to
        what was in them before, and the lines of whole rounds are written again.
        """
        state, batch = self._state, self._batch
        if state is None or (self._kept is not None and self._kept.round >= state.round):
            return
        self.folder.truncate("rounds.jsonl", batch.records_bytes)
        self.folder.truncate("timings.jsonl", batch.timings_bytes)
        lines = [entry for entry in batch.lines if entry[0] < state.round]
        self._batch = _Batch(batch.records_bytes, batch.timings_bytes, lines)
        self._checkpoint(state)

    def _keep(self, record: Record, seconds: Mapping[str, float]) -> None:
        phases = "".join(f',"{phase}":{value:.6f}' for phase, value in seconds.items())
        self._batch.lines.append(
            (record.round, record.to_json(), f'{{"round":{record.round}{phases}}}')
        )

    def _flush(self) -> None:
        self.folder.append("rounds.jsonl", [line for _, line, _ in self._batch.lines])
        self.folder.append("timings.jsonl", [timing for _, _, timing in self._batch.lines])
        self._batch = _Batch.behind(
            self.folder
        )  # one assignment: an interrupt finds the lines unwritten or written
        self._flushed = time.monotonic()

    def _checkpoint(self, state: State) -> None:
        self._flush()
        save_checkpoint(self.folder, state, engine=self.engine, start_memory=self.start_memory)
        self._saved, self._kept = time.monotonic(), state


def describe_failure(failed: Failed, clients: Clients) -> dict[str, Any]:
    """What `failure.json` holds: round, the client's own key, the error and the user's part of the traceback."""
    cause = (
        failed.exception.__cause__
        if failed.client is not None and failed.exception.__cause__
        else failed.exception
    )
    return {
        "round": failed.round,
        "client": None if failed.client is None else clients.names[failed.client],
        "error": f"{type(cause).__name__}: {cause}",
        "traceback": own_traceback(cause),
    }
