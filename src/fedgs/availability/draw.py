"""Drawing A_t from rates: one function for all modes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedgs.arrays import BoolArray, FloatArray, IntArray, frozen
from fedgs.availability.base import Availability, checked_rates
from fedgs.clients import Clients
from fedgs.records import Members
from fedgs.rng import stream

__all__ = ["Attendance", "Present", "activity", "draw_available"]

_MANY = 1000  # clients above which a record holds who was available as bits


def draw_available(
    availability: Availability, clients: Clients, round: int
) -> tuple[IntArray, Literal["skipped"] | None]:
    """The available clients A_t: each client k independently with probability p_k(t).

    Depends on the availability (its seed included), the clients and the round alone: any round can
    be drawn without the others, and every method meets the same clients. Costs O(N).

    Returns:
        (a,) ascending indices, and "skipped" where the round passes without anybody, else None.
        `empty_round = "redraw"` draws from the distribution given that somebody is there; where all
        rates are 0 that is impossible, and the round is skipped.

    Raises:
        ConfigError: the mode cannot serve these clients, or gives rates outside [0, 1].

    >>> from fedgs.availability import Ideal
    >>> draw_available(Ideal(), Clients(("a", "b"), np.array([10, 40])), 0)
    (array([0, 1]), None)
    """
    available = np.flatnonzero(
        _drawn(availability, checked_rates(availability, clients, round), round)
    )
    return available, None if len(available) else "skipped"


def _drawn(availability: Availability, rates: FloatArray, round: int) -> BoolArray:
    """(N,) who is there."""
    rng = stream(availability.seed or 0, "available", round)
    present = rng.random(len(rates)) < rates  # rate 0: never, rate 1: always
    if not present.any() and availability.empty_round == "redraw" and rates.any():
        present = _draw_given_somebody(rates, rng)
    return present


@dataclass(frozen=True, eq=False)
class Present:
    """Who is there in a round.

    Attributes:
        clients: (a,) ascending indices, read-only.
        names: their own keys, in the same order; `Members` where there are many clients.
        status: "skipped" where the round passes without anybody, else None.
    """

    clients: IntArray
    names: Sequence[str | int]
    status: Literal["skipped"] | None


class Attendance:
    """Clients under an availability mode, round by round. Runs that meet the same clients share one and draw each round once.

    >>> from fedgs.availability import Ideal
    >>> attendance = Attendance(Ideal(), Clients(("a", "b"), np.array([10, 40])))
    >>> attendance.at(0).names, attendance.at(0) is attendance.at(0)
    (['a', 'b'], True)
    """

    def __init__(self, availability: Availability, clients: Clients) -> None:
        self.availability = availability
        self.clients = clients
        self._rates: FloatArray | None = None
        self._last: tuple[int, Present] | None = None

    def at(self, round: int) -> Present:
        """A_t, see `draw_available`; the last round is kept, since runs are driven side by side."""
        if self._last is None or self._last[0] != round:
            present = _drawn(self.availability, self._rates_of(round), round)
            available = frozen(np.flatnonzero(present))
            names = self.clients.names
            called = (
                Members(names, present)
                if len(names) > _MANY
                else [names[k] for k in available.tolist()]
            )
            self._last = round, Present(available, called, None if len(available) else "skipped")
        return self._last[1]

    def _rates_of(self, round: int) -> FloatArray:
        if self._rates is not None:
            return self._rates
        rates = checked_rates(self.availability, self.clients, round)
        if self.availability.steady:
            self._rates = rates
        return rates


def activity(availability: Availability, clients: Clients, rounds: int) -> BoolArray:
    """(N, T) matrix: was client k available in round t, as a run of `rounds` rounds meets it.

    >>> from fedgs.availability import LabelCycle
    >>> clients = Clients(("a", "b"), np.array([1, 1]), label_counts=np.array([[1, 0], [0, 1]]))
    >>> activity(LabelCycle(beta=1.0, period=4), clients, 4).astype(int)
    array([[1, 1, 0, 0],
           [0, 0, 1, 1]])
    """
    matrix = np.zeros((len(clients), rounds), dtype=np.bool_)
    for t in range(rounds):
        available, _ = draw_available(availability, clients, t)
        matrix[available, t] = True
    return matrix


def _draw_given_somebody(rates: FloatArray, rng: np.random.Generator) -> BoolArray:
    """(N,) independent draws, conditioned on at least one success: what drawing again and again ends in, in one go.

    The lowest present client is k with probability proportional to p_k·prod over i<k of (1 - p_i);
    given k, the later ones are drawn as always. Holds at the smallest rates, where drawing again
    would not end.
    """
    with np.errstate(divide="ignore"):
        log_absent = np.log1p(-rates)
    log_earlier_absent = np.concatenate(([0.0], np.cumsum(log_absent)[:-1]))
    first_weights = rates / rates.max() * np.exp(log_earlier_absent)
    first = int(rng.choice(len(rates), p=first_weights / first_weights.sum()))
    present = rng.random(len(rates)) < rates
    present[:first] = False
    present[first] = True
    return present
