"""Greedy maximisation of facility location: the clients that are near to all others."""

import heapq

import numpy as np

from fedgs.arrays import FloatArray, FloatMatrix, IntArray

__all__ = ["lazy_greedy", "plain_greedy"]


def plain_greedy(distance: FloatMatrix, places: int) -> IntArray:
    """The rows that greedy selection adds to S one after another, all gains computed each time.

    Each step adds the row that lowers G(S) = sum_i min_{k in S} d_ki the most, where d_ki is capped
    at its largest value, which is also the minimum over the empty set. So the first row is the
    medoid. Ties go to the row with the smallest index. The decrease f(S) = G(empty) - G(S) is
    monotone and submodular, so f of the result is at least 1 - 1/e of the optimum (G. L. Nemhauser,
    L. A. Wolsey, M. L. Fisher, 1978, Mathematical Programming).

    Args:
        distance: (a, c) distances >= 0 of a candidates from c clients that are covered.
        places: the number of rows, at most a.

    >>> plain_greedy(np.array([[0.0, 1.0, 9.0], [1.0, 0.0, 9.0], [9.0, 9.0, 0.0]]), 2).tolist()
    [0, 2]
    """
    rows, nearest = np.ascontiguousarray(distance), _nobody(distance)
    chosen: list[int] = []
    for _ in range(places):
        rest = [row for row in range(len(rows)) if row not in chosen]
        best = max(rest, key=lambda row: (_gain(nearest, rows[row]), -row))
        chosen.append(best)
        nearest = np.minimum(nearest, rows[best])
    return np.array(chosen, dtype=np.int64)


def lazy_greedy(distance: FloatMatrix, places: int) -> IntArray:
    """The result of `plain_greedy`, with fewer gains computed (M. Minoux, 1978).

    The gain of a row never rises as S grows, also as computed: each of its terms falls or stays,
    and rounding keeps the order of sums. So an earlier gain is an upper bound, and a row whose
    fresh gain is not below any bound is the next one.

    >>> lazy_greedy(np.array([[0.0, 1.0, 9.0], [1.0, 0.0, 9.0], [9.0, 9.0, 0.0]]), 2).tolist()
    [0, 2]
    """
    rows, nearest = np.ascontiguousarray(distance), _nobody(distance)
    # (-bound, row): the largest bound first, then the smallest row.
    heap = [(-_gain(nearest, row), index) for index, row in enumerate(rows)]
    heapq.heapify(heap)
    chosen: list[int] = []
    while len(chosen) < places:
        _, row = heap[0]
        fresh = (-_gain(nearest, rows[row]), row)
        heapq.heapreplace(heap, fresh)
        if heap[0] == fresh:
            heapq.heappop(heap)
            chosen.append(row)
            nearest = np.minimum(nearest, rows[row])
    return np.array(chosen, dtype=np.int64)


def _nobody(distance: FloatMatrix) -> FloatArray:
    """The distance of every covered client from the empty set."""
    return np.full(distance.shape[1], distance.max(initial=0.0))


def _gain(nearest: FloatArray, row: FloatArray) -> float:
    """The decrease of G. Always this function, so that equal gains are equal in every bit."""
    return float(np.maximum(nearest - row, 0.0).sum())
