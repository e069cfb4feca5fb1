"""Rates that vary over time: the rates of another mode times a factor of the round."""

import math
from abc import abstractmethod

import numpy as np
from pydantic import Field

from fedgs.arrays import FloatArray
from fedgs.availability.base import Availability
from fedgs.availability.bases import IndependentBase, base_rates
from fedgs.availability.drawn_rates import LabelUniform
from fedgs.clients import Clients
from fedgs.registry import register

__all__ = ["Interleaved", "Multiplied", "Sine", "Staircase"]


class Multiplied(Availability):
    """The rates of a base, p_k(t), times a factor that is the same for all clients.

    References:
        M. Xiang, S. Ioannidis, E. Yeh, C. Joe-Wong, L. Su (2024): Efficient Federated Learning
        against Heterogeneous and Non-stationary Client Unavailability. NeurIPS (FedAWE).

    Attributes:
        base: a mode that gives p_k(t), by name, table or object; its clients must be drawn
            independently. Without a seed of its own it has that of this mode.
        period: T_p >= 1 in rounds.
    """

    base: IndependentBase = LabelUniform()
    period: int = Field(default=20, ge=1)

    def check(self, clients: Clients, rounds: int) -> None:
        """As for every mode; also that the base can serve the clients."""
        self.base.check(clients, rounds)
        super().check(clients, rounds)

    def rates(self, round: int, clients: Clients) -> FloatArray:
        """(N,) p_k(t) times the factor of round t."""
        return base_rates(self.base, self.seed, round, clients) * self.factor(round)

    @abstractmethod
    def factor(self, round: int) -> float:
        """The factor of round t, in [0, 1]."""


@register("availability", "staircase")
class Staircase(Multiplied):
    """The rates of a base in the first half of every period, and a part of them in the second.

    The rate is p_k(t) where t mod T_p < T_p/2, else reduced·p_k(t).

    Attributes:
        reduced: the factor of the second half, in [0, 1].

    >>> clients = Clients(("a", "b"), np.array([10, 40]))
    >>> steps = Staircase(base={"name": "MDF", "beta": 0.5}, period=4)
    >>> [steps.rates(t, clients).tolist() for t in range(4)]
    [[0.5, 1.0], [0.5, 1.0], [0.2, 0.4], [0.2, 0.4]]
    """

    reduced: float = Field(default=0.4, ge=0, le=1)

    def factor(self, round: int) -> float:
        """1 or `reduced`."""
        return 1.0 if 2 * (round % self.period) < self.period else self.reduced


@register("availability", "sine")
class Sine(Multiplied):
    """The rates of a base times a sine: p_k(t)·(amplitude·sin(2π t/T_p) + 1 - amplitude).

    Attributes:
        amplitude: gamma in [0, 0.5]; the factor varies between 1 - 2·gamma and 1. Published are
            0.3, 0.2 and 0.1.

    >>> clients = Clients(("a", "b"), np.array([10, 40]))
    >>> wave = Sine(base={"name": "MDF", "beta": 0.5})
    >>> [wave.rates(t, clients).round(3).tolist() for t in (0, 5, 15)]
    [[0.35, 0.7], [0.5, 1.0], [0.2, 0.4]]
    """

    amplitude: float = Field(default=0.3, ge=0, le=0.5)

    def factor(self, round: int) -> float:
        """In [1 - 2·amplitude, 1]."""
        return _sine(round, self.period, self.amplitude)


@register("availability", "interleaved")
class Interleaved(Multiplied):
    """The rates of `sine`, set to 0 where they are below a threshold.

    Clients with low rates are never available in a part of every period.

    Attributes:
        amplitude: gamma of the sine, in [0, 0.5].
        threshold: lower rates become 0; in [0, 1].

    >>> clients = Clients(("a", "b"), np.array([1, 36]))
    >>> wave = Interleaved(base={"name": "MDF", "beta": 0.5})
    >>> [wave.rates(t, clients).round(3).tolist() for t in (0, 5, 15)]
    [[0.117, 0.7], [0.167, 1.0], [0.0, 0.4]]
    """

    amplitude: float = Field(default=0.3, ge=0, le=0.5)
    threshold: float = Field(default=0.1, ge=0, le=1)

    def rates(self, round: int, clients: Clients) -> FloatArray:
        """(N,) the rates of the sine, or 0."""
        rates = super().rates(round, clients)
        return np.where(rates < self.threshold, 0.0, rates)

    def factor(self, round: int) -> float:
        """In [1 - 2·amplitude, 1]."""
        return _sine(round, self.period, self.amplitude)


def _sine(round: int, period: int, amplitude: float) -> float:
    """amplitude·sin(2π t/T_p) + 1 - amplitude; at most 1, which rounding could exceed."""
    turn = 2 * math.pi * (round % period) / period
    return min(1.0, amplitude * math.sin(turn) + 1 - amplitude)
