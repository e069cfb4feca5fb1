"""The end of a round: which of the clients' answers the server still takes."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fedgs.arrays import AnyArray, BoolArray, FloatArray
from fedgs.clients import Selection

__all__ = ["Ended", "Played", "Tasks", "play"]

Ended = Literal["target", "deadline", "nobody"]


@dataclass(frozen=True, eq=False)
class Tasks:
    """What m clients do with a round's work if the server waits for all of them.

    Attributes:
        durations: (m,) seconds of work of the whole task, > 0.
        ends: (m,) seconds after the beginning of the round at which each client stops.
        fates: (m,) "answered", "gone" (it left before its answer) or "failed".

    >>> Tasks(np.array([2.0]), np.array([2.0]), np.array(["gone"])).fates.tolist()
    ['gone']
    """

    durations: FloatArray
    ends: FloatArray
    fates: AnyArray


@dataclass(frozen=True, eq=False)
class Played:
    """A round in time.

    Attributes:
        fates: (m,) "answered", "late" (still working at the end), "gone" or "failed".
        seconds: from the beginning of the round to its end.
        ended: "target": with the last answer that was waited for; "deadline"; "nobody": when no
            client was working any more.
        worked: (m,) seconds that each client worked before the end, without its pauses.
        durations: (m,) seconds of the whole work of each client.
        traffic: bytes of the models sent to all clients and of the answers.
        entered: whether the answers enter the model; not where there are too few.

    >>> one = np.array([1.0])
    >>> Played(np.array(["late"]), 1.0, "deadline", one, durations=2 * one).answered.tolist()
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
        return np.asarray(self.fates == "answered", dtype=np.bool_)

    def entering(self, selection: Selection) -> Selection:
        """The clients of the selection, in ascending order, whose updates enter the model."""
        kept = self.answered if self.entered else np.zeros(len(self.fates), dtype=np.bool_)
        draws = None if selection.draws is None else selection.draws[kept]
        return replace(selection, clients=selection.clients[kept], draws=draws)


def play(tasks: Tasks, *, wanted: int, deadline: float | None) -> Played:
    """End a round with the first `wanted` answers, at the deadline, or when no client works.

    Of answers at the same second, those of clients in front are first. Fewer clients than `wanted`
    are all waited for. An answer at the deadline is in time. Costs O(m log m).

    Args:
        tasks: of the m >= 1 selected clients.
        wanted: answers to wait for, M >= 1.
        deadline: seconds >= 0; None: no deadline.

    >>> tasks = Tasks(np.array([3.0, 5.0, 4.0]), np.array([3.0, 5.0, 1.0]),
    ...               np.array(["answered", "answered", "gone"]))
    >>> played = play(tasks, wanted=1, deadline=None)
    >>> played.fates.tolist(), played.seconds, played.ended, played.worked.tolist()
    (['answered', 'late', 'gone'], 3.0, 'target', [3.0, 3.0, 1.0])
    >>> play(tasks, wanted=2, deadline=4.0).fates.tolist()
    ['answered', 'late', 'gone']
    """
    count = len(tasks.ends)
    target = min(wanted, count)
    answers = np.flatnonzero(tasks.fates == "answered")
    in_order = answers[np.argsort(tasks.ends[answers], kind="stable")][:target]
    ended: Ended = "target" if len(in_order) == target else "nobody"
    seconds = float(tasks.ends[in_order[-1]] if ended == "target" else tasks.ends.max())
    if deadline is not None and deadline < seconds:
        seconds, ended = float(deadline), "deadline"
    fates = np.where(tasks.ends <= seconds, tasks.fates, "late").astype("<U8")
    fates[fates == "answered"] = "late"  # one of too many at the same second
    fates[in_order[tasks.ends[in_order] <= seconds]] = "answered"
    worked = np.minimum(tasks.durations, np.minimum(tasks.ends, seconds))
    return Played(fates, seconds, ended, worked, tasks.durations)
