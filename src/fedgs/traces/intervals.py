"""The array form of availability traces: intervals of time by device, and its .npz file."""

import hashlib
import json
import os
import zipfile
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fedgs.arrays import AnyArray, BoolArray, FloatArray, IntArray, frozen, open_npz
from fedgs.errors import DataError, shown
from fedgs.file_writing import check_file

__all__ = [
    "DAY",
    "LATEST",
    "NEVER",
    "Traces",
    "check_target",
    "read_traces",
    "write_plain",
    "write_traces",
]

DAY = 86_400
LATEST = 2**31 - 1
"""The last second that a trace can name, the largest int32."""

NEVER = 2**60
"""The second of what does not happen."""

# Up to this many devices, a search in Python is quicker than one in arrays.
_FEW = 32
_INTEGERS = ("on", "off", "offsets", "seen_from", "seen_to", "zone_seconds")


@dataclass(frozen=True, eq=False)
class Traces:
    """When D devices were available: half-open intervals [on, off) of whole seconds.

    Device d has the intervals offsets[d] to offsets[d+1], ascending and disjoint, all of them in
    the time [seen_from, seen_to) in which it was observed. The arrays are read-only.

    Attributes:
        on: (E,) int32 seconds >= 0 at which a device becomes available.
        off: (E,) int32 seconds at which it leaves, > on.
        offsets: (D+1,) int64, from 0 to E.
        seen_from: (D,) int32, the first observed second.
        seen_to: (D,) int32, the end of the observed time, >= seen_from.
        zone_seconds: (D,) int32, the device's local time minus the time of the file.
        names: D distinct texts.
        origin: where the trace comes from, ready for JSON. `second_0`: the time of day of second 0
            as "HH:MM", midnight where it is missing.

    Raises:
        DataError: shapes, orders or ranges that are not these; the sentence names a device.

    >>> traces = Traces([0, 100, 0], [10, 110, 50], [0, 2, 3], [0, 0], [300, 60], ["a", "b"])
    >>> len(traces), traces.on_time(np.array([0, 1]), np.array([105, 20])).tolist()
    (2, [15, 20])
    >>> Traces([0, 5], [10, 20], [0, 2], [0], [20], ["a"])
    Traceback (most recent call last):
    fedgs.errors.DataError: intervals must be ascending and disjoint, device 'a' has [0, 10) before
    [5, 20)
    """

    on: AnyArray
    off: AnyArray
    offsets: AnyArray
    seen_from: AnyArray
    seen_to: AnyArray
    names: Sequence[str]
    zone_seconds: AnyArray | None = None
    origin: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.zone_seconds is None:
            object.__setattr__(self, "zone_seconds", np.zeros(len(self.names), dtype=np.int32))
        for name in _INTEGERS:
            object.__setattr__(self, name, _integers(name, getattr(self, name)))
        object.__setattr__(self, "names", tuple(map(str, self.names)))
        _check_shapes(self)
        _check_order(self)

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def digest(self) -> str:
        """A hash of the numbers, without names and origin."""
        hashed = hashlib.sha256()
        for name in _INTEGERS:
            array = getattr(self, name)
            hashed.update(f"{name} {len(array)} ".encode())
            hashed.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
        return hashed.hexdigest()

    @property
    def spans(self) -> IntArray:
        """(D,) observed seconds."""
        return np.asarray(self.seen_to, np.int64) - self.seen_from

    @property
    def second_0(self) -> int:
        """The time of day of second 0, in seconds after midnight."""
        hours, _, minutes = str(self.origin.get("second_0", "00:00"))[:5].partition(":")
        is_time = hours.isdecimal() and minutes.isdecimal()
        return (int(hours) * 3600 + int(minutes) * 60) % DAY if is_time else 0

    def is_on(self, devices: IntArray, seconds: IntArray) -> AnyArray:
        """(n,) whether each device is in an interval at a second, 0 to `LATEST`; O(n log E)."""
        found = self._index(devices, seconds)
        inside: AnyArray = (found >= self.offsets[devices]) & (seconds < self._off_or_0[found])
        return inside

    def next_state(self, devices: IntArray, seconds: IntArray, wanted: BoolArray) -> IntArray:
        """(n,) the first second, not before the given one, at which each device is in a state.

        A device is away outside of its intervals. O(n log E).

        Args:
            devices: (n,) indices.
            seconds: (n,) 0 to `LATEST`.
            wanted: (n,) True: available; False: away.

        Returns:
            (n,) seconds of the file, `NEVER` where there is none.
        """
        found = self._index(devices, seconds)
        is_in = (found >= self.offsets[devices]) & (seconds < self._off_or_0[found])
        following = found + 1
        has_next = following < self.offsets[1:][devices]
        arrival = np.where(has_next, self._on_or_0[np.where(has_next, following, -1)], NEVER)
        later = np.where(wanted, arrival, self._leaving[found])
        states: IntArray = np.where(is_in == wanted, seconds, later)
        return states

    def on_time(self, devices: IntArray, seconds: IntArray) -> IntArray:
        """(n,) available seconds of each device before a second, 0 to `LATEST`; O(n log E)."""
        found = self._index(devices, seconds)
        none = found < self.offsets[devices]
        before = self._total[found] - self._total[self.offsets[devices]]
        partial = np.minimum(seconds, self._off_or_0[found]) - self._on_or_0[found]
        time: IntArray = np.where(none, 0, before + partial)
        return time

    @property
    def shares(self) -> FloatArray:
        """(D,) available share of the observed time; 0 for a device without observed time."""
        devices = np.arange(len(self))
        share: FloatArray = self.on_time(devices, np.asarray(self.seen_to, np.int64)) / np.maximum(
            self.spans, 1
        )
        return share

    def _index(self, devices: IntArray, seconds: IntArray) -> IntArray:
        """(n,) each device's last interval with `on` <= second, or offsets[device] - 1 for none.

        Many devices are searched at once, in steps of powers of two within their own intervals.
        Ascending devices read memory in order. A few are searched one by one, which is quicker.
        """
        if len(devices) <= _FEW:
            bounds = zip(
                np.asarray(seconds).tolist(),
                self.offsets[devices].tolist(),
                self.offsets[1:][devices].tolist(),
                strict=True,
            )
            single = [bisect_right(self.on, second, low, high) - 1 for second, low, high in bounds]
            return np.array(single, dtype=np.int64)
        found = self.offsets[devices] - 1
        last = self.offsets[1:][devices] - 1
        most = int((last - found).max(initial=0))
        moments = np.asarray(seconds).astype(np.int32)
        for power in reversed(range(most.bit_length())):
            ahead = found + (1 << power)
            is_before = ahead <= last
            np.minimum(ahead, last, out=ahead)
            is_before &= self.on[ahead] <= moments
            found = np.where(is_before, ahead, found)
        return found

    @cached_property
    def _off_or_0(self) -> IntArray:
        """(E+1,) `off`, and a 0 at index -1, for no interval."""
        return np.append(self.off, 0).astype(np.int64)

    @cached_property
    def _leaving(self) -> IntArray:
        """(E+1,) the end of the intervals without a gap that each interval belongs to."""
        owners = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        apart = (owners[1:] != owners[:-1]) | (self.on[1:] != self.off[:-1])
        last = np.append(np.flatnonzero(apart), len(owners) - 1)  # of each chain of intervals
        chain = np.concatenate(([0], np.cumsum(apart)))[: len(owners)]
        ends = self.off[last[chain]] if len(owners) else self.off
        return np.append(ends, 0).astype(np.int64)

    @cached_property
    def _on_or_0(self) -> IntArray:
        return np.append(self.on, 0).astype(np.int64)

    @cached_property
    def _total(self) -> IntArray:
        """(E+1,) available seconds of all intervals before an interval."""
        lengths = self._off_or_0[:-1] - self._on_or_0[:-1]
        return np.concatenate(([0], np.cumsum(lengths)))


def read_traces(path: str | os.PathLike[str], *, setting: str = "trace") -> Traces:
    """The checked traces of an .npz file; no objects are unpickled.

    Args:
        path: of the file.
        setting: what names the file, for messages.

    Raises:
        DataError: no such file, not an .npz file of traces, or arrays that do not fit.
    """
    where = f"{setting} {str(path)!r}"
    check_file(path, setting=setting)
    try:
        with open_npz(path) as stored:
            missing = [name for name in (*_INTEGERS, "names") if name not in stored.files]
            if missing:
                raise DataError(
                    f"{where} must hold the arrays {', '.join((*_INTEGERS, 'names'))}, "
                    f"{missing[0]} is missing; fedgs trace convert writes such files"
                )
            arrays = {name: stored[name] for name in _INTEGERS}
            names = stored["names"]
            text = str(stored["origin"]) if "origin" in stored.files else "{}"
        origin = json.loads(text)
    except DataError:
        raise
    except (
        ValueError, OSError, EOFError, KeyError, TypeError, AttributeError, NotImplementedError,
        MemoryError, RecursionError, zipfile.BadZipFile, zlib.error,
    ) as error:  # fmt: skip
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise DataError(f"{where} is not a readable .npz file of traces: {reason}") from None
    if not isinstance(origin, dict) or names.ndim != 1:
        raise DataError(f"{where} must hold a list of names and an origin that is a JSON object")
    try:
        return Traces(**arrays, names=names.tolist(), origin=origin)
    except DataError as error:
        raise DataError(f"{where}: {error}") from None


def write_traces(traces: Traces, path: str | os.PathLike[str]) -> Path:
    """Write traces as a compressed .npz, completely or not at all; returns its path.

    Raises:
        DataError: see `check_target`.
    """
    target = Path(path)
    check_target(target)
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            np.savez_compressed(file, **_stored(traces))
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target


def check_target(path: Path) -> None:
    """Refuse a path that traces cannot be written to.

    Raises:
        DataError: it does not end in .npz, or its folder does not exist.
    """
    if path.suffix != ".npz":
        raise DataError(f"the file of traces must end in .npz, got {str(path)!r}")
    if not os.path.isdir(path.absolute().parent):
        raise DataError(f"the folder of {str(path)!r} does not exist")
    if os.path.isdir(path):
        raise DataError(f"{str(path)!r} must be a file to write, and is a folder")


def write_plain(traces: Traces, path: Path) -> None:
    """Write traces as an .npz that is not compressed, for a process that reads it at once."""
    with path.open("wb") as file:
        np.savez(file, **_stored(traces))


def _stored(traces: Traces) -> dict[str, Any]:
    """Name -> array, as `numpy.savez` takes them."""
    return {
        **{name: getattr(traces, name) for name in _INTEGERS},
        "names": np.array(traces.names, dtype=np.str_),
        "origin": np.array(json.dumps(dict(traces.origin))),
    }


def _integers(name: str, given: object) -> AnyArray:
    """The array as frozen int32, `offsets` as int64."""
    array: AnyArray = np.asarray(given)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(
            f"{name} must be a list of integers, got {array.dtype} of shape {array.shape}"
        )
    lowest = -LATEST if name == "zone_seconds" else 0
    if array.size and (int(array.min()) < lowest or int(array.max()) > LATEST):
        wrong = array.min() if int(array.min()) < lowest else array.max()
        raise DataError(f"{name} must be in {lowest} to {LATEST}, got {wrong}")
    return frozen(array.astype(np.int64 if name == "offsets" else np.int32))


def _check_shapes(traces: Traces) -> None:
    count = len(traces.names)
    if count == 0:
        raise DataError("a trace must have at least one device, got none")
    if len(set(traces.names)) < count:
        (twice, _), *_ = Counter(traces.names).most_common(1)
        raise DataError(f"names of devices must be distinct, got {shown(twice)} twice")
    for name in ("seen_from", "seen_to", "zone_seconds"):
        if len(getattr(traces, name)) != count:
            raise DataError(
                f"{name} must have {count} entries, one a device, got {len(getattr(traces, name))}"
            )
    offsets, intervals = traces.offsets, len(traces.on)
    ends = len(offsets) == count + 1 and offsets[0] == 0 and offsets[-1] == intervals
    if len(traces.off) != intervals or not ends or np.any(np.diff(offsets) < 0):
        raise DataError(
            f"offsets must ascend from 0 to the number of intervals in {count + 1} entries, and on "
            f"and off be of equal length, got {len(offsets)} offsets, {intervals} on and "
            f"{len(traces.off)} off"
        )


def _check_order(traces: Traces) -> None:
    on, off = traces.on, traces.off
    owners = np.repeat(np.arange(len(traces)), np.diff(traces.offsets))

    def device(where: AnyArray) -> str:
        return f"device {shown(traces.names[int(where)])}"

    backwards = np.flatnonzero(traces.seen_to < traces.seen_from)
    if len(backwards):
        d = backwards[0]
        raise DataError(
            f"seen_to must be at least seen_from, {device(d)} has {traces.seen_from[d]} and "
            f"{traces.seen_to[d]}"
        )
    empty = np.flatnonzero(off <= on)
    if len(empty):
        e = empty[0]
        raise DataError(
            f"an interval must end after it begins, {device(owners[e])} has [{on[e]}, {off[e]})"
        )
    early = np.flatnonzero((owners[1:] == owners[:-1]) & (on[1:] < off[:-1]))
    if len(early):
        e = early[0]
        raise DataError(
            f"intervals must be ascending and disjoint, {device(owners[e])} has "
            f"[{on[e]}, {off[e]}) before [{on[e + 1]}, {off[e + 1]})"
        )
    outside = np.flatnonzero((on < traces.seen_from[owners]) | (off > traces.seen_to[owners]))
    if len(outside):
        e = outside[0]
        raise DataError(
            f"intervals must be in the observed time, {device(owners[e])} has "
            f"[{on[e]}, {off[e]}) outside [{traces.seen_from[owners[e]]}, "
            f"{traces.seen_to[owners[e]]})"
        )
