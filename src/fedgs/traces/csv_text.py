"""Traces as text: an interval a line, or a device a line with the seconds of its changes."""

import csv
import io
import itertools
from collections.abc import Iterator

from fedgs.errors import DataError, shown
from fedgs.traces.collected import Collected, intervals_of_events

__all__ = ["read_csv"]

_STATES = {"0": False, "1": True, "off": False, "on": True, "false": False, "true": True}


def read_csv(content: bytes) -> Collected:
    r"""The devices of a csv file; the header says in which of two forms they are.

    `device,on,off`: an interval a line, in seconds. Lines of a device may stand anywhere; an
    interval of no length only says that the device was observed then.

    `id,state,...`: a device a line with its state at second 0 (1 or 0, on or off, true or false)
    and the seconds at which it changes.

    Raises:
        DataError: another header, or a line that does not fit; the sentence names the line.

    >>> read_csv(b"device,on,off\na,0,60\n").traces({}).off.tolist()
    [60]
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"it is not UTF-8 text ({error.reason})") from None
    lines = _lines(text)
    header = [cell.lower() for cell in next(lines, (1, []))[1]]
    collected = Collected()
    if header == ["device", "on", "off"]:
        for number, cells in lines:
            _interval(number, cells, collected)
    elif header[:2] == ["id", "state"]:
        for number, cells in lines:
            _changes(number, cells, collected)
    else:
        raise DataError(
            "its first line must be device,on,off or id,state,... with the seconds of changes, "
            f"got {shown(','.join(header))}"
        )
    return collected


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Number and cells of each line that is not empty."""
    reader = csv.reader(io.StringIO(text), strict=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise DataError(f"it is not a csv file: {error} in line {reader.line_num}") from None


def _interval(number: int, cells: list[str], collected: Collected) -> None:
    if len(cells) != 3 or not cells[0]:
        raise DataError(
            f"a line must be device,on,off, got {shown(','.join(cells))} in line {number}"
        )
    collected.add(cells[0], [_second(number, cells[1])], [_second(number, cells[2])])


def _changes(number: int, cells: list[str], collected: Collected) -> None:
    state = _STATES.get(cells[1].lower()) if len(cells) > 1 else None
    if not cells[0] or state is None:
        raise DataError(
            "a line must be id,state,seconds of changes with a state 1, 0, on, off, true or false, "
            f"got {shown(','.join(cells))} in line {number}"
        )
    seconds = [_second(number, cell) for cell in cells[2:] if cell]
    states = [state != bool(k % 2) for k in range(len(seconds) + 1)]
    if any(later < earlier for earlier, later in itertools.pairwise(seconds)):
        raise DataError(f"the seconds of a line must not descend, those of line {number} do")
    if cells[0] in collected:
        raise DataError(f"a device must have one line, {shown(cells[0])} has another, {number}")
    events = list(zip([0, *seconds], states, strict=True))
    on, off, seen = intervals_of_events(events, collected.repairs)
    collected.add(cells[0], on, off, seen)


def _second(number: int, cell: str) -> int:
    if not (cell.isascii() and cell.isdecimal() and len(cell) <= 10):
        raise DataError(
            f"seconds must be integers >= 0 of at most 10 digits, got {shown(cell)} in line "
            f"{number}"
        )
    return int(cell)
