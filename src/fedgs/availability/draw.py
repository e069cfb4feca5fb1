"""Drawing A_t: one function for all modes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedgs.arrays import BoolArray, FloatArray, IntArray, frozen
from fedgs.availability.base import Availability, checked_available, checked_rates
from fedgs.client_names import LONG
from fedgs.clients import Clients
from fedgs.errors import ConfigError
from fedgs.members import Members
from fedgs.rng import stream

__all__ = ["AvailabilityDraws", "RoundAvailability", "activity", "draw_available"]


def draw_available(
    availability: Availability, clients: Clients, round: int
) -> tuple[IntArray, Literal["skipped"] | None]:
    """The available clients A_t: by default each client k independently with rate p_k(t).

    The result depends on the mode (its seed included), the clients and the round alone: any round
    can be drawn without the others, and all methods of a study have the same available clients.
    Costs O(N); for a mode with memory, `activity` and `AvailabilityDraws` go from round to round
    at this cost, while a single round is found by looking back.

    Returns:
        (a,) ascending indices, and "skipped" if no client is available, else None. With
        `empty_round = "redraw"` the draw is conditioned on a round that is not empty; if all rates
        are 0, that is impossible and the round is skipped.

    Raises:
        ConfigError: the mode cannot serve these clients, or gives rates outside [0, 1].

    >>> from fedgs.availability import Ideal
    >>> draw_available(Ideal(), Clients(("a", "b"), np.array([10, 40])), 0)
    (array([0, 1]), None)
    """
    available = np.flatnonzero(_present(availability, clients, round))
    return available, None if len(available) else "skipped"


def _present(
    availability: Availability, clients: Clients, round: int, before: BoolArray | None = None
) -> BoolArray:
    """(N,) which clients are available; `before` is the result of the round before, if known."""
    if availability.is_independent():
        return _drawn(availability, checked_rates(availability, clients, round), round)
    return checked_available(availability, clients, round, before)


def _drawn(availability: Availability, rates: FloatArray, round: int) -> BoolArray:
    """(N,) which clients are available where they are independent given their rates."""
    rng = stream(availability.seed or 0, "available", round)
    available = rng.random(len(rates)) < rates  # rate 0: never, rate 1: always
    if not available.any() and availability.empty_round == "redraw" and rates.any():
        available = _draw_non_empty(rates, rng)
    return available


@dataclass(frozen=True, eq=False)
class RoundAvailability:
    """The available clients of a round.

    Attributes:
        clients: (a,) ascending indices, read-only.
        names: their keys, in the same order; `Members` above 1000 clients.
        status: "skipped" if no client is available, else None.
    """

    clients: IntArray
    names: Sequence[str | int]
    status: Literal["skipped"] | None


class AvailabilityDraws:
    """The available clients of every round under one mode.

    Runs with the same clients and mode share one object, so that each round is drawn once.

    >>> from fedgs.availability import Ideal
    >>> draws = AvailabilityDraws(Ideal(), Clients(("a", "b"), np.array([10, 40])))
    >>> draws.at(0).names, draws.at(0) is draws.at(0)
    (['a', 'b'], True)
    """

    def __init__(self, availability: Availability, clients: Clients) -> None:
        self.mode = availability
        self.clients = clients
        self._rates: FloatArray | None = None
        self._last: tuple[int, RoundAvailability, BoolArray] | None = None

    def at(self, round: int) -> RoundAvailability:
        """A_t, see `draw_available`. The last round is kept, since several runs ask for it."""
        if self._last is None or self._last[0] != round:
            is_available = self._present(round)
            self._last = round, self.of(is_available), is_available
        return self._last[1]

    def of(self, is_available: BoolArray) -> RoundAvailability:
        """The available clients as a round has them, from (N,) booleans."""
        available = frozen(np.flatnonzero(is_available))
        all_names = self.clients.names
        names = (
            Members(all_names, is_available)
            if len(all_names) > LONG
            else [all_names[k] for k in available.tolist()]
        )
        return RoundAvailability(available, names, None if len(available) else "skipped")

    def rates(self, round: int) -> FloatArray:
        """(N,) P(k in A_t): the mode's rates, given that a round that is redrawn is not empty.

        Raises:
            ConfigError: the mode defines no rates.
        """
        if not self.mode.has_rates():
            raise ConfigError(
                f"availability {self.mode.name!r} defines no rates, the probabilities P(k in A_t)"
            )
        rates = self._rates_of(round)
        if self.mode.empty_round != "redraw" or not rates.any():
            return rates
        with np.errstate(divide="ignore"):
            empty = np.exp(np.log1p(-rates).sum())
        redrawn: FloatArray = rates / (1 - empty)
        return redrawn

    def _present(self, round: int) -> BoolArray:
        """(N,) which clients are available."""
        if self.mode.is_independent():
            return _drawn(self.mode, self._rates_of(round), round)
        before = self._last[2] if self._last is not None and self._last[0] == round - 1 else None
        return checked_available(self.mode, self.clients, round, before)

    def _rates_of(self, round: int) -> FloatArray:
        if self._rates is not None:
            return self._rates
        rates = checked_rates(self.mode, self.clients, round)
        if self.mode.steady:
            self._rates = rates
        return rates


def activity(availability: Availability, clients: Clients, rounds: int) -> BoolArray:
    """(N, T) matrix: whether client k is available in round t of a run of `rounds` rounds.

    >>> from fedgs.availability import LabelCycle
    >>> clients = Clients(("a", "b"), np.array([1, 1]), label_counts=np.array([[1, 0], [0, 1]]))
    >>> activity(LabelCycle(beta=1.0, period=4), clients, 4).astype(int)
    array([[1, 1, 0, 0],
           [0, 0, 1, 1]])
    """
    matrix = np.zeros((len(clients), rounds), dtype=np.bool_)
    before = None
    for t in range(rounds):
        matrix[:, t] = before = _present(availability, clients, t, before)
    return matrix


def _draw_non_empty(rates: FloatArray, rng: np.random.Generator) -> BoolArray:
    """(N,) independent draws, conditioned on at least one success.

    This is the distribution that repeated drawing ends in, but it also works at rates so small that
    repeated drawing would not end. The lowest available client is k with probability proportional
    to p_k·prod over i<k of (1 - p_i); given k, the later ones are drawn independently as before.
    """
    with np.errstate(divide="ignore"):
        log_absent = np.log1p(-rates)
    log_earlier_absent = np.concatenate(([0.0], np.cumsum(log_absent)[:-1]))
    first_weights = rates / rates.max() * np.exp(log_earlier_absent)
    first = int(rng.choice(len(rates), p=first_weights / first_weights.sum()))
    available = rng.random(len(rates)) < rates
    available[:first] = False
    available[first] = True
    return available
