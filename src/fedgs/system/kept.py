"""What does not depend on the cohort, kept from round to round."""

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from fedgs.arrays import BoolArray, FloatArray, frozen
from fedgs.availability import InSeconds
from fedgs.clients import Clients

__all__ = ["KnownStates", "Rounds"]

_NUMBERS = 2048
T = TypeVar("T")


class Rounds(Generic[T]):
    """Something about all clients that is made for several rounds at once.

    That of the last call is kept. It is for as many rounds as have about 2000 numbers together.
    Rounds may be asked for in any order.

    Args:
        num_clients: N >= 1.
        make: makes it for a range of rounds; a pure function.

    >>> rounds = Rounds(3, lambda rounds: np.array(rounds))
    >>> numbers, place = rounds.of(1000)
    >>> numbers[place]
    np.int64(1000)
    """

    def __init__(self, num_clients: int, make: Callable[[range], T]) -> None:
        self._count = max(1, _NUMBERS // num_clients)
        self._make = make
        self._kept: tuple[range, T] | None = None

    def of(self, round: int) -> tuple[T, int]:
        """What was made for a range of rounds, and the place of the round in it."""
        if self._kept is None or round not in self._kept[0]:
            first = round // self._count * self._count
            rounds = range(first, first + self._count)
            self._kept = rounds, self._make(rounds)
        rounds, made = self._kept
        return made, round - rounds.start


class KnownStates:
    """Who is available at a second and until when; clients are looked up when that has passed.

    Seconds may be asked for in any order. Near ones cost less.

    Args:
        mode: whose clients are available by the second.
        clients: all N clients.
    """

    def __init__(self, mode: InSeconds, clients: Clients) -> None:
        count = len(clients)
        self._mode, self._clients = mode, clients
        self._second = np.nan
        self._since, self._until = np.full(count, np.inf), np.full(count, -np.inf)
        self._is_on: BoolArray = frozen(np.zeros(count, dtype=np.bool_))

    def is_available(self, second: float) -> BoolArray:
        """(N,) the clients that are available at a second."""
        self._look_up(second)
        return self._is_on

    def next_change(self, second: float) -> FloatArray:
        """(N,) the seconds at which the clients next arrive or leave, inf for never."""
        self._look_up(second)
        return self._until

    def _look_up(self, second: float) -> None:
        if second == self._second:
            return
        passed = np.flatnonzero((second < self._since) | (second >= self._until))
        if len(passed):
            seconds, is_on, until = np.full(len(passed), second), self._is_on.copy(), self._until
            is_on[passed] = self._mode.is_available(seconds, self._clients, passed)
            until = until.copy()
            until[passed] = self._mode.next_change(seconds, self._clients, passed)
            self._is_on, self._until = frozen(is_on), frozen(until)
            self._since[passed] = second
        self._second = second
