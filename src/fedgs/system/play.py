"""The end of a round: which of the clients' answers the server still takes."""

from dataclasses import dataclass
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

    @staticmethod
    def undisturbed(durations: FloatArray) -> "Tasks":
        """The tasks of clients that neither leave nor fail."""
        return Tasks(durations, durations, np.zeros(len(durations), dtype=np.int8))

    @property
    def words(self) -> list[str]:
        """The fates as words."""
        return [FATES[fate] for fate in self.fates.tolist()]


@dataclass(frozen=True, eq=False)
class Played:
    """A round in time.

    Attributes:
        fates: (m,) int8 positions in `FATES`, of which late is still working at the end.
        answered: (m,) which clients answered in time.
        answers: how many these are.
        seconds: from the beginning of the round to its end.
        ended: "target": with the last answer that was waited for; "deadline"; "nobody": when no
            client was working any more.
        worked: (m,) seconds that each client worked before the end, without its pauses.
        durations: (m,) seconds of the whole work of each client.
        traffic: bytes of the models sent to all clients and of the answers.
        entered: whether the answers enter the model; not where there are too few.

    >>> tasks = Tasks.undisturbed(np.array([2.0, 1.0]))
    >>> played = play(tasks, wanted=2, deadline=1.0)
    >>> played.answered.tolist(), played.answers, played.all_answered
    ([False, True], 1, False)
    """

    fates: AnyArray
    answered: BoolArray
    answers: int
    seconds: float
    ended: Ended
    worked: FloatArray
    durations: FloatArray
    traffic: int = 0
    entered: bool = True

    @property
    def words(self) -> list[str]:
        """The fates as words."""
        return [FATES[fate] for fate in self.fates.tolist()]

    @property
    def all_answered(self) -> bool:
        """Whether every client answered in time."""
        return self.answers == len(self.fates)

    def entering(self, selection: Selection) -> Selection:
        """The clients of the selection, in ascending order, whose updates enter the model."""
        if self.entered and self.all_answered:
            return selection
        kept = self.answered if self.entered else np.zeros(len(self.fates), dtype=np.bool_)
        draws = None if selection.draws is None else selection.draws[kept]
        return Selection(
            selection.clients[kept],
            draws,
            selection.weighting,
            selection.status,
            selection.objective,
            selection.upper_bound,
        )


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
    durations, ends, fates = tasks.durations, tasks.ends, tasks.fates
    answered = fates == ANSWERED
    count, answers = len(ends), int(np.count_nonzero(answered))
    target = min(wanted, count)
    arrivals = ends if answers == count else np.where(answered, ends, np.inf)
    order = arrivals.argsort(kind="stable")
    ended: Ended = "target" if answers >= target else "nobody"
    seconds = float(ends[order[target - 1]] if ended == "target" else ends.max())
    in_time = min(answers, target)
    if deadline is not None and deadline < seconds:
        seconds, ended = float(deadline), "deadline"
        in_time = int(np.count_nonzero(arrivals <= seconds))
    worked = ends if ends is durations else np.minimum(durations, ends)
    if in_time < count and ended != "nobody":  # else no client is still working
        late = ends > seconds
        late[order[in_time:answers]] = True  # also those that answer in the second of the end
        fates = fates.copy()
        fates[late] = LATE
        answered = fates == ANSWERED
        worked = np.minimum(worked, seconds)
    traffic, entered = (count + in_time) * update_bytes, in_time >= least
    return Played(fates, answered, in_time, seconds, ended, worked, durations, traffic, entered)
