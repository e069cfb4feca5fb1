"""Intervals as readers find them, put into the array form."""

import itertools
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fedgs.arrays import IntArray
from fedgs.errors import DataError, shown
from fedgs.traces.intervals import LATEST, Traces

__all__ = ["MOST_CHARACTERS", "Collected", "checked_name", "intervals_of_events"]

MOST_CHARACTERS = 200
"""Of the name of a device."""


class Collected:
    """The intervals of devices in any order, and what is repaired in them.

    Intervals are sorted, and those that overlap or touch are united. An interval of no length is
    not kept, but it marks its second as observed.

    Attributes:
        repairs: how often each kind of fault was found: "unsorted", "duplicate", "overlapping",
            "zero_length", and what readers count.

    >>> found = Collected()
    >>> found.add("a", [100, 0, 5, 300], [110, 10, 20, 300])
    >>> traces = found.traces({"source": "by hand"})
    >>> traces.on.tolist(), traces.off.tolist(), traces.seen_to.tolist()
    ([0, 100], [20, 110], [300])
    >>> sorted(found.repairs.items())
    [('overlapping', 1), ('unsorted', 1), ('zero_length', 1)]
    """

    def __init__(self) -> None:
        self.repairs: Counter[str] = Counter()
        self._devices: dict[str, int] = {}
        self._owners, self._on, self._off = array("q"), array("q"), array("q")
        self._seen: dict[int, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._devices)

    def __contains__(self, name: str) -> bool:
        return name in self._devices

    def add(
        self,
        name: str,
        on: Sequence[int],
        off: Sequence[int],
        seen: tuple[int, int] | None = None,
    ) -> None:
        """Add intervals [on, off) of a device.

        Args:
            name: of the device, any number of times.
            on: seconds.
            off: as many seconds.
            seen: the observed time [from, to); None: from the first to the last of all intervals.

        Raises:
            DataError: a number that int64 cannot hold, or a name that the array form cannot.
        """
        device = self._devices.get(name)
        if device is None:
            device = self._devices[checked_name(name)] = len(self._devices)
        try:
            self._on.extend(on)
            self._off.extend(off)
        except OverflowError:
            raise DataError(
                f"seconds must be in 0 to {LATEST}, device {shown(name)} has a larger number"
            ) from None
        self._owners.extend([device] * len(on))
        if seen is not None:
            self._seen[device] = seen

    def traces(self, origin: Mapping[str, object]) -> Traces:
        """All of it in the array form.

        Args:
            origin: as of `Traces`; the repairs are added.

        Raises:
            DataError: no device, or an interval that ends before it begins or is out of range.
        """
        names = list(self._devices)
        owners, on, off = (np.array(part) for part in (self._owners, self._on, self._off))
        _check(names, owners, on, off)
        first, last = self._observed(owners, on, off)
        owners, on, off = self._united(*self._in_order(owners, on, off))
        counts = np.bincount(owners, minlength=len(names))
        return Traces(
            on,
            off,
            np.concatenate(([0], np.cumsum(counts))),
            first,
            last,
            names,
            origin={**origin, "repairs": dict(sorted(self.repairs.items()))},
        )

    def _observed(self, owners: IntArray, on: IntArray, off: IntArray) -> tuple[IntArray, IntArray]:
        """(D,) first and last observed second of each device."""
        first = np.full(len(self), LATEST, dtype=np.int64)
        last = np.zeros(len(self), dtype=np.int64)
        np.minimum.at(first, owners, on)
        np.maximum.at(last, owners, off)
        for device, (begin, end) in self._seen.items():
            first[device], last[device] = min(begin, LATEST), min(end, LATEST + 1)
        return first, last

    def _in_order(
        self, owners: IntArray, on: IntArray, off: IntArray
    ) -> tuple[IntArray, IntArray, IntArray]:
        """The intervals of some length by device and time, each once."""
        backwards = np.zeros(len(on), dtype=np.bool_)
        by_device = np.argsort(owners, kind="stable")
        owners, on, off = owners[by_device], on[by_device], off[by_device]
        backwards[1:] = (owners[1:] == owners[:-1]) & (on[1:] < on[:-1])
        self._count("unsorted", backwards)
        self._count("zero_length", on == off)
        some = np.flatnonzero(on < off)
        order = some[np.lexsort((off[some], on[some], owners[some]))]
        owners, on, off = owners[order], on[order], off[order]
        again = np.zeros(len(on), dtype=np.bool_)
        again[1:] = (np.diff(owners) == 0) & (np.diff(on) == 0) & (np.diff(off) == 0)
        self._count("duplicate", again)
        return owners[~again], on[~again], off[~again]

    def _united(
        self, owners: IntArray, on: IntArray, off: IntArray
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Intervals in order, those that overlap or touch as one."""
        if len(on) == 0:
            return owners, on, off
        base = owners << 32  # so that one running maximum serves all devices
        reached = np.maximum.accumulate(base + off)
        self._count("overlapping", (base + on)[1:] < reached[:-1])
        begins = np.flatnonzero(np.concatenate(([True], (base + on)[1:] > reached[:-1])))
        ends = np.append(begins[1:], len(on)) - 1
        return owners[begins], on[begins], (reached - base)[ends]

    def _count(self, fault: str, found: np.ndarray) -> None:
        if number := int(np.count_nonzero(found)):
            self.repairs[fault] += number


def intervals_of_events(
    events: Iterable[tuple[int, bool]], repairs: Counter[str]
) -> tuple[list[int], list[int], tuple[int, int]]:
    """Intervals and observed time of a device that tells when its state changes.

    Of events in the same second the last counts. The device is observed from its first to its last
    event, and away after a last event that says on.

    Args:
        events: at least one (second, available).
        repairs: counts of "unsorted" and "same_second" events, added to.

    >>> intervals_of_events([(5, True), (9, False), (9, True), (12, False)], Counter())
    ([5], [12], (5, 12))
    """
    given = list(events)
    ordered = sorted(given, key=lambda event: event[0])  # stable
    states = dict(ordered)  # the last of a second
    faults = {
        "unsorted": sum(b[0] < a[0] for a, b in itertools.pairwise(given)),
        "same_second": len(ordered) - len(states),
    }
    repairs.update({fault: number for fault, number in faults.items() if number})
    on: list[int] = []
    off: list[int] = []
    for second, available in states.items():
        if available and len(on) == len(off):
            on.append(second)
        elif not available and len(on) > len(off):
            off.append(second)
    span = ordered[0][0], ordered[-1][0]
    if len(on) > len(off):
        off.append(span[1])
    if on and on[-1] == off[-1]:
        del on[-1], off[-1]
    return on, off, span


def checked_name(name: str) -> str:
    """The name, if it fits in an array, in which each name takes the place of the longest one."""
    if not 0 < len(name) <= MOST_CHARACTERS:
        raise DataError(
            f"a device must have a name of 1 to {MOST_CHARACTERS} characters, got "
            f"{len(name)} characters, {shown(name)}"
        )
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in name):
        raise DataError(f"a device must have a name without NUL and surrogates, got {shown(name)}")
    return name


def _check(names: Sequence[str], owners: IntArray, on: IntArray, off: IntArray) -> None:
    if not names:
        raise DataError("a trace must have at least one device, got none")
    wrong = np.flatnonzero((on < 0) | (off > LATEST) | (off < on))
    if len(wrong):
        e = wrong[0]
        reason = (
            "an interval must not end before it begins"
            if off[e] < on[e]
            else f"seconds must be in 0 to {LATEST}"
        )
        raise DataError(f"{reason}, device {shown(names[owners[e]])} has [{on[e]}, {off[e]})")
