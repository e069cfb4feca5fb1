"""What can be decided about a selection problem before any search, exactly."""

from typing import NamedTuple

import numpy as np

from fedgs.arrays import FloatArray, IntArray
from fedgs.solver import limits
from fedgs.solver.problem import SelectionProblem, block_of

__all__ = ["Reduced", "decides", "reduce", "reduced"]


class Reduced(NamedTuple):
    """A reduced problem.

    Attributes:
        forced: clients that every best cohort holds.
        clients: (p,) clients that remain open.
        gains: (p,) their gains in units of distance.
        left: r, how many of them are chosen.
    """

    forced: IntArray
    clients: IntArray
    gains: FloatArray
    left: int


def decides(gains: FloatArray, size: int, largest: float) -> bool:
    """Whether `reduce` can decide anything: False if all gains lie within (size-1)·largest. O(p).

    >>> decides(np.array([0.0, 1.0, 2.0]), 2, 3.0)
    False
    """
    return float(np.maximum.reduce(gains) - np.minimum.reduce(gains)) > (size - 1) * largest


def reduce(gains: FloatArray, size: int, largest: float) -> tuple[IntArray, IntArray]:
    """Positions that every best choice holds, and positions that remain open. O(p).

    With Δ = (size-1)·largest, no choice of pairs outweighs more than Δ. A position more than Δ
    below the size-th best gain is never chosen. A position more than Δ above the best gain outside
    the choice is always chosen (exchange argument).

    Args:
        gains: (p,) linear gains, in the unit of `largest`.
        size: how many are chosen, 1 <= size < p.
        largest: the most that one pair adds.

    >>> reduce(np.array([9.0, 0.5, 0.4, -7.0]), 2, 1.0)
    (array([0]), array([1, 2]))
    """
    count = len(gains)
    if count <= limits.MAX_CLIENTS_SORTED:
        ordered = gains.copy()
        ordered.sort()
        low, high = float(ordered[0]), float(ordered[-1])
    else:
        low, high = float(gains.min()), float(gains.max())
        ordered = np.partition(gains, [count - size - 1, count - size])
    if high - low <= (size - 1) * largest:
        return np.empty(0, dtype=np.int64), np.arange(count)
    last_in, first_out = float(ordered[count - size]), float(ordered[count - size - 1])
    # Rounding must not decide: a gain is known to a few units in its own last place, whatever the
    # size of the others.
    delta = (size - 1) * largest * (1 + 1e-12) + 1e-14 * (abs(last_in) + abs(first_out))
    doubt = 1e-14 * np.abs(gains)
    able = gains + doubt >= last_in - delta
    if high <= first_out + delta:
        return np.empty(0, dtype=np.int64), able.nonzero()[0]
    always = gains - doubt > first_out + delta
    return always.nonzero()[0], (able & ~always).nonzero()[0]


def reduced(problem: SelectionProblem, order: IntArray) -> Reduced:
    """Reduce a whole problem, as often as that decides anything.

    Args:
        problem: the problem.
        order: (a,) the available clients in an order drawn by the caller, which the open ones keep.
    """
    size, weight, largest = problem.cohort_size, problem.pair_weight, problem.distances.maximum
    gains = -problem.balance_penalty[order]
    forced, clients, left = order[:0], order, size
    if decides(gains, size, weight * largest):
        always, opened = reduce(gains, size, weight * largest)
        forced, clients, gains = order[always], order[opened], gains[opened]
        left = size - len(always)
        if left in (0, len(clients)):
            return Reduced(forced, clients, gains, left)
    # Differences can be 1e-13 of the gains themselves: subtract what is common to all before
    # anything is added.
    gains -= gains[0]
    gains /= weight
    added = forced
    while len(added) and 0 < left < len(clients):
        gains += block_of(problem.distances, added, clients).sum(axis=0)
        always, opened = reduce(gains, left, largest)
        added = clients[always]
        forced, left = np.append(forced, added), left - len(added)
        clients, gains = clients[opened], gains[opened]
    return Reduced(forced, clients, gains, left)
