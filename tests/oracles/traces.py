"""Availability in a trace, second by second in plain Python."""

from collections.abc import Sequence

DAY = 86_400
Interval = tuple[int, int]


def is_on(intervals: Sequence[Interval], second: int) -> bool:
    """Whether a second of the file is in an interval."""
    return any(on <= second < off for on, off in intervals)


def is_available(
    intervals: Sequence[Interval],
    seen: Interval,
    second: int,
    *,
    days: int,
    wrap: str,
    unobserved: str,
) -> bool:
    """Whether a device is available at a second of the run, for a file that begins at second 0.

    Args:
        intervals: of the device.
        seen: its observed time [from, to).
        second: of the run, may be negative.
        days: the file's observed days, rounded up.
        wrap: "days", "device" or "refuse".
        unobserved: "replay" or "away".
    """
    first, last = seen
    if wrap == "device":
        while second >= last:
            second -= last - first
        while second < first:
            second += last - first
        return is_on(intervals, second)
    while second >= days * DAY:
        second -= days * DAY
    while second < 0:
        second += days * DAY
    whole_days = (last - first) // DAY
    if not first <= second < last and unobserved == "replay" and whole_days > 0:
        while second >= first + whole_days * DAY:
            second -= whole_days * DAY
        while second < first:
            second += whole_days * DAY
    return is_on(intervals, second)


def ranks(values: Sequence[float]) -> list[float]:
    """1 for the smallest; equal values share the mean of their ranks."""
    return [
        sum(other < value for other in values) + (1 + sum(other == value for other in values)) / 2
        for value in values
    ]
