"""Modes in which clients are available in a fixed part of every period."""

import numpy as np
from pydantic import Field, model_validator

from fedgs.arrays import BoolArray, FloatArray, IntArray
from fedgs.availability.base import Availability
from fedgs.availability.bases import SteadyBase, base_rates
from fedgs.availability.drawn_rates import LabelDirichlet
from fedgs.clients import Clients
from fedgs.registry import register
from fedgs.rng import stream

__all__ = ["Cyclic", "Groups"]

_LONGEST = 10**9  # of periods, so that products with the number of groups fit in int64


@register("availability", "cyclic")
class Cyclic(Availability):
    """Every client is available for a part of each period without a break, then away.

    Client k is available in round t if (t + s_k) mod T_p < max(1, round(T_p·p_k)). The rates p_k
    are those of a base. The shifts s_k are uniform on 0..T_p - 1 and drawn once from the seed, so
    that P(k in A_t) = max(1, round(T_p·p_k))/T_p in every round. A client with p_k = 0 is never
    available. The published code draws s_k such that every client is away in round 0 and leaves at
    least one round of each period out; here a client with p_k = 1 is always available.

    References:
        S. Wang, M. Ji (2024): A Lightweight Method for Tackling Unknown Participation Statistics in
        Federated Averaging. ICLR (FedAU).

    Attributes:
        base: a mode that gives p_k, by name, table or object; its rates must be the same in every
            round. Without a seed of its own it has that of this mode.
        period: T_p >= 1 in rounds.

    >>> clients = Clients(("a", "b"), np.array([10, 40]))
    >>> cycle = Cyclic(base={"name": "MDF", "beta": 1.0}, period=8)
    >>> np.array([cycle.available(t, clients) for t in range(16)]).T.astype(int)
    array([[0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0],
           [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]])
    """

    steady = True
    base: SteadyBase = LabelDirichlet()
    period: int = Field(default=100, ge=1, le=_LONGEST)

    def check(self, clients: Clients, rounds: int) -> None:
        """As for every mode; also that the base can serve the clients."""
        self.base.check(clients, rounds)
        super().check(clients, rounds)

    def rates(self, round: int, clients: Clients) -> FloatArray:
        """(N,) the part of a period in which each client is available."""
        rates: FloatArray = self._lengths(clients) / self.period
        return rates

    def available(self, round: int, clients: Clients) -> BoolArray:
        """(N,) who is in the available part of its period."""
        shifts = stream(self.seed or 0, "cyclic").integers(self.period, size=len(clients))
        available: BoolArray = (round + shifts) % self.period < self._lengths(clients)
        return available

    def _lengths(self, clients: Clients) -> IntArray:
        """(N,) rounds of a period in which each client is available."""
        rates = base_rates(self.base, self.seed, 0, clients)
        lengths = np.maximum(np.rint(self.period * rates), rates > 0)
        return lengths.astype(np.int64)


@register("availability", "groups")
class Groups(Availability):
    """Groups of clients take turns: in each round the clients of one group are available.

    Client k belongs to group floor(k·G/N), and it is the turn of group
    floor(((1 + (t + s) mod T_p)·G - 1)/T_p), so that each group has T_p/G rounds of a period,
    exactly so if G divides T_p. The shift s is uniform on 0..T_p - 1 and drawn once from the seed;
    the published code starts in the turn of the first group. With fewer clients than groups, the
    turns of some groups are empty rounds.

    References:
        S. Wang, M. Ji (2022): A Unified Analysis of Federated Learning with Arbitrary Client
        Participation. NeurIPS.
        M. Crawshaw, M. Liu (2024): Federated Learning under Periodic Client Participation and
        Heterogeneous Data: A New Communication-Efficient Algorithm and Analysis. NeurIPS. It has 4
        of 20 rounds for each of 5 groups.

    Attributes:
        groups: G >= 1, their number.
        period: T_p in rounds, at least G; the turns of all groups.

    >>> clients = Clients(("a", "b", "c", "d"), np.array([1, 1, 1, 1]))
    >>> turns = Groups(groups=2, period=6)
    >>> np.array([turns.available(t, clients) for t in range(12)]).T.astype(int)
    array([[0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1],
           [0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1],
           [1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0],
           [1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0]])
    """

    steady = True
    groups: int = Field(default=5, ge=1)
    period: int = Field(default=20, ge=1, le=_LONGEST)

    @model_validator(mode="after")
    def _needs_a_round_for_each_group(self) -> "Groups":
        if self.period < self.groups:
            raise ValueError(
                f"availability.period must be at least availability.groups, {self.groups}, so that "
                f"each group has a turn, got {self.period}"
            )
        return self

    def rates(self, round: int, clients: Clients) -> FloatArray:
        """(N,) the part of a period that is the turn of each client's group."""
        group = self._groups(clients)
        ends = (group + 1) * self.period // self.groups  # of the turns, if group 0 begins at 0
        rates: FloatArray = (ends - group * self.period // self.groups) / self.period
        return rates

    def available(self, round: int, clients: Clients) -> BoolArray:
        """(N,) the clients of the group whose turn it is."""
        shift = int(stream(self.seed or 0, "groups").integers(self.period))
        available: BoolArray = self._groups(clients) == self._turn(np.array(round + shift))
        return available

    def _turn(self, rounds: IntArray) -> IntArray:
        """Whose turn it is in rounds that are counted from the first turn of group 0."""
        turn: IntArray = ((1 + rounds % self.period) * self.groups - 1) // self.period
        return turn

    def _groups(self, clients: Clients) -> IntArray:
        """(N,) the group of each client."""
        return np.arange(len(clients)) * self.groups // len(clients)
