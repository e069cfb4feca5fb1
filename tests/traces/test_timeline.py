"""Repeated periods and seconds without observation."""

from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.traces import is_available
from tests.traces.material import intervals_of, traces_of_days

from fedgs.traces import DAY, Traces
from fedgs.traces.intervals import NEVER
from fedgs.traces.timeline import Timeline

RULES: list[tuple[Literal["days", "device", "refuse"], Literal["replay", "away"]]] = [
    ("days", "replay"),
    ("days", "away"),
    ("device", "replay"),
    ("refuse", "replay"),
]


@pytest.mark.parametrize(("wrap", "unobserved"), RULES)
@given(
    traces=traces_of_days(min_span=100),
    seconds=st.lists(st.integers(-2 * DAY, 9 * DAY), min_size=1, max_size=20),
)
def test_a_second_is_that_of_plain_python(
    wrap: Literal["days", "device", "refuse"],
    unobserved: Literal["replay", "away"],
    traces: Traces,
    seconds: list[int],
) -> None:
    timeline = Timeline(traces, wrap, unobserved)
    devices = np.arange(len(seconds)) % len(traces)
    begin = int(min(traces.seen_from)) // DAY * DAY
    assert begin in (0, DAY)  # the oracle counts from the file's second 0
    expected = [
        is_available(
            [(on - begin, off - begin) for on, off in intervals_of(traces, d)],
            (int(traces.seen_from[d]) - begin, int(traces.seen_to[d]) - begin),
            second,
            days=max(1, -(-(int(traces.seen_to.max()) - begin) // DAY)),
            wrap=wrap,
            unobserved=unobserved,
        )
        for d, second in zip(devices.tolist(), seconds, strict=True)
    ]
    assert timeline.is_on(devices, np.array(seconds)).tolist() == expected


@pytest.mark.parametrize(("wrap", "unobserved"), RULES)
@given(traces=traces_of_days(min_span=DAY))
def test_shares_are_the_mean_over_a_period(
    wrap: Literal["days", "device", "refuse"],
    unobserved: Literal["replay", "away"],
    traces: Traces,
) -> None:
    timeline = Timeline(traces, wrap, unobserved)
    for d in range(len(traces)):
        period = int(traces.spans[d]) if wrap == "device" else timeline.days * DAY
        grid = np.arange(0, period, 100)  # all ends of intervals are multiples of 100 s
        mean = timeline.is_on(np.full(len(grid), d), grid).mean()
        assert timeline.shares[d] == pytest.approx(mean, abs=1e-12)


def test_a_device_repeats_after_its_own_time_whatever_was_asked_before() -> None:
    """FedScale's reader moves one interval a query, and is wrong after a jump to 205."""
    traces = Traces([0, 100, 200], [10, 110, 210], [0, 3], [0], [300], ["a"])
    timeline = Timeline(traces, "device")
    asked = np.array([205, 305, 5, 110, 209, 210, 300 * 10**6 + 105])
    assert timeline.is_on(np.zeros(7, int), asked).tolist() == [
        True, True, True, False, True, False, True,
    ]  # fmt: skip


def test_unobserved_time_is_replayed_from_the_same_time_of_day_or_away() -> None:
    # observed from 06:00 of day 0 for a day; there from 07:00 to 08:00. The file has two days.
    traces = Traces(
        [7 * 3600], [8 * 3600], [0, 1, 1], [6 * 3600, 0], [6 * 3600 + DAY, 2 * DAY], ["a", "b"]
    )
    half_past_seven = np.array([7.5 * 3600, 7.5 * 3600 + DAY]).astype(int)
    assert Timeline(traces).is_on(np.zeros(2, int), half_past_seven).tolist() == [True, True]
    away = Timeline(traces, unobserved="away")
    assert away.is_on(np.zeros(2, int), half_past_seven).tolist() == [True, False]
    assert Timeline(traces).shares.tolist() == [1 / 24, 0]
    assert away.shares.tolist() == [1 / 48, 0]


def test_the_time_of_day_survives_seconds_since_1970() -> None:
    epoch = 1_700_000_000
    traces = Traces([epoch], [epoch + 3600], [0, 1], [epoch], [epoch + DAY], ["a"])
    timeline = Timeline(traces)
    at = epoch % DAY
    assert timeline.days == 2  # the observed day is in two days of the calendar
    seconds = np.array([at - 1, at, at + 3599, at + 3600, at + DAY])
    assert timeline.is_on(np.zeros(5, int), seconds).tolist() == [False, True, True, False, True]


def test_three_devices_by_hour() -> None:
    """A table by hand: nights, a lunch break, and always; x is there, in the middle of an hour."""
    hour = 3600
    traces = Traces(
        [0, 22 * hour, 12 * hour, 0],
        [6 * hour, 24 * hour, 13 * hour, 24 * hour],
        [0, 2, 3, 4],
        [0] * 3,
        [DAY] * 3,
        ["night", "lunch", "always"],
    )
    middles = np.arange(24) * hour + 1800
    rows = [
        "".join("x" if there else "." for there in Timeline(traces).is_on(np.full(24, d), middles))
        for d in range(3)
    ]
    assert rows == [
        "xxxxxx................xx",
        "............x...........",
        "xxxxxxxxxxxxxxxxxxxxxxxx",
    ]


@pytest.mark.parametrize(("wrap", "unobserved"), RULES)
@given(
    traces=traces_of_days(min_span=100),
    seconds=st.lists(st.integers(-2 * DAY, 9 * DAY), min_size=1, max_size=4),
)
@settings(max_examples=30)
def test_the_state_changes_at_the_next_change_and_not_before(
    wrap: Literal["days", "device", "refuse"],
    unobserved: Literal["replay", "away"],
    traces: Traces,
    seconds: list[int],
) -> None:
    timeline = Timeline(traces, wrap, unobserved)
    for d, second in enumerate(seconds):
        device = np.array([d % len(traces)])
        change = int(timeline.next_change(device, np.array([second]))[0])
        state = bool(timeline.is_on(device, np.array([second]))[0])
        is_never = change == NEVER
        end = second + 2 * 7 * DAY if is_never else change
        between = np.arange(second, end, 100)  # all changes are 100 s apart or more
        between = np.append(between[:20_000], end - 1)
        assert (timeline.is_on(np.repeat(device, len(between)), between) == state).all()
        assert is_never or bool(timeline.is_on(device, np.array([change]))[0]) != state


def test_intervals_without_a_gap_are_left_at_their_common_end() -> None:
    timeline = Timeline(Traces([0, 10, 30], [10, 20, 40], [0, 3], [0], [DAY], ["a"]))
    changes = timeline.next_change(np.zeros(5, dtype=np.int64), np.array([0, 15, 20, 35, 40]))
    assert changes.tolist() == [20, 20, 30, 40, DAY]
    always = Timeline(Traces([0], [DAY], [0, 1], [0], [DAY], ["a"]))
    assert always.next_change(np.array([0]), np.array([5])).tolist() == [NEVER]
