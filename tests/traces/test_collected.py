"""Intervals in any order, and what is repaired in them."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgs.errors import DataError
from fedgs.traces.collected import Collected, intervals_of_events

INTERVALS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 30), st.integers(0, 8)), min_size=1
)


@given(INTERVALS)
def test_the_seconds_are_the_union_of_all_intervals(parts: list[tuple[str, int, int]]) -> None:
    collected = Collected()
    for name, on, length in parts:
        collected.add(name, [on], [on + length])
    traces = collected.traces({})
    assert list(traces.names) == list(dict.fromkeys(name for name, _, _ in parts))
    for d, name in enumerate(traces.names):
        part = slice(traces.offsets[d], traces.offsets[d + 1])
        on, off = traces.on[part].tolist(), traces.off[part].tolist()
        found = [s for a, b in zip(on, off, strict=True) for s in range(a, b)]
        own = [(a, a + length) for other, a, length in parts if other == name]
        assert found == sorted({s for a, b in own for s in range(a, b)})
        assert all(later > earlier for later, earlier in zip(on[1:], off[:-1], strict=True))
        assert traces.seen_from[d] == min(a for a, _ in own)
        assert traces.seen_to[d] == max(b for _, b in own)


def test_every_fault_is_counted_once() -> None:
    collected = Collected()
    collected.add("a", [50, 0, 0, 5, 70], [60, 10, 10, 20, 70])
    collected.add("b", [0], [10])
    collected.add("a", [60], [65])  # touches, which is no fault, but stands after 70
    assert collected.traces({"x": 1}).origin == {
        "x": 1,
        "repairs": {"duplicate": 1, "overlapping": 1, "unsorted": 2, "zero_length": 1},
    }


def test_a_given_observed_time_holds() -> None:
    collected = Collected()
    collected.add("a", [50], [60], (0, 300))
    collected.add("b", [], [], (7, 9))
    traces = collected.traces({})
    assert (traces.seen_from.tolist(), traces.seen_to.tolist()) == ([0, 7], [300, 9])


@pytest.mark.parametrize(
    ("on", "off", "message"),
    [
        ([5], [4], r"an interval must not end before it begins, device 'a' has \[5, 4\)"),
        ([-1], [4], r"seconds must be in 0 to 2147483647, device 'a' has \[-1, 4\)"),
        ([0], [2**31], r"seconds must be in 0 to 2147483647, device 'a' has \[0, 2147483648\)"),
        ([0], [2**70], "seconds must be in 0 to 2147483647, device 'a' has a larger number"),
    ],
)
def test_impossible_intervals_are_refused(on: list[int], off: list[int], message: str) -> None:
    def collect() -> None:
        collected = Collected()
        collected.add("a", on, off)
        collected.traces({})

    with pytest.raises(DataError, match=message):
        collect()


def test_no_device_is_refused() -> None:
    with pytest.raises(DataError, match="a trace must have at least one device, got none"):
        Collected().traces({})


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1))
def test_events_give_the_state_of_every_second(events: list[tuple[int, bool]]) -> None:
    repairs: Counter[str] = Counter()
    on, off, (first, last) = intervals_of_events(events, repairs)
    assert (first, last) == (min(s for s, _ in events), max(s for s, _ in events))
    found = {s for a, b in zip(on, off, strict=True) for s in range(a, b)}
    expected = set()
    for second in range(first, last):
        latest = max(s for s, _ in events if s <= second)
        if [state for s, state in events if s == latest][-1]:
            expected.add(second)
    assert found == expected
    assert repairs["same_second"] == len(events) - len({s for s, _ in events})
    assert on == sorted(on) and all(a < b for a, b in zip(on, off, strict=True))


def test_a_device_that_stays_on_leaves_with_its_last_event() -> None:
    repairs: Counter[str] = Counter()
    assert intervals_of_events([(5, True), (9, True)], repairs) == ([5], [9], (5, 9))
    assert intervals_of_events([(5, False), (9, True)], repairs) == ([], [], (5, 9))
    assert repairs == {}
