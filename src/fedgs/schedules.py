"""Schedules of the clients' learning rate over rounds: eta_t = learning_rate · factor(t)."""

import math
from typing import ClassVar

from pydantic import Field

from fedgs.registry import Variant, register

__all__ = ["Constant", "Cosine", "Exponential", "Schedule", "Step"]


class Schedule(Variant):
    """Base of all schedules.

    A plug-in defines `factor`:

    >>> class Inverse(Schedule):  # the rate of convergence proofs
    ...     def factor(self, round):
    ...         return 1 / (1 + round)
    """

    family: ClassVar[str] = "schedule"

    def factor(self, round: int) -> float:
        """What the learning rate is multiplied by in round t = 0, 1, ..., > 0.

        It must not depend on the number of rounds of the run, which can be extended.
        """
        raise TypeError(f"{type(self).__name__} must define factor(round)")


@register("schedule", "constant")
class Constant(Schedule):
    """The same learning rate in all rounds.

    >>> Constant().factor(100)
    1.0
    """

    def factor(self, round: int) -> float:
        """1."""
        return 1.0


@register("schedule", "exponential")
class Exponential(Schedule):
    """decay^t, as without a schedule by `training.decay`.

    Attributes:
        decay: in (0, 1].

    >>> Exponential(decay=0.5).factor(2)
    0.25
    """

    decay: float = Field(default=0.998, gt=0, le=1)

    def factor(self, round: int) -> float:
        """The power of the decay."""
        return self.decay**round


@register("schedule", "step")
class Step(Schedule):
    """drop^floor(t / every): the rate drops every so many rounds.

    Attributes:
        every: rounds between two drops, >= 1.
        drop: what the rate is multiplied by at each, in (0, 1].

    >>> [Step(every=10, drop=0.5).factor(t) for t in (9, 10, 20)]
    [1.0, 0.5, 0.25]
    """

    every: int = Field(ge=1)
    drop: float = Field(default=0.1, gt=0, le=1)

    def factor(self, round: int) -> float:
        """The power of the drop."""
        return self.drop ** (round // self.every)


@register("schedule", "cosine")
class Cosine(Schedule):
    """Half a cosine wave from 1 to `lowest` over `rounds` rounds, and `lowest` from then on.

    lowest + (1 - lowest)·(1 + cos(pi t / rounds))/2.

    Reference: Loshchilov and Hutter (2017): SGDR: Stochastic Gradient Descent with Warm Restarts.
    ICLR.

    Attributes:
        rounds: over which the rate falls, >= 1. It is not the number of rounds of the run, which
            can be extended.
        lowest: in [0, 1]; above 0 for runs of more rounds.

    >>> [round(Cosine(rounds=4).factor(t), 4) for t in (0, 1, 2, 4)]
    [1.0, 0.8536, 0.5, 0.0]
    """

    rounds: int = Field(ge=1)
    lowest: float = Field(default=0.0, ge=0, le=1)

    def factor(self, round: int) -> float:
        """See the class."""
        if round >= self.rounds:
            return self.lowest
        return self.lowest + (1 - self.lowest) * (1 + math.cos(math.pi * round / self.rounds)) / 2
