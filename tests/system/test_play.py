"""The end of a round, and the tasks of clients that leave, pause and fail."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgs.arrays import FloatArray, IntArray
from fedgs.clients import Selection
from fedgs.system import Tasks, drop_outs, play, tasks_of
from fedgs.system.play import ANSWERED, FAILED, FATES, GONE

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
    assert (played.words, played.seconds, played.ended) == (fates, seconds, ended)
    assert played.worked.tolist() == [min(end, seconds) for end in (13, 103, 10, 53)]


def test_where_nobody_answers_the_round_ends_with_the_last_client() -> None:
    played = play(tasks((3, "gone"), (7, "failed")), wanted=1, deadline=None)
    assert (played.seconds, played.ended) == (7.0, "nobody")
    assert not played.answered.any()
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
    assert (played.words, played.seconds, played.ended) == (fates, seconds, ended)


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
    seconds = tuple(np.array([float(phase)]) for phase in phases)
    made = tasks_of(
        seconds,  # type: ignore[arg-type]
        away=away,  # type: ignore[arg-type]
        start=100.0,
        is_available=mode.is_available,  # type: ignore[arg-type]
        next_change=mode.next_change,
    )
    assert (made.ends.tolist(), made.words) == ([end], [fate])
    assert made.durations.tolist() == [sum(phases)]


def test_a_paused_client_is_not_waited_for_longer_than_the_longest_time() -> None:
    mode = Sessions(*[(float(10 * k), 10.0 * k + 1) for k in range(1000)])
    long = np.array([1.0]), np.array([900.0]), np.array([0.0])
    made = tasks_of(long, away="pause", longest=500.0, next_change=mode.next_change)
    assert made.words == ["gone"] and 500 <= made.ends[0] <= 510


def test_failures_are_uniform_over_the_task_and_belong_to_the_client() -> None:
    count = 4000
    whole = Tasks(np.full(count, 8.0), np.full(count, 8.0), np.full(count, ANSWERED))
    settings = {"probability": 0.25, "seed": 3, "round": 7, "num_clients": count}
    failed = drop_outs(whole, chosen=np.arange(count), **settings)  # type: ignore[arg-type]
    moments = failed.ends[failed.fates == FAILED] / 8
    # The share has sd .0068, the mean of 1000 moments .0091: five sd.
    assert abs(len(moments) / count - 0.25) < 0.035
    assert abs(moments.mean() - 0.5) < 0.046 and moments.min() < 0.02 and moments.max() > 0.98
    few = np.array([5, 17, 3999])
    part = Tasks(whole.durations[few], whole.ends[few], whole.fates[few])
    again = drop_outs(part, chosen=few, **settings)  # type: ignore[arg-type]
    assert again.ends.tolist() == failed.ends[few].tolist()


def test_a_client_that_has_left_does_not_fail_afterwards() -> None:
    count = 500
    gone = Tasks(np.full(count, 8.0), np.full(count, 2.0), np.full(count, GONE))
    played = drop_outs(
        gone, probability=1.0, seed=0, round=0, chosen=np.arange(count), num_clients=count
    )
    failed = played.fates == FAILED
    assert 0.18 < failed.mean() < 0.32  # 2 of 8 seconds, sd .019
    assert (played.ends[~failed] == 2).all() and (played.ends[failed] < 2).all()
    assert all(a <= b for a, b in pairwise(sorted(played.ends)))
