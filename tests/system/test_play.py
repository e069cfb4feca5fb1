"""The end of a round, and the tasks of clients that leave, pause and fail."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgs.arrays import FloatArray, IntArray
from fedgs.availability import Ideal
from fedgs.clients import Clients, Selection
from fedgs.system import (
    SystemTime,
    Tasks,
    checked_tasks,
    drop_outs,
    lost_tasks,
    paused_tasks,
    play,
)
from fedgs.system.play import FAILED, FATES, GONE
from fedgs.system_settings import System

WORDS = ["answered", "gone", "failed"]


def tasks(*clients: tuple[float, str]) -> Tasks:
    ends = np.array([end for end, _ in clients])
    return Tasks(ends, ends, np.array([FATES.index(fate) for _, fate in clients]))


@pytest.mark.parametrize(
    ("wanted", "deadline", "fates", "seconds", "ended"),
    [
        (1, None, ["answered", "late", "gone", "late"], 13.0, "target"),
        (2, None, ["answered", "late", "gone", "answered"], 53.0, "target"),
        (3, None, ["answered", "answered", "gone", "answered"], 103.0, "target"),
        (4, None, ["answered", "answered", "gone", "answered"], 103.0, "nobody"),
        (9, None, ["answered", "answered", "gone", "answered"], 103.0, "nobody"),
        (2, 53.0, ["answered", "late", "gone", "answered"], 53.0, "target"),
        (2, 52.0, ["answered", "late", "gone", "late"], 52.0, "deadline"),
        (9, 5.0, ["late", "late", "late", "late"], 5.0, "deadline"),
        (1, 0.0, ["late", "late", "late", "late"], 0.0, "deadline"),
    ],
)
def test_a_round_ends_with_enough_answers_at_the_deadline_or_with_the_last_client(
    wanted: int, deadline: float | None, fates: list[str], seconds: float, ended: str
) -> None:
    four = tasks((13, "answered"), (103, "answered"), (10, "gone"), (53, "answered"))
    played = play(four, wanted=wanted, deadline=deadline)
    assert (played.fates, played.seconds, played.ended) == (fates, seconds, ended)
    assert played.worked == [min(end, seconds) for end in (13, 103, 10, 53)]


def test_where_nobody_answers_the_round_ends_with_the_last_client() -> None:
    played = play(tasks((3, "gone"), (7, "failed")), wanted=1, deadline=None)
    assert (played.seconds, played.ended) == (7.0, "nobody")
    assert len(played.in_time) == 0
    assert len(played.entering(Selection(np.array([4, 5]))).clients) == 0


@given(
    clients=st.lists(
        st.tuples(st.integers(1, 4).map(float), st.sampled_from(WORDS)), min_size=1, max_size=7
    ),
    wanted=st.integers(1, 5),
    deadline=st.none() | st.integers(0, 5).map(float),
)
def test_a_round_is_that_of_a_plain_clock(
    clients: list[tuple[float, str]], wanted: int, deadline: float | None
) -> None:
    """The events one after another, clients in front first, until one of them ends the round."""
    target, answers = min(wanted, len(clients)), 0
    fates = ["late"] * len(clients)
    seconds, ended = 0.0, "nobody"
    for end, k in sorted((end, k) for k, (end, _) in enumerate(clients)):
        if answers == target or (deadline is not None and end > deadline):
            break
        fates[k], seconds = clients[k][1], end
        answers += fates[k] == "answered"
    if answers == target:
        ended = "target"
        for k, (end, fate) in enumerate(clients):  # who stops in the second of the end has stopped
            if fates[k] == "late" and end == seconds and fate != "answered":
                fates[k] = fate
    elif "late" in fates:
        seconds, ended = deadline, "deadline"  # type: ignore[assignment]
    played = play(tasks(*clients), wanted=wanted, deadline=deadline)
    assert (played.fates, played.seconds, played.ended) == (fates, seconds, ended)


class Sessions:
    """Clients that are available in the same sessions [on, off)."""

    def __init__(self, *sessions: tuple[float, float]) -> None:
        self.ends = [second for session in sessions for second in session]

    def is_available(self, chosen: IntArray, seconds: FloatArray) -> FloatArray:
        return np.searchsorted(self.ends, seconds, side="right") % 2 == 1

    def next_change(self, chosen: IntArray, seconds: FloatArray) -> FloatArray:
        ends = np.array([*self.ends, np.inf])
        return np.asarray(ends[np.searchsorted(self.ends, seconds, side="right")])


@pytest.mark.parametrize(
    ("away", "phases", "end", "fate"),
    [
        ("lost", (1, 8, 1), 10, "answered"),  # until the end of the session
        ("lost", (1, 8, 2), 10, "gone"),
        ("at_end", (1, 12, 1), 14, "gone"),  # 114 is in the gap
        ("at_end", (1, 20, 1), 22, "answered"),  # it was away from 110 to 120
        ("pause", (1, 20, 1), 32, "answered"),  # 9 s before the gap of 10 s, 11 s after it
        ("pause", (11, 1, 1), 10, "gone"),  # the download is interrupted
        ("pause", (1, 8.5, 1), 10, "gone"),  # the upload is interrupted
        ("pause", (1, 9, 1), 10, "gone"),  # it cannot begin
        ("pause", (1, 28.5, 0.5), 40, "answered"),  # the second session ends at 140
        ("pause", (1, 30, 1), 40, "gone"),  # there is no third session
        ("pause", (0, 29, 0), 39, "answered"),
    ],
)
def test_clients_that_leave(away: str, phases: tuple[float, ...], end: float, fate: str) -> None:
    """The round begins at 100; sessions are [100, 110) and [120, 140)."""
    mode = Sessions((100, 110), (120, 140))
    seconds = np.array([[float(phase)] for phase in phases])
    start, leaves, durations = np.array([100.0]), np.array([110.0]), seconds.sum(axis=0)
    made = {
        "lost": lambda: lost_tasks(durations, leaves - start),
        "at_end": lambda: checked_tasks(durations, start, leaves, mode.is_available),
        "pause": lambda: paused_tasks(seconds, start, leaves, mode.next_change),
    }[away]()
    assert (made.ends.tolist(), made.words) == ([end], [fate])
    assert made.durations.tolist() == [sum(phases)]


def test_a_paused_client_is_not_waited_for_longer_than_the_longest_time() -> None:
    mode = Sessions(*[(float(10 * k), 10.0 * k + 1) for k in range(1000)])
    long = np.array([[1.0], [900.0], [0.0]])
    made = paused_tasks(long, np.zeros(1), np.array([1.0]), mode.next_change, longest=500.0)
    assert made.words == ["gone"] and 500 <= made.ends[0] <= 510


def test_a_client_without_an_absence_is_as_quick_paused_as_not() -> None:
    """Sums that round differently, and ends shortly before and after a client leaves."""
    rng = np.random.default_rng(0)
    phases, start = rng.exponential(20.0, (3, 200)), np.full(200, 12_345_678.9)
    leaves = np.ceil(start + phases.sum(axis=0)) + rng.integers(0, 4, 200)
    mode = Sessions((0, 1e9))
    slow = paused_tasks(phases, start, leaves, mode.next_change)  # some leave at once
    assert set(slow.words) == {"answered"}
    for k in range(200):
        alone = paused_tasks(phases[:, [k]], start[:1], leaves[[k]] + 1e6, mode.next_change)
        assert alone.ends.tolist() == slow.ends[[k]].tolist()


def test_failures_belong_to_the_client_and_are_uniform_over_the_task() -> None:
    count = 4000
    clients = Clients(tuple(range(count)), np.ones(count, dtype=np.int64))
    system = System(drop_out=0.25, seed=3, update_bytes=0, example_seconds_spread=0)
    time = SystemTime(system, clients, Ideal(), count, np.full(count, 8 / 0.0136))
    failed = time.play(7, 0.0, np.arange(count), 610)
    moments = np.array(failed.worked)[np.array(failed.fates) == "failed"] / 8
    # The share has sd .0068, the mean of 1000 moments .0091: five sd.
    assert abs(len(moments) / count - 0.25) < 0.035
    assert abs(moments.mean() - 0.5) < 0.046 and moments.min() < 0.02 and moments.max() > 0.98
    few = np.array([5, 17, 3999])
    again = time.play(7, 0.0, few, 610)
    assert again.worked == [failed.worked[k] for k in few]


def test_a_client_that_has_left_does_not_fail_afterwards() -> None:
    count = 500
    gone = Tasks(np.full(count, 8.0), np.full(count, 2.0), np.full(count, GONE))
    played = drop_outs(gone, np.random.default_rng(0).random(count))
    failed = played.fates == FAILED
    assert 0.18 < failed.mean() < 0.32  # 2 of 8 seconds, sd .019
    assert (played.ends[~failed] == 2).all() and (played.ends[failed] < 2).all()
    assert all(a <= b for a, b in pairwise(sorted(played.ends)))
