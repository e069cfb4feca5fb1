"""The work of a worker process: load the runs, drive them, send the messages."""

import contextlib
import logging
import logging.handlers
import pickle
import queue
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fedgs.experiments.channel import Channel
from fedgs.experiments.crew import Message, Progress
from fedgs.experiments.lifeline import Lifeline
from fedgs.experiments.listening import ListenerError
from fedgs.experiments.prepared import PreparedRun
from fedgs.experiments.this_process import carry_out
from fedgs.experiments.transfer import read_federation, register_variants, unpack_runs
from fedgs.records import Record
from fedgs.registry import load_plugin

__all__ = [
    "Log",
    "NewRecord",
    "Order",
    "Raised",
    "Sends",
    "Unloadable",
    "drive",
    "forward_logs",
    "raised",
    "work",
]

REPORT_SECONDS = 0.2  # at least, between two messages about progress


@dataclass(frozen=True)
class Order:
    """What a worker process is to do.

    Attributes:
        runs: from `pack_runs`.
        variants: from `pack_variants`.
        federations: the folders of the runs' federations.
        plugins: files to load before anything else.
        threads: of torch in this process.
        log_level: of the study's logger "fedgs".
        tells_records: whether the study wants each record before it is stored.
    """

    runs: bytes
    variants: list[tuple[str, str, bytes]]
    federations: list[Path]
    plugins: list[Path]
    threads: int
    log_level: int
    tells_records: bool


@dataclass(frozen=True)
class Unloadable:
    """The runs cannot be loaded in this process; nothing was done."""

    reason: str


@dataclass(frozen=True)
class Log:
    """What the package logged, for the handlers of the study."""

    record: logging.LogRecord


@dataclass(frozen=True)
class NewRecord:
    """A record before it is stored.

    The study replies None, or the error and the traceback of its `on_record`, which ends the run.

    Attributes:
        position: of the run in the share.
        line: the record as JSON, in which many clients take less than as objects.
    """

    position: int
    line: str


@dataclass(frozen=True)
class Raised:
    """An exception ended the runs.

    Attributes:
        error: it; None: it cannot be sent.
        traceback: as text.
    """

    error: Exception | None
    traceback: str


class Sends(Protocol):
    """The way to the study. Several threads may send."""

    def send(self, message: object) -> None:
        """Send any object that can be pickled.

        Raises:
            OSError: the study is gone.
        """


def work(channel: Channel, lifeline: Lifeline, file: Path) -> None:
    """Carry out the order in `file`.

    Sends `Unloadable`; or the messages of `carry_out`, with less frequent `Progress`, and `Raised`
    where they end early. `Log` may come at any time, and `NewRecord` where the order wants it.
    """
    try:
        order: Order = pickle.loads(file.read_bytes())
        forward_logs(channel, order.log_level)
        runs = _load(order)
    except Exception as error:
        channel.send(Unloadable(f"{type(error).__name__}: {error}"))
        return
    try:
        lifeline.loaded()
        drive(runs, channel, lifeline.reply if order.tells_records else None)
    except KeyboardInterrupt:  # SIGTERM, see `Lifeline`; the runs are saved
        sys.exit(128 + signal.SIGTERM)
    except (BrokenPipeError, ConnectionResetError):
        sys.exit(1)  # the study is gone
    except Exception as error:
        channel.send(raised(error))


def drive(
    runs: Sequence[PreparedRun],
    channel: Sends,
    reply: Callable[[], object] | None = None,
    *,
    on_write: Callable[[int], None] | None = None,
    stopped: Callable[[], bool] | None = None,
) -> None:
    """Carry out runs and send the messages.

    Args:
        runs: each at its beginning, or where its folder says that it stopped.
        channel: takes the messages.
        reply: waits for what the study replies to a `NewRecord`; None: it does not want any.
        on_write: see `carry_out`.
        stopped: asked after each round; where it is true, the last whole rounds are saved, and no
            further message is sent.
    """

    def tell(position: int, record: Record) -> None:
        assert reply is not None
        channel.send(NewRecord(position, record.to_json()))
        answer = reply()
        if isinstance(answer, tuple):
            raise ListenerError(*answer)

    with contextlib.closing(carry_out(runs, tell if reply else None, on_write)) as messages:
        for message in _less_frequent(_until(messages, stopped)):
            _send(channel, message)


def raised(error: Exception) -> Raised:
    """The message about an exception that is being handled."""
    return Raised(_portable(error), traceback.format_exc())


def _load(order: Order) -> list[PreparedRun]:
    import torch

    torch.set_num_threads(order.threads)
    for path in order.plugins:
        load_plugin(path)
    register_variants(order.variants)
    return unpack_runs(order.runs, [read_federation(folder) for folder in order.federations])


def _until(messages: Iterable[Message], stopped: Callable[[], bool] | None) -> Iterator[Message]:
    for message in messages:
        yield message
        if stopped is not None and stopped():
            return


def _send(channel: Sends, message: Message) -> None:
    """Send the message; progress may be lost."""
    try:
        channel.send(message)
    except OSError:  # the study is gone: the lifeline ends this process, once its runs are saved
        if not isinstance(message, Progress):
            raise


def _less_frequent(messages: Iterable[Message]) -> Iterator[Message]:
    """The messages, without progress that follows closely on other progress."""
    reported = time.monotonic()
    last: Progress | None = None
    for message in messages:
        if isinstance(message, Progress) and time.monotonic() - reported < REPORT_SECONDS:
            last = message
            continue
        if last is not None and not isinstance(message, Progress):
            yield last
        last = None
        reported = time.monotonic()
        yield message


def _portable(error: Exception) -> Exception | None:
    """The exception, or None where another process could not load it."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return None
    return error


class _StudyHandler(logging.handlers.QueueHandler):
    """Sends log records to the study; those that arrive after its end are lost."""

    def __init__(self, channel: Sends) -> None:
        # The queue stays empty: `enqueue` is what the standard library lets subclasses replace.
        super().__init__(queue.SimpleQueue())
        self._channel = channel

    def enqueue(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError):
            self._channel.send(Log(record))


def forward_logs(channel: Sends, level: int) -> None:
    """Let the study's handlers treat what this package logs here."""
    logger = logging.getLogger("fedgs")
    logger.setLevel(level)
    logger.addHandler(_StudyHandler(channel))
    logger.propagate = False
