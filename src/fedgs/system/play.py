"""The end of a round: which of the clients' answers the server still takes."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedgs.arrays import AnyArray, FloatArray, IntArray
from fedgs.clients import Selection

__all__ = ["ANSWERED", "FAILED", "FATES", "GONE", "Ended", "Played", "Tasks", "play"]

Ended = Literal["target", "deadline", "nobody"]

FATES = ("answered", "gone", "failed", "late")
ANSWERED, GONE, FAILED = range(3)


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
        fates: of the m clients, in `FATES`; late ones are still working at the end.
        in_time: ascending positions of the clients that answered in time.
        seconds: from the beginning of the round to its end.
        ended: "target": with the last answer that was waited for; "deadline"; "nobody": when no
            client was working any more.
        worked: of the m clients, seconds of work before the end, without pauses.
        durations: (m,) seconds of the whole work of each client.
        traffic: bytes of the models sent to all clients and of the answers.
        entered: whether the answers enter the model; not where there are too few.

    >>> tasks = Tasks.undisturbed(np.array([2.0, 1.0]))
    >>> played = play(tasks, wanted=2, deadline=1.0)
    >>> played.fates, played.in_time.tolist(), played.all_answered
    (['late', 'answered'], [1], False)
    """

    fates: list[str]
    in_time: IntArray
    seconds: float
    ended: Ended
    worked: list[float]
    durations: FloatArray
    traffic: int = 0
    entered: bool = True

    @property
    def all_answered(self) -> bool:
        """Whether every client answered in time."""
        return len(self.in_time) == len(self.fates)

    def entering(self, selection: Selection) -> Selection:
        """The clients of the selection, in ascending order, whose updates enter the model."""
        if self.entered and self.all_answered:
            return selection
        kept = self.in_time if self.entered else self.in_time[:0]
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
    are all waited for. An answer at the deadline is in time. Costs O(m log m). Lists are faster
    here than arrays for the few clients of a usual cohort.

    Args:
        tasks: of the m >= 1 selected clients.
        wanted: answers to wait for, M >= 1.
        deadline: seconds >= 0; None: no deadline.
        least: answers that have to arrive, so that they enter the model.
        update_bytes: of a model in either direction.

    >>> tasks = Tasks(np.array([3.0, 5.0, 4.0]), np.array([3.0, 5.0, 1.0]),
    ...               np.array([ANSWERED, ANSWERED, GONE]))
    >>> played = play(tasks, wanted=1, deadline=None)
    >>> played.fates, played.seconds, played.ended, played.worked
    (['answered', 'late', 'gone'], 3.0, 'target', [3.0, 3.0, 1.0])
    >>> play(tasks, wanted=2, deadline=4.0).fates
    ['answered', 'late', 'gone']
    """
    ends, fates = tasks.ends.tolist(), tasks.fates.tolist()
    answers = sorted((end, k) for k, end in enumerate(ends) if fates[k] == ANSWERED)
    target = min(wanted, len(ends))
    ended: Ended = "target" if len(answers) >= target else "nobody"
    seconds: float = answers[target - 1][0] if ended == "target" else max(ends)
    if deadline is not None and deadline < seconds:
        seconds, ended = float(deadline), "deadline"
    pairs = zip(ends, fates, strict=True)
    words = ["late" if end > seconds else FATES[fate] for end, fate in pairs]
    for _, k in answers[target:]:  # also those that answer in the second of the end
        words[k] = "late"
    in_time = [k for k, word in enumerate(words) if word == "answered"]
    whole = zip(tasks.durations.tolist(), ends, strict=True)
    worked = [min(duration, end, seconds) for duration, end in whole]
    return Played(
        words,
        np.array(in_time, dtype=np.int64),
        seconds,
        ended,
        worked,
        tasks.durations,
        (len(ends) + len(in_time)) * update_bytes,
        len(in_time) >= least,
    )
