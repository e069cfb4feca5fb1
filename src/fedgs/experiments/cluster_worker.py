"""The work of a member of a cluster: load the runs, drive them, send messages and files.

The study's computer and this one share no file. Runs are kept in a temporary folder here, and what
changes in it is sent, see `mirror`.
"""

import os
import pickle
import queue
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedgs.collector import collect_rarely
from fedgs.data import Federation
from fedgs.experiments.mirror import FileChange, Mirror, apply_changes
from fedgs.experiments.prepared import PreparedRun
from fedgs.experiments.transfer import register_variants, unpack_runs
from fedgs.experiments.travelling_files import stored_files
from fedgs.experiments.travelling_sources import Source, import_sources, show_lines
from fedgs.experiments.worker import Unloadable, drive, forward_logs, raised
from fedgs.records import RunFolder

__all__ = ["ClusterWorker", "FilesChanged", "Parcel"]


GATHER_SECONDS = 0.1
PREFIX = "fedgs-member-"  # of temporary folders; the process's number follows


@dataclass(frozen=True)
class Parcel:
    """What every member needs once.

    Attributes:
        variants: from `pack_variants`.
        sources: plug-ins, from `plugin_sources`.
        lines: what tracebacks show, from `user_lines`.
        files: those that settings name, from `named_files`.
        driver_folders: folders of the study's program that are no place to import from here.
        threads: of torch in a member's process.
        log_level: of the study's logger "fedgs".
        tells_records: whether the study wants each record before it is stored.
    """

    variants: list[tuple[str, str, bytes]]
    sources: list[Source]
    lines: dict[str, str]
    files: dict[str, bytes]
    driver_folders: list[str]
    threads: int
    log_level: int
    tells_records: bool


@dataclass(frozen=True)
class FilesChanged:
    """Files of a run that the study has to write.

    Attributes:
        position: of the run in the share.
        changes: in their order.
    """

    position: int
    changes: list[FileChange]


class ClusterWorker:
    """A member. Its methods are called from several threads.

    Args:
        parcel: what it needs.
    """

    def __init__(self, parcel: Parcel) -> None:
        collect_rarely()
        self._parcel = parcel
        own = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:] = [p for p in sys.path if p not in parcel.driver_folders or p in own]
        _remove_leftovers()
        self._scratch = tempfile.TemporaryDirectory(
            prefix=f"{PREFIX}{os.getpid()}-", ignore_cleanup_errors=True
        )
        self._places: dict[str, str] | None = None
        self._mirror = Mirror()
        self._replies: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._stopped = threading.Event()

    def process(self) -> int:
        """The number of the process."""
        return os.getpid()

    def reply(self, answer: object) -> None:
        """Take what the study replies to a record."""
        self._replies.put(answer)

    def stop(self) -> None:
        """Let the runs save their last whole round after the current one, and end."""
        self._stopped.set()

    def clean(self) -> None:
        """Remove the temporary files; the member gets no further work."""
        self._scratch.cleanup()

    def work(
        self, runs: bytes, contents: Sequence[list[FileChange]] | None, *federations: Federation
    ) -> Iterator[list[bytes]]:
        """Carry out runs.

        Args:
            runs: from `pack_runs`.
            contents: for each run what its folder holds, from `content_of`; None: the runs have no
                folders.
            federations: those of all runs.

        Yields:
            Some pickled messages, see `fedgs.experiments.worker.work`, and `FilesChanged`.
        """
        channel = _Channel(0.0 if self._parcel.tells_records else GATHER_SECONDS)
        thread = threading.Thread(
            target=self._carry_out, args=(channel, runs, contents, federations), daemon=True
        )
        thread.start()
        yield from channel.sent()

    def _carry_out(
        self,
        channel: "_Channel",
        packed: bytes,
        contents: Sequence[list[FileChange]] | None,
        federations: Sequence[Federation],
    ) -> None:
        try:
            try:
                forward_logs(channel, self._parcel.log_level)
                runs = self._loaded(packed, contents, federations)
            except Exception as error:
                channel.send(Unloadable(f"{type(error).__name__}: {error}"))
                return
            try:
                drive(
                    runs,
                    channel,
                    self._replies.get if self._parcel.tells_records else None,
                    on_write=None if contents is None else self._sender(channel, runs),
                    stopped=self._stopped.is_set,
                )
            except Exception as error:
                channel.send(raised(error))
        finally:
            channel.end()

    def _loaded(
        self,
        packed: bytes,
        contents: Sequence[list[FileChange]] | None,
        federations: Sequence[Federation],
    ) -> list[PreparedRun]:
        import torch

        torch.set_num_threads(self._parcel.threads)
        scratch = Path(self._scratch.name)
        if self._places is None:
            show_lines(self._parcel.lines)
            import_sources(self._parcel.sources)
            register_variants(self._parcel.variants)
            self._places = stored_files(self._parcel.files, scratch / "settings")
        runs = unpack_runs(packed, federations, self._places)
        if contents is None:
            return runs
        here = [replace(run, folder=RunFolder(scratch / "runs" / run.folder_name)) for run in runs]
        (scratch / "runs").mkdir(exist_ok=True)
        for run, content in zip(here, contents, strict=True):
            if content and run.folder is not None:
                apply_changes(run.folder.path, content)
                self._mirror.know(run.folder.path)
        return here

    def _sender(self, channel: "_Channel", runs: Sequence[PreparedRun]) -> Callable[[int], None]:
        def send(position: int) -> None:
            folder = runs[position].folder
            assert folder is not None
            changes = self._mirror.changes(folder.path)
            if changes:
                channel.send(FilesChanged(position, changes))

        return send


def _remove_leftovers() -> None:
    """Remove the temporary folders of members whose processes were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        number = folder.name.removeprefix(PREFIX).partition("-")[0]
        if number.isdecimal() and not _process_is_there(int(number)):
            shutil.rmtree(folder, ignore_errors=True)


def _process_is_there(number: int) -> bool:
    """Whether a process with this number is running on this computer."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class _Channel:
    """Messages of the thread that carries out runs, for the one that sends them.

    Args:
        pause: seconds in which messages are gathered to be sent together.
    """

    def __init__(self, pause: float) -> None:
        self._messages: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._pause = pause
        self._ended = threading.Event()

    def send(self, message: object) -> None:
        """Send any object that can be pickled."""
        self._messages.put(pickle.dumps(message))

    def end(self) -> None:
        """Report that no message follows."""
        self._ended.set()
        self._messages.put(None)

    def sent(self) -> Iterator[list[bytes]]:
        """The messages, several at a time, until their end."""
        message = self._messages.get()
        while message is not None:
            self._ended.wait(self._pause)
            gathered = [message]
            while not self._messages.empty() and (message := self._messages.get()) is not None:
                gathered.append(message)
            yield gathered
            if message is not None:
                message = self._messages.get()
