"""What clients do with a round's work: when they finish, leave or fail."""

from collections.abc import Callable

import numpy as np

from fedgs.arrays import BoolArray, FloatArray, IntArray
from fedgs.system.play import FAILED, GONE, Tasks

__all__ = [
    "YEAR",
    "IsAvailable",
    "NextChange",
    "checked_tasks",
    "drop_outs",
    "lost_tasks",
    "paused_tasks",
]

YEAR = 366 * 86_400.0

# (positions among the m clients, seconds of the run) -> which are available, and the second at
# which each becomes available or leaves next, inf for never
IsAvailable = Callable[[IntArray, FloatArray], BoolArray]
NextChange = Callable[[IntArray, FloatArray], FloatArray]


def lost_tasks(durations: FloatArray, present: FloatArray) -> Tasks:
    """The tasks of clients whose work is lost when they leave.

    Args:
        durations: (m,) seconds of work.
        present: (m,) seconds from the beginning of the round until each client leaves, inf for
            never.

    >>> tasks = lost_tasks(np.array([6.0, 11.0]), np.array([8.0, 8.0]))
    >>> tasks.ends.tolist(), tasks.words
    ([6.0, 8.0], ['answered', 'gone'])
    """
    is_gone = present < durations
    if not is_gone.any():
        return Tasks.undisturbed(durations)
    return Tasks(durations, np.minimum(present, durations), is_gone * np.int8(GONE))


def checked_tasks(
    durations: FloatArray, start: FloatArray, leaves: FloatArray, is_available: IsAvailable
) -> Tasks:
    """The tasks of clients that answer if they are available at the end of their work.

    Args:
        durations: (m,) seconds of work.
        start: (m,) the second at which the round of each client begins.
        leaves: (m,) the seconds at which the clients leave, inf for never.
        is_available: of the availability mode.

    >>> back = lambda few, seconds: seconds > 110
    >>> checked_tasks(np.array([6.0, 9.0, 20.0]), np.full(3, 100.0), np.full(3, 108.0), back).words
    ['answered', 'gone', 'answered']
    """
    stopped = start + durations
    unsure = np.flatnonzero(stopped >= leaves)  # it has left, and may be back
    if not len(unsure):
        return Tasks.undisturbed(durations)
    fates = np.zeros(len(durations), dtype=np.int8)
    fates[unsure[~is_available(unsure, stopped[unsure])]] = GONE
    return Tasks(durations, durations, fates)


def paused_tasks(
    phases: FloatArray,
    start: FloatArray,
    leaves: FloatArray,
    next_change: NextChange,
    *,
    longest: float = YEAR,
) -> Tasks:
    """The tasks of clients that go on training after an absence, and do not repeat a transfer.

    Args:
        phases: (3, m) seconds of download, training and upload.
        start: (m,) the second at which the round of each client begins.
        leaves: (m,) the seconds at which the clients leave, inf for never.
        next_change: of the availability mode.
        longest: seconds after which a client that is away counts as gone.

    >>> changes = lambda few, seconds: np.where(seconds < 108, 108.0, seconds + 5)
    >>> phases = np.array([[1.0], [10.0], [1.0]])
    >>> tasks = paused_tasks(phases, np.array([100.0]), np.array([108.0]), changes)
    >>> tasks.ends.tolist()  # it was away for 5 s
    [17.0]
    """
    download, training, upload = phases
    durations: FloatArray = download + training + upload
    count = len(durations)
    finished = start + download + training + upload
    if (finished < leaves - 1.0).all():  # a second is far more than what rounding loses
        return Tasks(durations, finished - start, np.zeros(count, dtype=np.int8))
    is_gone = leaves - start < download
    leaves = leaves.copy()
    now = np.where(is_gone, leaves, start + download)
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
        never = back - start[active] > longest
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
    return Tasks(durations, now - start, is_gone * np.int8(GONE))


def drop_outs(tasks: Tasks, moments: FloatArray) -> Tasks:
    """The tasks, some of which fail.

    Args:
        tasks: of the m clients.
        moments: (m,) the share of its work after which each client fails, in [0, 1), inf for
            clients that do not fail.

    >>> tasks = Tasks(np.array([2.0, 4.0]), np.array([2.0, 4.0]), np.array([0, 0]))  # answered
    >>> failed = drop_outs(tasks, np.array([np.inf, 0.25]))
    >>> failed.words, failed.ends.tolist()
    (['answered', 'failed'], [2.0, 1.0])
    """
    durations, ends = tasks.durations, tasks.ends
    failing = moments * (ends if ends is durations else np.maximum(durations, ends))
    fails = failing < ends  # else it has left before
    if not fails.any():
        return tasks
    fates = tasks.fates.copy()
    fates[fails] = FAILED
    return Tasks(durations, np.minimum(failing, ends), fates)
