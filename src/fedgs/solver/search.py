"""Choosing r of p points so that linear gains plus pairwise distances are largest: the plain NumPy reference.

W is the (p, p) matrix of distances, b the (p,) linear gains in the same unit: maximise sum over i<j in S of w_ij + sum over i in S
of b_i over |S| = r. Order breaks ties; callers shuffle.
"""

from itertools import combinations
from math import comb

import numpy as np

from fedgs.arrays import FloatArray, FloatMatrix, IntArray

__all__ = ["best_swaps", "enumerate_all", "greedy", "row_bound", "value"]


def value(distances: FloatMatrix, gains: FloatArray, chosen: IntArray) -> float:
    """The value of a choice.

    >>> value(np.array([[0.0, 3.0], [3.0, 0.0]]), np.array([1.0, 0.5]), np.array([0, 1]))
    4.5
    """
    return float(distances[np.ix_(chosen, chosen)].sum() / 2 + gains[chosen].sum())


def greedy(distances: FloatMatrix, gains: FloatArray, size: int, *, first: int | None = None) -> IntArray:
    """Take the point that adds most, again and again. O(p·r).

    Args:
        first: the position to begin with, instead of the one with the largest gain.

    >>> greedy(np.array([[0.0, 1.0, 3.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]]), np.zeros(3), 2)
    array([0, 2])
    """
    adds = gains.astype(np.float64)
    chosen = np.empty(size, dtype=np.int64)
    for step in range(size):
        chosen[step] = best = first if first is not None and step == 0 else int(np.argmax(adds))
        adds = adds + distances[best]
        adds[chosen[: step + 1]] = -np.inf
    return chosen


def best_swaps(distances: FloatMatrix, gains: FloatArray, chosen: IntArray, *, tolerance: float) -> IntArray:
    """Exchange the pair that helps most until none helps by more than `tolerance`. Every step O(r·p).

    >>> best_swaps(np.array([[0.0, 1.0, 3.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]]), np.zeros(3), np.array([0, 1]), tolerance=1e-9)
    array([0, 2])
    """
    inside = chosen.copy()
    outside = np.setdiff1d(np.arange(len(gains)), inside)
    adds = gains + distances[inside].sum(axis=0)  # what each point has with the choice
    while len(outside):
        change = adds[outside] - adds[inside, None] - distances[np.ix_(inside, outside)]  # (r, p - r)
        leave, enter = np.unravel_index(int(np.argmax(change)), change.shape)
        if change[leave, enter] <= tolerance:
            break
        adds += distances[outside[enter]] - distances[inside[leave]]
        inside[leave], outside[enter] = outside[enter], inside[leave]
    return np.sort(inside)


def enumerate_all(distances: FloatMatrix, gains: FloatArray, size: int) -> IntArray:
    """The best of all choices, the first among equals. O(comb(p, r)·r²): for small pools and as a referee.

    >>> enumerate_all(np.array([[0.0, 1.0, 3.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]]), np.zeros(3), 2)
    array([0, 2])
    """
    total = comb(len(gains), size)
    flat = np.fromiter((i for choice in combinations(range(len(gains)), size) for i in choice), np.int64, count=total * size)
    choices = flat.reshape(total, size)  # (comb, r)
    values = gains[choices].sum(axis=1)
    for left in range(size):
        for right in range(left + 1, size):
            values += distances[choices[:, left], choices[:, right]]
    # Sums of equal terms in another order differ in their last bits: the first among equals is chosen to a tolerance.
    best = float(values.max())
    slack = 1e-12 * (abs(best) + float(distances.max(initial=0.0)) * size)
    return np.asarray(choices[int(np.argmax(values >= best - slack))])


def row_bound(distances: FloatMatrix, gains: FloatArray, size: int) -> float:
    """A value that no choice exceeds: each point counts half of its r-1 longest pairs. O(p²).

    >>> row_bound(np.array([[0.0, 1.0, 3.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]]), np.zeros(3), 2)
    3.0
    """
    count = len(gains)
    each = gains.astype(np.float64)
    if size > 1:
        each += np.partition(distances, count - size + 1, axis=1)[:, count - size + 1 :].sum(axis=1) / 2
    return float(np.partition(each, count - size)[count - size :].sum())
