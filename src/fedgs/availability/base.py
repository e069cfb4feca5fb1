"""The interface of availability modes: pure functions of the round, `rates` or `available`."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from fedgs.arrays import AnyArray, BoolArray, FloatArray
from fedgs.clients import Clients
from fedgs.errors import ConfigError, shown
from fedgs.registry import Variant
from fedgs.rng import stream

__all__ = ["Availability", "EmptyRound", "checked_available", "checked_rates"]

EmptyRound = Literal["redraw", "skip"]


class Availability(Variant):
    """Base of all modes: which clients are available in round t.

    A mode defines `rates`, and each client is available independently with its rate. Or it defines
    `available` itself, where clients are not independent of each other or of earlier rounds; then
    `rates`, if it defines them too, are P(k in A_t), over all that the mode draws. Both are pure
    functions of (settings, seed, clients, round): no result depends on the rounds that were
    computed before.

    Attributes:
        steady: whether the rates are the same in every round; then they are computed once.
        seed: of everything that the mode draws, >= 0; None: the run's seed (0 when used alone).
        empty_round: what happens if no client is available: "redraw" until one is, or "skip" the
            round and keep the model. Modes that define `available` have "skip" alone, since a
            draw given a cohort is known for independent clients only.

    >>> class Weekdays(Availability):
    ...     rate: float = 0.5
    ...     def rates(self, round: int, clients: Clients) -> FloatArray:
    ...         return np.full(len(clients), self.rate if round % 7 < 5 else 0.1)
    >>> Weekdays(rate=0.8).rates(6, Clients(("a", "b"), np.array([3, 5])))
    array([0.1, 0.1])
    >>> class Shifts(Availability):
    ...     def available(self, round: int, clients: Clients) -> BoolArray:
    ...         return np.arange(len(clients)) % 3 == round % 3
    >>> Shifts().available(4, Clients(("a", "b"), np.array([3, 5]))), Shifts().empty_round
    (array([False,  True]), 'skip')
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

    @model_validator(mode="before")
    @classmethod
    def _skip_by_default(cls, settings: object) -> object:
        if isinstance(settings, Mapping) and not cls.is_independent():
            return {"empty_round": "skip", **settings}
        return settings

    @model_validator(mode="after")
    def _refuse_redraw(self) -> "Availability":
        if self.empty_round == "redraw" and not self.is_independent():
            raise ValueError(
                f"availability.empty_round must be 'skip' for {self.name!r}, whose clients are not "
                "drawn independently, got 'redraw'"
            )
        return self

    @classmethod
    def is_independent(cls) -> bool:
        """Whether each client is available independently of all else, with its rate."""
        return cls.available is Availability.available

    @classmethod
    def has_rates(cls) -> bool:
        """Whether the mode says P(k in A_t)."""
        return cls.rates is not Availability.rates

    def check(self, clients: Clients, rounds: int) -> None:
        """Check before a run that the mode can serve these clients in rounds 0..rounds-1.

        Rates, or the available clients of a mode without rates, are computed round by round until
        a client has a chance, which is usually the first round, O(N).

        Raises:
            ConfigError: the mode needs labels that the clients lack, gives rates outside [0, 1], or
                leaves no client available in any round.
        """
        if rounds <= 0:
            return
        if not self.has_rates() and not self.is_independent():
            if not any(checked_available(self, clients, t).any() for t in range(rounds)):
                raise ConfigError(
                    f"availability must leave at least one client available in some round; with "
                    f"{self.name!r} none of the {len(clients)} clients is available in any of the "
                    f"{rounds} rounds"
                )
        elif not any(np.any(checked_rates(self, clients, t) > 0) for t in range(rounds)):
            raise ConfigError(
                f"availability must leave at least one client a chance in some round; with "
                f"{self.name!r} all {len(clients)} clients have rate 0 in all {rounds} rounds"
            )

    def rates(self, round: int, clients: Clients) -> FloatArray:
        """(N,) probabilities in [0, 1] that each client is available in round `round`.

        Where clients are not independent, these are the probabilities without any knowledge of
        other clients or rounds: for a stationary chain, its stationary probability.
        """
        raise TypeError(f"{type(self).__name__} must define rates(round, clients)")

    def available(self, round: int, clients: Clients) -> BoolArray:
        """(N,) which clients are available in round `round`, before the rule for empty rounds.

        The default draws each client independently with its rate, O(N). A mode with memory finds
        its state by looking back from the round.
        """
        rates = checked_rates(self, clients, round)
        drawn: BoolArray = stream(self.seed or 0, "available", round).random(len(rates)) < rates
        return drawn

    def next_available(self, round: int, clients: Clients, before: BoolArray) -> BoolArray:
        """(N,) `available(round, clients)`, for a caller that has the round before.

        A mode with memory makes one step here, O(N), where `available` looks back. The result is
        the same.

        Args:
            round: t >= 1.
            clients: all N clients.
            before: (N,) `available(round - 1, clients)`.
        """
        return self.available(round, clients)


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


def checked_available(
    availability: Availability, clients: Clients, round: int, before: BoolArray | None = None
) -> BoolArray:
    """(N,) the available clients of a mode that defines `available`, as a checked copy.

    Args:
        availability: the mode.
        clients: all N clients.
        round: t.
        before: those of round t - 1 where they are known, for a step instead of a look back.

    Raises:
        ConfigError: not one boolean a client; the sentence names the round.
    """
    given = (
        availability.available(round, clients)
        if before is None or not _has_step(type(availability))
        else availability.next_available(round, clients, before)
    )
    expected = f"availability {availability.name!r} must give {len(clients)} booleans, one a client"
    try:
        available: AnyArray = np.array(given)  # a copy, since the mode may write to its own
    except (TypeError, ValueError, RuntimeError):
        raise ConfigError(f"{expected}, got {shown(given)} in round {round}") from None
    if available.shape != (len(clients),) or available.dtype != np.bool_:
        raise ConfigError(
            f"{expected}, got {available.dtype} of shape {available.shape} in round {round}"
        )
    return available


def _has_step(mode: type[Availability]) -> bool:
    """Whether `next_available` belongs to `available`, which a subclass may have replaced alone."""
    owner = next(cls for cls in mode.__mro__ if {"available", "next_available"} & vars(cls).keys())
    return "next_available" in vars(owner)
