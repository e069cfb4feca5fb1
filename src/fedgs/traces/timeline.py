"""What a device does in any second of a run: repeated periods and seconds without observation."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from fedgs.arrays import AnyArray, BoolArray, FloatArray, IntArray
from fedgs.traces.intervals import DAY, NEVER, Traces

__all__ = ["Timeline", "Unobserved", "Wrap"]

Wrap = Literal["days", "device", "refuse"]
Unobserved = Literal["replay", "away"]


@dataclass(frozen=True, eq=False)
class Timeline:
    """The available devices in every second of a run.

    Second 0 is the last multiple of 86,400 s before the first observation of the file.

    Attributes:
        traces: the intervals.
        wrap: the period after which a device repeats. "days" and "refuse": the file's observed
            time, in whole days. "device": the device's own observed time.
        unobserved: whether a device is away in seconds that the file did not observe, or does what
            it did at the same time of an observed day. Of n whole observed days, the first n are
            repeated. A device observed for less than a day is away.

    >>> traces = Traces([30_000], [40_000], [0, 1], [0], [86_400], ["a"])
    >>> Timeline(traces).is_on(np.array([0, 0]), np.array([86_400 + 30_000, 50_000])).tolist()
    [True, False]
    """

    traces: Traces
    wrap: Wrap = "days"
    unobserved: Unobserved = "replay"

    @cached_property
    def begin(self) -> int:
        """The second of the file that is second 0 here."""
        return int(self.traces.seen_from.min()) // DAY * DAY

    @cached_property
    def days(self) -> int:
        """Whole days of the file's period, at least 1."""
        return max(1, -(-(int(self.traces.seen_to.max()) - self.begin) // DAY))

    @cached_property
    def distinct_days(self) -> IntArray:
        """(D,) shifts by whole days after which a device is not where it was, each >= 1."""
        whole = np.maximum(self.traces.spans // DAY, 1)
        if self.wrap == "device" or self.unobserved == "replay":
            return whole
        return np.full(len(self.traces), self.days, dtype=np.int64)

    def is_on(self, devices: IntArray, seconds: IntArray) -> BoolArray:
        """(n,) whether each device is available at a second, O(n log E)."""
        inside = self._inside(devices, seconds)
        return np.asarray(self.traces.is_on(devices, inside), dtype=np.bool_)

    def next_change(self, devices: IntArray, seconds: IntArray) -> IntArray:
        """(n,) the first second after the given one at which each device is in the other state.

        `NEVER` where its state never changes. Costs O(n log E) for each repetition of the file that
        has to be passed, of which there are at most two periods.
        """
        now = np.array(seconds, dtype=np.int64)
        inside = self._inside(devices, now)
        wanted = ~self.traces.is_on(devices, inside)
        changes = np.full(len(devices), NEVER, dtype=np.int64)
        last = now + 2 * self._periods(devices)
        left = np.arange(len(devices))
        while len(left):
            few = devices[left]
            room = self._room(few, now[left], inside)
            ahead = self.traces.next_state(few, inside, wanted[left]) - inside
            found = ahead < room
            changes[left[found]] = now[left[found]] + ahead[found]
            now[left] += room
            left = left[~found & (now[left] <= last[left])]
            inside = self._inside(devices[left], now[left])
        return changes

    def _inside(self, devices: IntArray, seconds: IntArray) -> IntArray:
        """(n,) the second of the file that each device repeats."""
        first, last = self._observed(devices)
        if self.wrap == "device":
            cycled: IntArray = first + _cycle(self.begin + seconds - first, last - first)
            return cycled
        inside = self.begin + seconds % (self.days * DAY)
        if self.unobserved == "replay":
            _replay(inside, first, last)
        return inside

    def _room(self, devices: IntArray, seconds: IntArray, inside: IntArray) -> IntArray:
        """(n,) seconds for which the seconds of the file follow one another, from `inside` on."""
        first, last = self._observed(devices)
        if self.wrap == "device":
            return np.asarray(first + np.maximum(last - first, 1) - inside)
        shown = self.begin + seconds % (self.days * DAY)  # `inside` where nothing is replayed
        end = self.begin + self.days * DAY
        border = np.where(shown < first, first, np.where(shown < last, last, end))
        room: IntArray = border - shown
        if self.unobserved == "replay":
            period = (last - first) // DAY * DAY
            is_replayed = ((shown < first) | (shown >= last)) & (period > 0)
            room = np.where(is_replayed, np.minimum(room, first + period - inside), room)
        return room

    def _observed(self, devices: IntArray) -> tuple[IntArray, IntArray]:
        """(n,) the first observed second, and the end of the observed time."""
        traces = self.traces
        return traces.seen_from[devices].astype(np.int64), traces.seen_to[devices].astype(np.int64)

    def _periods(self, devices: IntArray) -> IntArray:
        """(n,) seconds after which each device repeats."""
        if self.wrap == "device":
            return np.maximum(self.traces.spans[devices], 1)
        return np.full(len(devices), self.days * DAY, dtype=np.int64)

    @cached_property
    def shares(self) -> FloatArray:
        """(D,) share of a period in which a device is available."""
        traces, devices = self.traces, np.arange(len(self.traces))
        if self.wrap == "device":
            return traces.shares
        first, last = traces.seen_from.astype(np.int64), traces.seen_to.astype(np.int64)
        on_time = traces.on_time(devices, last)
        if self.unobserved == "replay":
            end = self.begin + self.days * DAY
            on_time = on_time - self._replayed(np.full_like(first, self.begin))
            on_time += self._replayed(np.full_like(first, end)) - self._replayed(last)
        shares: FloatArray = on_time / (self.days * DAY)
        return shares

    def _replayed(self, ends: IntArray) -> IntArray:
        """(D,) available seconds from a device's first one to `ends`, its whole days repeated."""
        traces, devices = self.traces, np.arange(len(self.traces))
        first = traces.seen_from.astype(np.int64)
        period = traces.spans // DAY * DAY
        cycles, rest = np.divmod(ends - first, np.maximum(period, 1))
        whole = traces.on_time(devices, first + period)
        time = cycles * whole + traces.on_time(devices, first + rest)
        replayed: IntArray = np.where(period == 0, 0, time)
        return replayed


def _replay(seconds: IntArray, first: IntArray, last: IntArray) -> None:
    """Move seconds outside [first, last) by whole days into it, where it has a whole day."""
    outside = (seconds < first) | (seconds >= last)
    if not outside.any():
        return
    period = (last - first) // DAY * DAY
    moved = np.flatnonzero(outside & (period > 0))
    seconds[moved] = first[moved] + _cycle(seconds[moved] - first[moved], period[moved])


def _cycle(seconds: AnyArray, period: AnyArray) -> AnyArray:
    """Seconds modulo a period; 0 where the period is 0."""
    cycled: AnyArray = seconds % np.maximum(period, 1)
    return cycled
