"""Giving new records to a function of the user's, in the process of the study."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fedgs.errors import RunError, own_traceback
from fedgs.records import Record
from fedgs.report.run_view import Run

__all__ = ["Listener", "ListenerError", "OnRecord"]

OnRecord = Callable[[Run, Record], object]


class ListenerError(RunError):
    """`on_record` raised; the run ends, and its last whole round is saved.

    Args:
        error: what it raised, in one line.
        traceback: the user's part of it.
    """

    def __init__(self, error: str, traceback: str) -> None:
        super().__init__(error, traceback)
        self.error = error
        self.traceback = traceback


@dataclass
class Listener:
    """Calls a function for each record once, in the order of the rounds of each run.

    A run that starts again, after a crash of its worker or from a checkpoint, makes records again
    that the function was given before: these are left out.

    Attributes:
        function: of a run and a record.
        runs: number of a run -> what the function is given as the run.
        following: number of a run -> the first round that is new.
    """

    function: OnRecord
    runs: Mapping[int, Run]
    following: dict[int, int] = field(default_factory=dict)

    def give(self, number: int, record: Record) -> None:
        """Call the function, if the record is new.

        Raises:
            ListenerError: it raised an exception, or called `sys.exit`.
        """
        if record.round < self.following.get(number, 0):
            return
        try:
            self.function(self.runs[number], record)
        except (Exception, SystemExit) as error:
            text = f"on_record raised {type(error).__name__}: {error}"
            raise ListenerError(text, own_traceback(error)) from None
        self.following[number] = record.round + 1
