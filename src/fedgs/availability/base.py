"""The interface of availability modes: a frozen variant with `rates`, a pure function of the round."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedgs.arrays import FloatArray
from fedgs.clients import Clients
from fedgs.errors import ConfigError, shown
from fedgs.registry import Variant

__all__ = ["Availability", "EmptyRound", "checked_rates"]

EmptyRound = Literal["redraw", "skip"]


class Availability(Variant):
    """Base of all modes: how probable it is that each client is available in round t.

    Attributes:
        steady: whether the rates are the same in every round; then they are asked for once.
        seed: of everything that the mode draws, >= 0; None: the run's seed (0 when used alone).
        empty_round: nobody is available: "redraw" until someone is, or "skip" the round and keep
            the model.

    >>> class Weekdays(Availability):
    ...     rate: float = 0.5
    ...     def rates(self, round: int, clients: Clients) -> FloatArray:
    ...         return np.full(len(clients), self.rate if round % 7 < 5 else 0.1)
    >>> Weekdays(rate=0.8).rates(6, Clients(("a", "b"), np.array([3, 5])))
    array([0.1, 0.1])
    """

    family: ClassVar[str] = "availability"
    steady: ClassVar[bool] = False
    seed: int | None = Field(default=None, ge=0)
    empty_round: EmptyRound = "redraw"

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: object) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if "rates" in cls.__dict__ and "steady" not in cls.__dict__:
            cls.steady = False  # other rates than the parent's: nothing is known of them

    def check(self, clients: Clients, rounds: int) -> None:
        """Find out before a run whether the mode can serve these clients for rounds 0..rounds-1.

        Rates are asked for round after round until somebody can be available: one round as a rule,
        O(N).

        Raises:
            ConfigError: the mode needs labels that the clients lack, gives rates outside [0, 1], or
                no round can have anybody.
        """
        if rounds > 0 and not any(
            np.any(checked_rates(self, clients, t) > 0) for t in range(rounds)
        ):
            raise ConfigError(
                f"availability must leave at least one client a chance in some round; with {self.name!r} all "
                f"{len(clients)} clients have rate 0 in all {rounds} rounds"
            )

    def rates(self, round: int, clients: Clients) -> FloatArray:
        """(N,) probabilities in [0, 1] that each client is available in round `round`, the same in any order of asking."""
        raise TypeError(f"{type(self).__name__} must define rates(round, clients)")


def checked_rates(availability: Availability, clients: Clients, round: int) -> FloatArray:
    """(N,) rates of one round in float64, a checked copy: the border to modes that others write.

    Raises:
        ConfigError: a wrong shape, or a rate that is NaN or outside [0, 1]; the sentence names the
            client and the round.
    """
    given = availability.rates(round, clients)
    try:
        rates = np.array(given, dtype=np.float64)  # a copy, since the mode may write to its own
    except (TypeError, ValueError, RuntimeError):
        raise ConfigError(
            f"availability {availability.name!r} must give {len(clients)} rates, one a client, got {shown(given)} "
            f"in round {round}"
        ) from None
    if rates.shape != (len(clients),):
        raise ConfigError(
            f"availability {availability.name!r} must give {len(clients)} rates, one a client, got shape {rates.shape} "
            f"in round {round}"
        )
    wrong = np.flatnonzero(~((rates >= 0) & (rates <= 1)))  # NaN fails both comparisons
    if len(wrong):
        client = int(wrong[0])
        raise ConfigError(
            f"availability {availability.name!r} must give rates in [0, 1], got {float(rates[client])} for client "
            f"{clients.names[client]!r} in round {round}"
        )
    return rates
