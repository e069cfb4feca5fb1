"""Deficit: weights that give each client the share of the model that is due to it."""

from typing import Literal

import numpy as np
from pydantic import Field

from fedgs.arrays import FloatArray
from fedgs.clients import Clients, Memory, Outcome, Selection, View
from fedgs.errors import ConfigError
from fedgs.registry import register
from fedgs.weighting.base import Weighting

__all__ = ["Deficit", "correction_strength", "deficits", "nearest_weights"]

Correction = Literal["shrunk", "full", "none"]

# The largest variance of numbers that differ by at most 1 (Popoviciu's inequality).
_ROTATION = 0.25


@register("weighting", "deficit")
class Deficit(Weighting):
    """Weights that repay what each client has received less than its share.

    After R rounds with an average, the share D_k = (R + 1) p_k of all weights is due to client k
    at the end of the present round, and W_k is the sum of its weights so far. d_k = D_k - W_k is
    its deficit; the deficits of all clients have the sum 1 before each round. The weights of a
    cohort S are those nearest to the deficits: they minimise

        sum over k in S of (gamma d_k + (1 - gamma) p_k / P_S - w_k)^2 / p_k,   P_S = sum of p_k,

    over all w of sum 1 with w_k >= floor p_k / P_S. This gives w_k = max(floor p_k / P_S,
    gamma d_k + (1 - gamma) p_k / P_S + nu p_k) with one number nu.

    gamma is the strength of the correction, see `correction_strength`: near 0 as long as the
    deficits spread no more than under balanced rotation, where they only say when a client was
    selected last, and near 1 where they are larger.

    Attributes:
        correction: "shrunk": gamma as described; "full": gamma = 1; "none": gamma = 0, weights
            p_k / P_S, and the deficits are recorded for samplers that follow them.
        floor: in [0, 1]; no weight is below this part of p_k / P_S. With 0, a client that is ahead
            of its share by more than the others may get the weight 0.
        horizon: deficits are multiplied by 1 - 1/horizon after every round with an average, so
            that those of earlier rounds count less; None: they stay.
        normalise: False: w_k = max(floor p_k, d_k), of any sum; needs correction = "full".

    >>> clients, weighting = Clients(("a", "b"), np.array([1, 3])), Deficit(correction="full")
    >>> counts, memory = np.zeros(2, dtype=np.int64), weighting.start(clients, 1)
    >>> view = View(0, clients, np.array([0]), counts, cohort_limit=2)
    >>> memory = weighting.observe(memory, view, Outcome(np.array([0]), np.ones(1)))
    >>> memory["deficit"].tolist()      # p - w; "a" alone was there
    [-0.75, 0.75]
    >>> weighting.weights(view, Selection(np.arange(2)), memory).tolist()
    [0.0, 1.0]
    """

    correction: Correction = "shrunk"
    floor: float = Field(default=0.0, ge=0, le=1)
    horizon: float | None = Field(default=None, ge=1, allow_inf_nan=False)
    normalise: bool = True

    def model_post_init(self, context: object) -> None:
        """Refuse a shrunk correction of weights that have no sum to keep."""
        if not self.normalise and self.correction != "full":
            raise ConfigError(
                "weighting.correction must be 'full' with normalise = false, "
                f"got {self.correction!r}"
            )

    @property
    def is_normalised(self) -> bool:
        """The setting `normalise`."""
        return self.normalise

    def start(self, clients: Clients, cohort_limit: int) -> Memory:
        """(N,) R p_k - W_k of all rounds so far, which is 0."""
        return {"deficit": np.zeros(len(clients))}

    def weights(self, view: View, selection: Selection, memory: Memory) -> FloatArray:
        """(m,) weights."""
        cohort, due = selection.clients, deficits(view, memory)
        shares = view.shares[cohort]
        own = shares / shares.sum()
        if not self.normalise:
            return np.maximum(self.floor * shares, due[cohort])
        gamma = {"full": 1.0, "none": 0.0}.get(self.correction)
        if gamma is None:
            gamma = correction_strength(due, view.shares, view.cohort_limit)
        wanted = gamma * due[cohort] + (1.0 - gamma) * own
        return nearest_weights(wanted, shares, self.floor * own)

    def observe(self, memory: Memory, view: View, outcome: Outcome | None) -> Memory:
        """Add p_k - w_k; a round without an average changes nothing."""
        if outcome is None:
            return memory
        deficit = memory["deficit"] + view.shares
        deficit[outcome.clients] -= outcome.weights
        if self.horizon is not None:
            deficit *= 1.0 - 1.0 / self.horizon
        return {"deficit": deficit}


def deficits(view: View, memory: Memory) -> FloatArray:
    """(N,) d_k = D_k - W_k, with the present round's share due.

    Args:
        view: of the round.
        memory: of a weighting `Deficit`.
    """
    due: FloatArray = memory["deficit"] + view.shares
    return due


def correction_strength(due: FloatArray, shares: FloatArray, cohort_limit: int) -> float:
    """The part gamma of the deficits' variance that balanced rotation does not explain, in [0, 1).

    In a rotation every client is selected once in a turn of N/M rounds, with weight p_k N/M. In
    units of this weight the deficits are u_k = d_k M / (N p_k). Rotation alone makes them differ by
    at most 1: some clients have had their turn and the others have not. Numbers that differ by at
    most 1 have a variance of at most 1/4. With the variance V = sum_k p_k (u_k - M/N)^2 that is
    found (M/N is their mean), gamma = max(0, 1 - 1 / (4 V)). It is the coefficient of the best
    linear estimate of a quantity from an observation with variance V, of which 1/4 is noise.

    Args:
        due: (N,) d_k.
        shares: (N,) p_k, sum 1.
        cohort_limit: M >= 1.

    References:
        W. James, C. Stein (1961): Estimation with Quadratic Loss. Berkeley Symposium on
        Mathematical Statistics and Probability 4.

    >>> shares = np.full(4, 0.25)  # M = 2 and one round: two clients have had their turn
    >>> correction_strength(np.array([-0.25, -0.25, 0.25, 0.25]) + 0.25, shares, 2)
    0.0
    >>> correction_strength(np.array([-5.0, -5.0, 5.0, 5.0]) + 0.25, shares, 2)  # 10 times that
    0.9975
    """
    part = cohort_limit / len(shares)
    turns = due * part / shares
    variance = float(np.sum(shares * (turns - part) ** 2))
    return 1.0 - _ROTATION / variance if variance > _ROTATION else 0.0


def nearest_weights(wanted: FloatArray, shares: FloatArray, lowest: FloatArray) -> FloatArray:
    """The w of sum 1 with w_k >= lowest_k that minimises sum_k (wanted_k - w_k)^2 / shares_k.

    It is w_k = max(lowest_k, wanted_k + nu shares_k). nu is found exactly, in O(m log m): client k
    is above its lowest weight for nu > (lowest_k - wanted_k) / shares_k.

    Args:
        wanted: (m,) any numbers.
        shares: (m,) positive.
        lowest: (m,) >= 0, with a sum of at most 1.

    >>> nearest_weights(np.array([0.2, 0.5, -4.0]), np.ones(3), np.zeros(3)).round(3).tolist()
    [0.35, 0.65, 0.0]
    """
    thresholds = (lowest - wanted) / shares
    order = np.argsort(thresholds, kind="stable")
    # With the j + 1 clients of the smallest thresholds above their lowest weight: the nu of sum 1.
    rest = 1.0 - lowest.sum() + np.cumsum((lowest - wanted)[order])
    numbers = rest / np.cumsum(shares[order])
    above = int(np.count_nonzero(numbers > thresholds[order]))  # true for the first ones
    nu = numbers[max(above, 1) - 1]
    weights: FloatArray = np.maximum(lowest, wanted + nu * shares)
    return weights
