"""The interface of availability modes: a frozen variant with `rates`, a pure function of the round."""

from typing import ClassVar, Literal

from pydantic import Field

from fedgs.arrays import FloatArray
from fedgs.clients import Clients
from fedgs.registry import Variant

__all__ = ["Availability", "EmptyRound"]

EmptyRound = Literal["redraw", "skip"]


class Availability(Variant):
    """Base of all modes: how probable it is that each client is available in round t.

    Attributes:
        seed: of everything that the mode draws, >= 0; None: the run's seed (0 when used alone).
        empty_round: nobody is available: "redraw" until someone is, or "skip" the round and keep the model.
    """

    family: ClassVar[str] = "availability"
    seed: int | None = Field(default=None, ge=0)
    empty_round: EmptyRound = "redraw"

    def check(self, clients: Clients, rounds: int) -> None:
        """Raise `ConfigError` where the mode cannot serve these clients for rounds 0..rounds-1."""

    def rates(self, round: int, clients: Clients) -> FloatArray:
        """(N,) probabilities in [0, 1] that each client is available in round `round`, the same in any order of asking."""
        raise TypeError(f"{type(self).__name__} must define rates(round, clients)")
