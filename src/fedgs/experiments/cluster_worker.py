"""The work of a member of a cluster: load the runs, drive them, send messages and files.

The study's computer and this one share no file. Runs are kept in a temporary folder here, and what
changes in it is sent, see `mirror`.
"""

import pickle
import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from fedgs.data import Federation
from fedgs.experiments.member import Member, MemberSetup
from fedgs.experiments.mirror import FileChange, Mirror, apply_changes
from fedgs.experiments.prepared import PreparedRun
from fedgs.experiments.worker import Unloadable, drive, forward_logs, raised
from fedgs.records import RunFolder

__all__ = ["ClusterWorker", "FilesChanged"]

GATHER_SECONDS = 0.1


@dataclass(frozen=True)
class FilesChanged:
    """Files of a run that the study has to write.

    Attributes:
        position: of the run in the share.
        changes: in their order.
        number: of changes that were sent of this run before, in the same share.
    """

    position: int
    changes: list[FileChange]
    number: int


class ClusterWorker(Member):
    """A member. Its methods are called from several threads.

    Args:
        setup: what it needs.
    """

    def __init__(self, setup: MemberSetup) -> None:
        super().__init__(setup)
        self._mirror = Mirror()
        self._replies: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._stopped = threading.Event()

    def reply(self, answer: object) -> None:
        """Take what the study replies to a record."""
        self._replies.put(answer)

    def stop(self) -> None:
        """Let the runs save their last whole round after the current one, and end."""
        self._stopped.set()

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
        channel = _Channel(0.0 if self.setup.tells_records else GATHER_SECONDS)
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
                forward_logs(channel, self.setup.log_level)
                runs = self._loaded(packed, contents, federations)
            except Exception as error:
                channel.send(Unloadable(f"{type(error).__name__}: {error}"))
                return
            try:
                drive(
                    runs,
                    channel,
                    self._replies.get if self.setup.tells_records else None,
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
        runs = self.load(packed, federations)
        if contents is None:
            return runs
        scratch = self.scratch
        here = [replace(run, folder=RunFolder(scratch / "runs" / run.folder_name)) for run in runs]
        (scratch / "runs").mkdir(exist_ok=True)
        for run, content in zip(here, contents, strict=True):
            if content and run.folder is not None:
                apply_changes(run.folder.path, content)
                self._mirror.know(run.folder.path)
        return here

    def _sender(self, channel: "_Channel", runs: Sequence[PreparedRun]) -> Callable[[int], None]:
        sent = Counter[int]()

        def send(position: int) -> None:
            folder = runs[position].folder
            assert folder is not None
            changes = self._mirror.changes(folder.path)
            if changes:
                channel.send(FilesChanged(position, changes, sent[position]))
                sent[position] += 1

        return send


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
