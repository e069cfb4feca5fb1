"""Settings with a value for each client: a number for all, or a list that clients take in turn."""

import math
from collections.abc import Callable
from numbers import Real
from typing import TypeAlias

import numpy as np
from pydantic import BeforeValidator

from fedgs.arrays import FloatArray
from fedgs.errors import ConfigError, shown

__all__ = ["PerClient", "check_length", "in_turn", "within"]

PerClient: TypeAlias = float | tuple[float, ...]


def within(
    setting: str, low: float, high: float, *, open_low: bool = False, open_high: bool = False
) -> BeforeValidator:
    """The check of a setting of type `PerClient`.

    Args:
        setting: its dotted name, for messages.
        low: the lowest value that is allowed.
        high: the highest value that is allowed; inf: none.
        open_low: whether `low` itself is not allowed.
        open_high: whether `high` itself is not allowed.

    >>> within("availability.rate", 0, 1).func([0.5, 1])
    (0.5, 1.0)
    >>> within("availability.rate", 0, 1).func(1.5)
    Traceback (most recent call last):
    ValueError: availability.rate must be a number in [0, 1] or a list of such numbers, got 1.5
    """
    interval = f"in {'(' if open_low else '['}{low:g}, {high:g}{')' if open_high else ']'}"
    if math.isinf(high):
        interval = f"{'>' if open_low else '>='} {low:g}"

    def fits(value: object) -> bool:
        if not isinstance(value, Real) or isinstance(value, bool):
            return False
        number = float(value)
        is_inside = (low < number or (number == low and not open_low)) and (
            number < high or (number == high and not open_high)
        )
        return math.isfinite(number) and is_inside

    def check(value: object) -> PerClient:
        if isinstance(value, Real) and fits(value):
            return float(value)
        entries = value.tolist() if isinstance(value, np.ndarray) else value
        if isinstance(entries, list | tuple) and entries and all(map(fits, entries)):
            return tuple(map(float, entries))
        raise ValueError(
            f"{setting} must be a number {interval} or a list of such numbers, got {shown(value)}"
        )

    checked: Callable[[object], PerClient] = check
    return BeforeValidator(checked)


def in_turn(values: PerClient, num_clients: int) -> FloatArray:
    """(N,) values: that of client k is the number itself, or entry k modulo the list's length.

    >>> in_turn((0.9, 0.1), 5).tolist(), in_turn(0.5, 2).tolist()
    ([0.9, 0.1, 0.9, 0.1, 0.9], [0.5, 0.5])
    """
    given = np.atleast_1d(np.asarray(values, dtype=np.float64))
    return given[np.arange(num_clients) % len(given)]


def check_length(values: PerClient, num_clients: int, *, setting: str) -> None:
    """Refuse a list with more values than clients.

    Raises:
        ConfigError: it has.

    >>> check_length((0.9, 0.1), 1, setting="availability.rate")
    Traceback (most recent call last):
    fedgs.errors.ConfigError: availability.rate must have at most 1 value, one a client, got 2
    """
    if isinstance(values, tuple) and len(values) > num_clients:
        raise ConfigError(
            f"{setting} must have at most {num_clients} value{'s' * (num_clients != 1)}, "
            f"one a client, got {len(values)}"
        )
