"""The interface of availability modes: a frozen variant with `rates`, a function of the round."""

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
    """Base of all modes: the probability that each client is available in round t.

    Attributes:
        steady: whether the rates are the same in every round; then they are computed once.
        seed: of everything that the mode draws, >= 0; None: the run's seed (0 when used alone).
        empty_round: what happens if no client is available: "redraw" until one is, or "skip" the
            round and keep the model.

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
            cls.steady = False  # the rates differ from the parent's, so its promise does not hold

    def check(self, clients: Clients, rounds: int) -> None:
        """Check before a run that the mode can serve these clients in rounds 0..rounds-1.

        Rates are computed round by round until one is above 0, which is usually the first round,
        O(N).

        Raises:
            ConfigError: the mode needs labels that the clients lack, gives rates outside [0, 1], or
                leaves no client available in any round.
        """
        if rounds > 0 and not any(
            np.any(checked_rates(self, clients, t) > 0) for t in range(rounds)
        ):
            raise ConfigError(
                f"availability must leave at least one client a chance in some round; with "
                f"{self.name!r} all {len(clients)} clients have rate 0 in all {rounds} rounds"
            )

    def rates(self, round: int, clients: Clients) -> FloatArray:
        """(N,) probabilities in [0, 1] that each client is available in round `round`.

        The result must not depend on the rounds that were computed before.
        """
        raise TypeError(f"{type(self).__name__} must define rates(round, clients)")


def checked_rates(availability: Availability, clients: Clients, round: int) -> FloatArray:
    """(N,) rates of one round as a checked float64 copy; needed since users write modes.

    Raises:
        ConfigError: a wrong shape, or a rate that is NaN or outside [0, 1]; the sentence names the
            client and the round.
    """
    given = availability.rates(round, clients)
    expected = (
        f"availability {availability.name!r} must give {len(clients)} rates, one a client, got"
    )
    try:
        rates = np.array(given, dtype=np.float64)  # a copy, since the mode may write to its own
    except (TypeError, ValueError, RuntimeError):
        raise ConfigError(f"{expected} {shown(given)} in round {round}") from None
    if rates.shape != (len(clients),):
        raise ConfigError(f"{expected} shape {rates.shape} in round {round}")
    wrong = np.flatnonzero(~((rates >= 0) & (rates <= 1)))  # NaN fails both comparisons
    if len(wrong):
        client = int(wrong[0])
        raise ConfigError(
            f"availability {availability.name!r} must give rates in [0, 1], got "
            f"{float(rates[client])} for client {clients.names[client]!r} in round {round}"
        )
    return rates
