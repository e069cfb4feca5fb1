"""What arrives from a crew's members, in the process of the study."""

import contextlib
import logging
from collections.abc import Callable
from typing import TypeVar

from fedgs.errors import WorkerError
from fedgs.experiments.crew import Share, ShareRaised
from fedgs.experiments.listening import Listener, ListenerError
from fedgs.experiments.transfer import TransferError
from fedgs.experiments.worker import Log, NewRecord, Raised, Unloadable
from fedgs.records import Record

__all__ = ["give_record", "taken"]

T = TypeVar("T")


def taken(message: T, member: str = "a worker process") -> T | ShareRaised | None:
    """A message for the supervision; None for one that is dealt with here.

    Args:
        message: from a member.
        member: what to call it.

    Raises:
        TransferError: the member cannot load its runs.
    """
    if isinstance(message, Unloadable):
        raise TransferError(f"{member} cannot load the runs ({message.reason})")
    if isinstance(message, Log):
        logging.getLogger(message.record.name).handle(message.record)
        return None
    if isinstance(message, Raised):
        traceback = message.traceback.rstrip()
        if message.error is None:
            return ShareRaised(WorkerError(f"{member} raised an error:\n{traceback}"))
        message.error.add_note(f"raised in {member}:\n{traceback}")
        return ShareRaised(message.error)
    return message


def give_record(
    listener: Listener, share: Share, new: NewRecord, reply: Callable[[object], None]
) -> None:
    """Give a record to the listener, and tell the member, which waits, what came of it."""
    answer: tuple[str, str] | None = None
    try:
        listener.give(share.runs[new.position], Record.from_json(new.line))
    except ListenerError as error:
        answer = (error.error, error.traceback)
    with contextlib.suppress(OSError):  # the member is gone
        reply(answer)
