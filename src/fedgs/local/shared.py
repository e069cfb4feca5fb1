"""An engine whose requests are answered in several places, such as the nodes of a cluster.

A request is cut into pieces, and each place answers one at a time. A piece whose place is lost is
given to another one. Replies have the bits of one place, however many there are.
"""

import itertools
import math
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fedgs.errors import WorkerError
from fedgs.local.division import Piece, count_of_units, cut, joined
from fedgs.requests import Failure, Request, Train, Work

__all__ = ["Answer", "Pool", "SharedEngine", "runs_of_units"]

LOSSES = 3  # how often a piece is lost before its request fails


@dataclass(frozen=True, eq=False)
class Answer:
    """What a place sent.

    Attributes:
        content: see `fedgs.local.division.answered`.
        seconds: that the place took.
    """

    content: object
    seconds: float


class Pool(Protocol):
    """Places that answer pieces of requests: what the engine needs to know about them."""

    def announce(self, requests: Sequence[Request], *, engine: str, device: str) -> None:
        """Bring what all pieces of these requests need to the places; what was before is over.

        Args:
            requests: of which pieces follow.
            engine: as registered, by which each place answers.
            device: of the engine.
        """

    def free(self) -> Sequence[Hashable]:
        """The places that have no piece now; empty while none is ready.

        Raises:
            WorkerError: there has been no place for too long.
        """

    def send(self, place: Hashable, position: int, piece: Piece) -> None:
        """Give a free place a piece of the announced request at this position."""

    def received(self) -> Iterable[tuple[Hashable, Answer | None]]:
        """What has come from places since the last call; None: the place is lost.

        Waits at most a second.
        """


@dataclass(eq=False)
class _Task:
    """Units start..stop-1 of a request, or the request as it is."""

    position: int
    start: int
    stop: int
    whole: bool = False
    losses: int = 0


@dataclass(eq=False)
class _InProgress:
    """A request that is being answered.

    Attributes:
        request: it.
        units: how many it has.
        whole: whether one place has to answer all of it, as it is.
        answers: first unit -> content of the answer to a piece.
        open: units without an answer.
    """

    request: Request
    units: int
    whole: bool = False
    answers: dict[int, object] = field(default_factory=dict)
    open: int = field(init=False)

    def __post_init__(self) -> None:
        self.open = self.units

    def piece(self, task: _Task) -> Piece:
        """What a place is given."""
        if task.whole:
            return self.request
        return cut(self.request, task.start, task.stop, units=self.units)

    def reply(self) -> object:
        """The reply, once no unit is open."""
        return joined(self.request, [self.answers[start] for start in sorted(self.answers)])


class SharedEngine:
    """Answers requests in the places of a pool.

    Args:
        pool: the places.
        name: of the engine by which each place answers, as registered.
        device: of these engines.
    """

    def __init__(self, pool: Pool, name: str, device: str) -> None:
        self.name, self._device, self._pool = name, device, pool
        self._speeds: dict[tuple[Hashable, bool], float] = {}  # units a second; of training or not
        self._drawing: dict[int, Work] = {}  # whose models draw random numbers in evaluations

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, object]]:
        """See `fedgs.requests.Engine`."""
        self._pool.announce(requests, engine=self.name, device=self._device)
        begun = [_InProgress(request, self._units(request)) for request in requests]
        queue = deque[_Task]()
        working: dict[Hashable, _Task] = {}
        is_cut, left = False, len(requests)
        while left:
            free = self._pool.free()
            if free and not is_cut:
                queue.extend(self._tasks(begun, free))
                is_cut = True
            for place in free[: len(queue)]:
                task = working[place] = queue.popleft()
                self._pool.send(place, task.position, begun[task.position].piece(task))
            for place, answer in self._pool.received():
                if place not in working:  # its request has failed meanwhile
                    continue
                task = working.pop(place)
                one = begun[task.position]
                queue.extendleft(self._taken(one, task, place, answer))
                if one.open == 0:
                    one.open, left = -1, left - 1
                    yield task.position, one.reply()

    def seconds_of(self, request: Request) -> float:
        """The seconds that one place takes for a request."""
        self._pool.announce([request], engine=self.name, device=self._device)
        piece = cut(request, 0, self._units(request), units=1)
        is_sent = False
        while True:
            free = self._pool.free()
            if free and not is_sent:
                self._pool.send(free[0], 0, piece)
                is_sent = True
            for _, answer in self._pool.received():
                return 0.0 if answer is None else answer.seconds

    def _units(self, request: Request) -> int:
        if id(request.work) in self._drawing and not isinstance(request, Train):
            return 1
        return count_of_units(request, engine=self.name, device=self._device)

    def _tasks(self, begun: Sequence[_InProgress], free: Sequence[Hashable]) -> Iterator[_Task]:
        """All units of the requests, cut for the places of the pool."""
        places = max(1, len(free) // len(begun))
        for position, one in enumerate(begun):
            kind = isinstance(one.request, Train)
            known = [speed for (_, of), speed in self._speeds.items() if of == kind]
            usual = sum(known) / len(known) if known else 1.0
            speeds = [self._speeds.get((place, kind), usual) for place in free[:places]]
            for start, stop in runs_of_units(one.units, speeds):
                yield _Task(position, start, stop)

    def _taken(
        self, one: _InProgress, task: _Task, place: Hashable, answer: Answer | None
    ) -> list[_Task]:
        """Take the answer to a piece.

        Returns:
            What has to be answered again.
        """
        if task.whole != one.whole:  # a part of what is answered as a whole by now
            return []
        if answer is None:
            task.losses += 1
            if task.losses < LOSSES:
                return [task]
            error = WorkerError(f"{LOSSES} processes were lost while they worked on one request")
            answer = Answer(Failure(None, error), 0.0)
        elif answer.content is None:
            self._drawing[id(one.request.work)] = one.request.work
            one.whole, one.open, one.answers = True, one.units, {}
            return [_Task(task.position, 0, one.units, whole=True)]
        one.answers[task.start] = answer.content
        one.open -= task.stop - task.start
        if answer.seconds > 0:
            speed = (task.stop - task.start) / answer.seconds
            self._speeds[place, isinstance(one.request, Train)] = speed
        return []


def runs_of_units(count: int, speeds: Sequence[float]) -> list[tuple[int, int]]:
    """Units 0..count-1 as runs for places with these speeds.

    Three quarters are cut in proportion to the speeds, and the rest follows unit by unit.

    >>> runs_of_units(4, [1.0, 1.0]), runs_of_units(8, [3.0, 1.0]), runs_of_units(3, [1.0])
    ([(0, 2), (2, 3), (3, 4)], [(0, 5), (5, 6), (6, 7), (7, 8)], [(0, 3)])
    """
    if count == 1 or len(speeds) == 1:
        return [(0, count)]
    head = count - count // 4
    grain = 1
    while 8 * grain * len(speeds) <= head:  # ends of long runs are those of larger subtrees
        grain *= 2
    ends, done = [0], 0.0
    for speed in speeds[:-1]:
        done += speed
        share = round(head * done / sum(speeds), 6)
        ends.append(min(head, math.ceil(share / grain) * grain))
    ends.append(head)
    runs = [(a, b) for a, b in itertools.pairwise(ends) if a < b]
    return runs + [(unit, unit + 1) for unit in range(head, count)]
