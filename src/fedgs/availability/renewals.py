"""Chains of the states on and off that keep their state or redraw it.

In each round a chain keeps its state with probability lambda_k and else redraws it, on with
probability r_k(t). The state of a round is the draw of the last renewal, which makes it a pure
function of the round.
"""

from collections.abc import Callable

import numpy as np

from fedgs.arrays import BoolArray, FloatArray
from fedgs.rng import stream

__all__ = ["Renewals"]


class Renewals:
    """The renewals of N chains.

    Args:
        purpose: names the stream that they are drawn from.
        seed: of that stream.
        correlations: (N,) lambda_k in [0, 1).
        rates: t -> (N,) r_k(t), with which a chain is on after a renewal in round t. All chains are
            renewed in round 0.

    >>> always = Renewals("demo", 0, np.array([0.5, 0.5]), lambda t: np.array([0.0, 1.0]))
    >>> always.state(7)
    array([False,  True])
    """

    def __init__(
        self,
        purpose: str,
        seed: int,
        correlations: FloatArray,
        rates: Callable[[int], FloatArray],
    ) -> None:
        self._purpose, self._seed = purpose, seed
        self._correlations, self._rates = correlations, rates

    def state(self, round: int) -> BoolArray:
        """(N,) whether each chain is on; looks back about ln(N) / (1 - lambda) rounds."""
        on = np.zeros(len(self._correlations), dtype=np.bool_)
        waiting = np.arange(len(on))  # chains whose last renewal is earlier
        for t in range(round, -1, -1):
            renewed, drawn = self._at(t)
            found = waiting[renewed[waiting]]
            on[found] = drawn[found]
            waiting = waiting[~renewed[waiting]]
            if len(waiting) == 0:
                break
        return on

    def step(self, round: int, before: BoolArray) -> BoolArray:
        """(N,) `state(round)` from `before`, the state of the round before, O(N)."""
        renewed, drawn = self._at(round)
        return np.where(renewed, drawn, before)

    def _at(self, round: int) -> tuple[BoolArray, BoolArray]:
        """(N,) whether each state is redrawn in a round, all in round 0; and (N,) the draws."""
        uniforms = stream(self._seed, self._purpose, round).random((len(self._correlations), 2))
        keep, draw = uniforms.T
        return (keep >= self._correlations) | (round == 0), draw < self._rates(round)
