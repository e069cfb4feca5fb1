"""What can be decided about a selection problem before any search, exactly."""

from dataclasses import dataclass

import numpy as np

from fedgs.arrays import FloatArray, IntArray

__all__ = ["Reduced", "reduce"]


@dataclass(frozen=True, eq=False)
class Reduced:
    """What is left of a problem: choose `size` of `clients`, maximising the sum of `gains` and of the pairs' distances.

    Attributes:
        forced: clients that are in every optimal cohort (of those that the tie-breaking order can give).
        clients: (p,) the clients to choose from, in the order that breaks ties.
        gains: (p,) b_i in units of distance: what client i brings beside its pairs with others of `clients`.
        size: r, how many are to be chosen, 0 <= r <= p.
    """

    forced: IntArray
    clients: IntArray
    gains: FloatArray
    size: int


def reduce(clients: IntArray, gains: FloatArray, size: int, largest: float) -> tuple[IntArray, IntArray]:
    """Positions that every best choice holds, and positions that remain open. O(p).

    With Δ = (size-1)·largest, no choice of pairs outweighs more than Δ: whoever is more than Δ below the size-th best gain is
    never chosen, whoever is more than Δ above the best gain outside always is (exchange argument).

    Args:
        clients: (p,) only their number counts.
        gains: (p,) linear gains, in units of distance.
        size: how many are chosen, 1 <= size < p.
        largest: the largest distance.

    >>> reduce(np.arange(4), np.array([9.0, 0.5, 0.4, -7.0]), 2, 1.0)
    (array([0]), array([1, 2]))
    """
    count = len(clients)
    ordered = np.partition(gains, [count - size - 1, count - size])
    last_in, first_out = ordered[count - size], ordered[count - size - 1]
    # Rounding must not decide: a gain is known to a few units in its last place.
    delta = (size - 1) * largest * (1 + 1e-12) + 1e-14 * float(np.abs(gains).max())
    always = gains > first_out + delta
    return np.flatnonzero(always), np.flatnonzero(~always & (gains >= last_in - delta))
