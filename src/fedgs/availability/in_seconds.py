"""Modes whose clients are available by the second, not by the round."""

from typing import Protocol, runtime_checkable

from fedgs.arrays import BoolArray, FloatArray, IntArray
from fedgs.clients import Clients

__all__ = ["InSeconds"]


@runtime_checkable
class InSeconds(Protocol):
    """A mode that knows time: who is available at any second, and when that changes.

    Both functions depend on the mode, its seed and the clients alone, in any order of seconds.
    `available(round, clients)` is `is_available` at `second_of(round)`.
    """

    def second_of(self, round: int) -> float:
        """The second of round `round`, where rounds have a fixed length."""

    def is_available(self, seconds: FloatArray, clients: Clients, chosen: IntArray) -> BoolArray:
        """(m,) whether each chosen client is available at a second of its own.

        Args:
            seconds: (m,) seconds.
            clients: all N clients.
            chosen: (m,) indices.
        """

    def next_change(self, seconds: FloatArray, clients: Clients, chosen: IntArray) -> FloatArray:
        """(m,) the second, after the given one, at which each client next arrives or leaves.

        It is inf for clients that never change. Arguments as for `is_available`.
        """
