"""The numbers of a trace, by hand and for the 300 phones."""

import json

import numpy as np
import pytest
from tests.traces.material import needs_phones, phones

from fedgs.traces import DAY, Traces
from fedgs.traces.statistics import statistics

HOUR = 3600


@needs_phones
def test_the_phones_have_the_numbers_that_were_measured_apart() -> None:
    """Another program measured these, with two or three digits."""
    found = statistics(phones())
    assert (found.devices, found.never, found.long_devices) == (300, 3, 191)
    assert found.share == pytest.approx(0.251, abs=0.001)
    assert found.share_from_start == pytest.approx(0.201, abs=0.001)
    assert found.share_of_file == pytest.approx(0.142, abs=0.001)
    assert found.quantiles == pytest.approx((0.08, 0.14, 0.21, 0.30, 0.53), abs=0.0055)
    assert found.beta == pytest.approx((2.4, 7.4), abs=0.1)
    assert min(found.hours[12:14]) == min(found.hours) == pytest.approx(0.195, abs=0.002)
    assert found.hours[3] == max(found.hours) == pytest.approx(0.323, abs=0.002)
    assert found.leave == pytest.approx(0.0725, abs=0.001)
    assert found.arrive == pytest.approx(0.0243, abs=0.0005)
    assert found.memory == pytest.approx(0.903, abs=0.002)
    assert found.autocorrelation == pytest.approx(
        {"10 min": 0.88, "1 h": 0.50, "12 h": -0.07, "24 h": 0.05}, abs=0.005
    )
    assert found.pair_correlation == pytest.approx(0.009, abs=0.003)
    assert found.session_quartiles == pytest.approx((0.3, 0.8, 2.0, 5.0), abs=0.03)
    assert found.short_sessions == pytest.approx(0.10, abs=0.005)
    assert found.stays == pytest.approx({5: 0.956, 10: 0.915, 30: 0.779, 60: 0.629}, abs=0.0015)


def test_shares_depend_on_what_unobserved_time_counts_as() -> None:
    # a: there 1 h of 24 h, from day 1; b: there 2 h of 48 h
    traces = Traces(
        [DAY, 0], [DAY + HOUR, 2 * HOUR], [0, 1, 2], [DAY, 0], [2 * DAY] * 2, ["a", "b"]
    )
    found = statistics(traces)
    assert found.share == pytest.approx(3 / 72)
    assert found.share_from_start == pytest.approx(3 / 96)
    assert found.share_of_file == pytest.approx(3 / 96)
    shorter = Traces(
        [DAY, 0], [DAY + HOUR, 2 * HOUR], [0, 1, 2], [DAY, 0], [2 * DAY, DAY], ["a", "b"]
    )
    assert statistics(shorter).share_from_start == pytest.approx(3 / 72)
    assert statistics(shorter).share_of_file == pytest.approx(3 / 96)


def test_changes_hours_and_sessions_by_hand() -> None:
    # the third interval begins 30 s after the second ends
    on, off = [6 * HOUR, 12 * HOUR, 13 * HOUR + 30], [7 * HOUR, 13 * HOUR, 14 * HOUR]
    traces = Traces(on, off, [0, 3], [0], [DAY], ["a"], origin={"second_0": "18:00"})
    found = statistics(traces)
    assert [h for h in range(24) if found.hours[h] > 0] == [0, 6, 7]
    assert found.hours[0] == 1.0 and found.hours[7] == pytest.approx(5 / 6)  # not at 13:00:00
    # on at 6 + 6 + 5 points of the grid; off after three of them, on again after three of 126
    assert found.leave == pytest.approx(3 / 17)
    assert found.arrive == pytest.approx(3 / (143 - 17))
    assert found.session_quartiles == pytest.approx((1.25, 1.5, 1.75, 1.9))
    assert found.stays[60] == pytest.approx(1 / 3)  # one of two hours, and none of one
    assert found.short_sessions == 0


def test_correlations_of_opposite_and_periodic_devices() -> None:
    hours = np.arange(0, 96, 2)
    on = np.concatenate([hours, hours + 1]) * HOUR
    traces = Traces(on, on + HOUR, [0, 48, 96], [0, 0], [4 * DAY] * 2, ["even", "odd"])
    found = statistics(traces)
    assert found.pair_correlation == pytest.approx(-1)
    # period 2 h: 12 h are 6 periods; 72 of the 576 points have no partner
    assert found.autocorrelation["12 h"] == pytest.approx((576 - 72) / 576)
    assert found.autocorrelation["1 h"] == pytest.approx(-(576 - 6) / 576)


def test_empty_traces_have_no_numbers() -> None:
    found = statistics(Traces([], [], [0, 0], [5], [5], ["a"]))
    assert found.never == 1
    table = found.table()
    assert table["share"] is None and table["quantiles"] == [None] * 5
    json.dumps(table, allow_nan=False)
    assert "by device       - - - - - (5, 25" in "\n".join(found.lines())


def test_many_devices_are_on_a_grid_of_a_thousand() -> None:
    count = 2500
    ends = np.arange(count) % 2 * DAY
    there = np.flatnonzero(ends)
    traces = Traces(
        np.zeros(len(there), int), ends[there], np.concatenate(([0], np.cumsum(ends > 0))),
        np.zeros(count, int), np.full(count, DAY), [str(d) for d in range(count)],
    )  # fmt: skip
    found = statistics(traces)
    assert found.share == 0.5
    assert found.hours == pytest.approx((417 / 834,) * 24)  # every third device
