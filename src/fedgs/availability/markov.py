"""Availability with memory: a Markov chain with the states on and off for each client."""

from collections.abc import Mapping
from typing import Annotated

import numpy as np
from pydantic import Field

from fedgs.arrays import BoolArray, FloatArray
from fedgs.availability.base import Availability
from fedgs.availability.bases import SteadyBase, base_rates
from fedgs.availability.renewals import Renewals
from fedgs.clients import Clients
from fedgs.per_client import PerClient, check_length, in_turn, within
from fedgs.registry import register

__all__ = ["Markov"]

_RATE, _CORRELATION = 0.5, 0.9


@register("availability", "markov")
class Markov(Availability):
    """Every client is a stationary Markov chain with the states on and off.

    With stationary rate pi_k and correlation lambda_k, P(on | on) = lambda_k + (1 - lambda_k) pi_k
    and P(on | off) = (1 - lambda_k) pi_k. In every round P(k in A_t) = pi_k, and the states of two
    rounds at distance j have the correlation lambda_k^j. Clients are independent of each other.

    The chain keeps its state with probability lambda_k and else redraws it with pi_k, so the
    state of a round is the draw of the last renewal. A round is found by looking back, about
    ln(N) / (1 - lambda) rounds, and from the round before in one step, O(N).

    Numbers may be lists: client k has entry k modulo the length of the list.

    References:
        A. Rodio et al. (2023): Federated Learning under Heterogeneous and Correlated Client
        Availability. INFOCOM. Its setting is `rate = [0.9, 0.1]`, `correlation = [0, 0, 0, 0.9]`.
        S. Wang, M. Ji (2024): A Lightweight Method for Tackling Unknown Participation Statistics in
        Federated Averaging. ICLR. Its chain is `arrival = 0.05` over the rates of a `base`.

    Attributes:
        rate: pi_k, in [0, 1].
        base: a mode whose rates are pi_k, by name, table or object, instead of `rate`. Its rates
            must be the same in every round. Without a seed of its own it has that of this mode.
        correlation: lambda_k, in [0, 1).
        arrival: P(on | off) in (0, 1], the same for all clients, instead of `correlation`: then
            lambda_k = 1 - arrival / pi_k. It is 0 where `arrival` exceeds pi_k: such a client
            arrives with pi_k.

    >>> clients = Clients(("a", "b"), np.array([1, 1]))
    >>> chain = Markov(rate=0.5, correlation=(0.0, 0.9))
    >>> chain.rates(0, clients).tolist(), chain.correlations(clients).tolist()
    ([0.5, 0.5], [0.0, 0.9])
    >>> np.array([chain.available(t, clients) for t in range(20)]).T.astype(int)
    array([[0, 1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1, 1, 1, 1],
           [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1]])
    """

    steady = True
    rate: Annotated[PerClient, within("availability.rate", 0, 1)] = _RATE
    base: SteadyBase | None = None
    correlation: Annotated[PerClient, within("availability.correlation", 0, 1, open_high=True)] = (
        _CORRELATION
    )
    arrival: float | None = Field(default=None, gt=0, le=1)

    @classmethod
    def without_effect(cls, settings: Mapping[str, object]) -> dict[str, str]:
        """`rate` beside `base`, and `correlation` beside `arrival`."""
        pairs = (("rate", _RATE, "base"), ("correlation", _CORRELATION, "arrival"))
        return {
            key: f"availability.{key} has no effect beside availability.{other}; leave one out"
            for key, default, other in pairs
            if settings.get(other) is not None and settings.get(key, default) != default
        }

    def check(self, clients: Clients, rounds: int) -> None:
        """As for every mode; also at most one value a client in a list."""
        check_length(self.rate, len(clients), setting="availability.rate")
        check_length(self.correlation, len(clients), setting="availability.correlation")
        if self.base is not None:
            self.base.check(clients, rounds)
        super().check(clients, rounds)

    def rates(self, round: int, clients: Clients) -> FloatArray:
        """(N,) pi_k, the same in every round."""
        if self.base is None:
            return in_turn(self.rate, len(clients))
        return base_rates(self.base, self.seed, round, clients)

    def correlations(self, clients: Clients) -> FloatArray:
        """(N,) lambda_k in [0, 1)."""
        if self.arrival is None:
            return in_turn(self.correlation, len(clients))
        rates = self.rates(0, clients)
        positive = np.where(rates > 0, rates, self.arrival)  # where pi_k is 0: lambda_k = 0
        correlations: FloatArray = np.maximum(1 - self.arrival / positive, 0.0)
        return correlations

    def available(self, round: int, clients: Clients) -> BoolArray:
        """(N,) the draws of the last renewals up to round t."""
        return self._renewals(clients).state(round)

    def next_available(self, round: int, clients: Clients, before: BoolArray) -> BoolArray:
        """(N,) one step of the chain."""
        return self._renewals(clients).step(round, before)

    def _renewals(self, clients: Clients) -> Renewals:
        rates = self.rates(0, clients)
        return Renewals("markov", self.seed or 0, self.correlations(clients), lambda t: rates)
