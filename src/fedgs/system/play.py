"""The end of a round: which of the clients' answers the server still takes."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fedgs.arrays import AnyArray, BoolArray, FloatArray
from fedgs.clients import Selection

__all__ = ["ANSWERED", "FAILED", "FATES", "GONE", "LATE", "Ended", "Played", "Tasks", "play"]

Ended = Literal["target", "deadline", "nobody"]

FATES = ("answered", "gone", "failed", "late")
ANSWERED, GONE, FAILED, LATE = range(4)


@dataclass(frozen=True, eq=False)
class Tasks:
    """What m clients do with a round's work if the server waits for all of them.

    Attributes:
        durations: (m,) seconds of work of the whole task, > 0.
        ends: (m,) seconds after the beginning of the round at which each client stops.
        fates: (m,) int8 positions in `FATES`: answered, gone (it left before its answer) or failed.

    >>> Tasks(np.array([2.0]), np.array([2.0]), np.array([GONE])).words
    ['gone']
    """

    durations: FloatArray
    ends: FloatArray
    fates: AnyArray

    @property
    def words(self) -> list[str]:
        """The fates as words."""
        return [FATES[fate] for fate in self.fates.tolist()]


@dataclass(frozen=True, eq=False)
class Played:
    """A round in time.

    Attributes:
        fates: (m,) int8 positions in `FATES`, of which late is still working at the end.
        seconds: from the beginning of the round to its end.
        ended: "target": with the last answer that was waited for; "deadline"; "nobody": when no
            client was working any more.
        worked: (m,) seconds that each client worked before the end, without its pauses.
        durations: (m,) seconds of the whole work of each client.
        traffic: bytes of the models sent to all clients and of the answers.
        entered: whether the answers enter the model; not where there are too few.

    >>> one = np.array([1.0])
    >>> Played(np.array([LATE]), 1.0, "deadline", one, durations=2 * one).answered.tolist()
    [False]
    """

    fates: AnyArray
    seconds: float
    ended: Ended
    worked: FloatArray
    durations: FloatArray
    traffic: int = 0
    entered: bool = True

    @property
    def answered(self) -> BoolArray:
        """(m,) which clients answered in time."""
        answered: BoolArray = self.fates == ANSWERED
        return answered

    @property
    def words(self) -> list[str]:
        """The fates as words."""
        return [FATES[fate] for fate in self.fates.tolist()]

    def entering(self, selection: Selection) -> Selection:
        """The clients of the selection, in ascending order, whose updates enter the model."""
        kept = self.answered if self.entered else np.zeros(len(self.fates), dtype=np.bool_)
        if kept.all():
            return selection
        draws = None if selection.draws is None else selection.draws[kept]
        return replace(selection, clients=selection.clients[kept], draws=draws)


def play(
    tasks: Tasks, *, wanted: int, deadline: float | None, least: int = 1, update_bytes: int = 0
) -> Played:
    """End a round with the first `wanted` answers, at the deadline, or when no client works.

    Of answers at the same second, those of clients in front are first. Fewer clients than `wanted`
    are all waited for. An answer at the deadline is in time. Costs O(m log m).

    Args:
        tasks: of the m >= 1 selected clients.
        wanted: answers to wait for, M >= 1.
        deadline: seconds >= 0; None: no deadline.
        least: answers that have to arrive, so that they enter the model.
        update_bytes: of a model in either direction.

    >>> tasks = Tasks(np.array([3.0, 5.0, 4.0]), np.array([3.0, 5.0, 1.0]),
    ...               np.array([ANSWERED, ANSWERED, GONE]))
    >>> played = play(tasks, wanted=1, deadline=None)
    >>> played.words, played.seconds, played.ended, played.worked.tolist()
    (['answered', 'late', 'gone'], 3.0, 'target', [3.0, 3.0, 1.0])
    >>> play(tasks, wanted=2, deadline=4.0).words
    ['answered', 'late', 'gone']
    """
    count = len(tasks.ends)
    target = min(wanted, count)
    answers = (tasks.fates == ANSWERED).nonzero()[0]
    in_order = answers[tasks.ends[answers].argsort(kind="stable")[:target]]
    ended: Ended = "target" if len(in_order) == target else "nobody"
    seconds = float(tasks.ends[in_order[-1]] if ended == "target" else tasks.ends.max())
    if deadline is not None and deadline < seconds:
        seconds, ended = float(deadline), "deadline"
        in_order = in_order[tasks.ends[in_order] <= seconds]
    fates = tasks.fates.copy()
    fates[answers] = LATE
    fates[tasks.ends > seconds] = LATE
    fates[in_order] = ANSWERED
    worked = np.minimum(np.minimum(tasks.durations, tasks.ends), seconds)
    traffic, entered = (count + len(in_order)) * update_bytes, len(in_order) >= least
    return Played(fates, seconds, ended, worked, tasks.durations, traffic, entered)
