"""What a device does in any second of a run: repeated periods and seconds without observation."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from fedgs.arrays import AnyArray, BoolArray, FloatArray, IntArray
from fedgs.traces.intervals import DAY, Traces

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
        traces = self.traces
        first = traces.seen_from[devices].astype(np.int64)
        last = traces.seen_to[devices].astype(np.int64)
        if self.wrap == "device":
            inside = first + _cycle(self.begin + seconds - first, last - first)
        else:
            inside = self.begin + seconds % (self.days * DAY)
            if self.unobserved == "replay":
                _replay(inside, first, last)
        return np.asarray(traces.is_on(devices, inside), dtype=np.bool_)

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
    period = (last - first) // DAY * DAY
    moved = np.flatnonzero(((seconds < first) | (seconds >= last)) & (period > 0))
    seconds[moved] = first[moved] + _cycle(seconds[moved] - first[moved], period[moved])


def _cycle(seconds: AnyArray, period: AnyArray) -> AnyArray:
    """Seconds modulo a period; 0 where the period is 0."""
    cycled: AnyArray = seconds % np.maximum(period, 1)
    return cycled
