"""What clients do with a round's work: when they finish, leave or fail."""

from collections.abc import Callable

import numpy as np

from fedgs.arrays import BoolArray, FloatArray, IntArray
from fedgs.rng import stream
from fedgs.system.play import FAILED, GONE, Tasks
from fedgs.system_settings import Away

__all__ = ["YEAR", "IsAvailable", "NextChange", "drop_outs", "tasks_of"]

YEAR = 366 * 86_400.0

# (positions among the m clients, seconds of the run) -> which are available, and the second at
# which each becomes available or leaves next, inf for never
IsAvailable = Callable[[IntArray, FloatArray], BoolArray]
NextChange = Callable[[IntArray, FloatArray], FloatArray]


def tasks_of(
    phases: tuple[FloatArray, FloatArray, FloatArray],
    *,
    away: Away,
    start: float = 0.0,
    longest: float = YEAR,
    is_available: IsAvailable | None = None,
    next_change: NextChange | None = None,
) -> Tasks:
    """The tasks of m clients that are all available when the round begins.

    Args:
        phases: (m,) seconds of download, training and upload.
        away: what happens to the work of a client that leaves, see `System`.
        start: the second at which the round begins, for the functions.
        longest: seconds after which a paused client counts as gone.
        is_available: of the availability mode; for "at_end" alone.
        next_change: of the availability mode; None: no client leaves.

    >>> phases = np.array([1.0, 1.0]), np.array([4.0, 9.0]), np.array([1.0, 1.0])
    >>> leaving = lambda chosen, seconds: np.full(len(chosen), 8.0)
    >>> tasks = tasks_of(phases, away="lost", is_available=None, next_change=leaving)
    >>> tasks.ends.tolist(), tasks.words
    ([6.0, 8.0], ['answered', 'gone'])
    """
    durations: FloatArray = phases[0] + phases[1] + phases[2]
    fates = np.zeros(len(durations), dtype=np.int8)
    if next_change is None:
        return Tasks(durations, durations, fates)
    ends, everyone = durations.copy(), np.arange(len(durations))
    if away == "at_end":
        assert is_available is not None
        is_gone = ~is_available(everyone, start + durations)
    elif away == "lost":
        leaves = next_change(everyone, np.full(len(durations), start)) - start
        is_gone = leaves < durations
        ends[is_gone] = leaves[is_gone]
    else:
        ends, is_gone = _paused(phases, start, longest, next_change)
    fates[is_gone] = GONE
    return Tasks(durations, ends, fates)


def _paused(
    phases: tuple[FloatArray, FloatArray, FloatArray],
    start: float,
    longest: float,
    next_change: NextChange,
) -> tuple[FloatArray, BoolArray]:
    """Ends and losses if training continues after an absence and transfers do not."""
    download, training, upload = phases
    count = len(download)
    everyone = np.arange(count)
    is_gone = np.zeros(count, dtype=np.bool_)
    now = np.full(count, start)
    leaves = next_change(everyone, now)
    is_gone |= leaves - now < download
    now = np.where(is_gone, leaves, now + download)
    left = training.copy()
    active = np.flatnonzero(~is_gone)
    while len(active):
        room = leaves[active] - now[active]
        done = left[active] <= room
        now[active[done]] += left[active[done]]
        active, room = active[~done], room[~done]
        if not len(active):
            break
        left[active] -= room
        now[active] = leaves[active]
        back = next_change(active, leaves[active])
        never = back - start > longest
        is_gone[active[never]] = True
        active = active[~never]
        now[active] = back[~never]
        leaves[active] = next_change(active, back[~never])
    uploads = np.flatnonzero(~is_gone)
    lost = uploads[leaves[uploads] - now[uploads] < upload[uploads]]
    kept = np.setdiff1d(uploads, lost)
    is_gone[lost] = True
    now[lost] = leaves[lost]
    now[kept] += upload[kept]
    ends: FloatArray = now - start
    return ends, is_gone


def drop_outs(
    tasks: Tasks, *, probability: float, seed: int, round: int, chosen: IntArray, num_clients: int
) -> Tasks:
    """The tasks, some of which fail at a uniform moment.

    The draws of a client depend on seed, round and client, not on the other clients of the cohort.

    Args:
        tasks: of the m clients.
        probability: of each to fail, in [0, 1].
        seed: of the draws.
        round: t.
        chosen: (m,) indices of the clients.
        num_clients: N.

    >>> tasks = Tasks(np.array([2.0]), np.array([2.0]), np.array([0]))  # answered
    >>> failed = drop_outs(
    ...     tasks, probability=1.0, seed=0, round=3, chosen=np.array([1]), num_clients=2
    ... )
    >>> failed.words, bool(failed.ends[0] < 2)
    (['failed'], True)
    """
    if probability == 0:
        return tasks
    coins, moments = stream(seed, "drop out", round).random((2, num_clients))[:, chosen]
    failing = moments * np.maximum(tasks.durations, tasks.ends)
    fails = (coins < probability) & (failing < tasks.ends)  # else it has left before
    ends: FloatArray = np.where(fails, failing, tasks.ends)
    fates = tasks.fates.copy()
    fates[fails] = FAILED
    return Tasks(tasks.durations, ends, fates)
