"""The setting `base`: a mode that gives the rates of another one."""

from collections.abc import Callable
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, PlainSerializer

from fedgs.arrays import FloatArray
from fedgs.availability.base import Availability, checked_rates
from fedgs.clients import Clients
from fedgs.errors import ConfigError
from fedgs.registry import build, table

__all__ = ["IndependentBase", "SteadyBase", "base_rates"]


def _checked(fits: Callable[[Availability], bool], allowed: str) -> BeforeValidator:
    """The mode that `base` names, if it fits; None stays None."""

    def check(value: object) -> object:
        if value is None:
            return None
        try:
            mode = build("availability", value)
        except ConfigError as error:
            raise ValueError(str(error).replace("availability", "availability.base", 1)) from None
        assert isinstance(mode, Availability)
        if not (mode.has_rates() and fits(mode)):
            raise ValueError(
                f"availability.base must be {allowed}, got {mode.name or type(mode).__name__!r}"
            )
        return mode

    return BeforeValidator(check)


SteadyBase: TypeAlias = Annotated[
    Availability,
    _checked(
        lambda mode: mode.steady,
        "a mode whose rates are the same in every round, as MDF, LDF, YMF and LN",
    ),
    PlainSerializer(table),
]
IndependentBase: TypeAlias = Annotated[
    Availability,
    _checked(
        lambda mode: mode.is_independent(),
        "a mode with rates whose clients are drawn independently, as MDF, LDF, YMF and LN",
    ),
    PlainSerializer(table),
]


def base_rates(base: Availability, seed: int | None, round: int, clients: Clients) -> FloatArray:
    """(N,) checked rates of a base, which without a seed of its own has that of the mode.

    >>> from fedgs.availability import LogNormal
    >>> clients = Clients(("a", "b", "c"), [1, 1, 1])
    >>> given = base_rates(LogNormal(), 5, 0, clients)
    >>> given.tolist() == LogNormal(seed=5).rates(0, clients).tolist()
    True
    """
    own = base.seed is not None or seed is None
    return checked_rates(base if own else base.model_copy(update={"seed": seed}), clients, round)
