"""Whole numbers from proportions.

Sizes that sum exactly to a total, and label counts with given row and column sums.
"""

import numpy as np

from fedgs.arrays import FloatArray, FloatMatrix, IntArray
from fedgs.errors import DataError

__all__ = ["apportion", "client_sizes", "deal", "fit_labels", "largest_remainder"]


def apportion(
    total: int,
    weights: FloatArray,
    *,
    lower: IntArray | int = 0,
    upper: IntArray | int | None = None,
) -> IntArray:
    """Integers that sum to `total`, within bounds and nearly proportional to `weights`.

    The real solution is clip(lambda·w, lower, upper) with lambda found by bisection. It is rounded
    by largest remainders. Where positive weights cannot take everything, the rest goes to those
    with weight 0. O(N log N).

    Args:
        total: sum(lower) <= total <= sum(upper).
        weights: (N,) >= 0.
        lower: the smallest value of each integer, (N,) or one for all.
        upper: the largest value of each integer, (N,) or one for all; None: `total`.

    >>> apportion(10, np.array([1.0, 1.0, 8.0]), lower=2)
    array([2, 2, 6])
    """
    low = np.broadcast_to(np.asarray(lower, dtype=np.int64), weights.shape)
    high = np.broadcast_to(
        np.asarray(total if upper is None else upper, dtype=np.int64), weights.shape
    )
    assert low.sum() <= total <= high.sum()
    largest = float(weights.max())
    scaled = np.maximum(weights / largest if largest > 0 else np.ones_like(weights), 1e-12)
    # log lambda: at `below` every value is at its lower bound, at `above` at its upper bound
    below, above = -100.0, np.log(float(total) + 1.0) + 30.0
    for _ in range(100):
        middle = (below + above) / 2
        if np.clip(np.exp(middle) * scaled, low, high).sum() < total:
            below = middle
        else:
            above = middle
    real = np.clip(np.exp(above) * scaled, low, high)
    return _rounded(real, total, low, high)


def _rounded(real: FloatArray, total: int, low: IntArray, high: IntArray) -> IntArray:
    whole = np.floor(real + 1e-9).astype(np.int64)
    order = np.argsort(whole - real, kind="stable")  # largest remainder first
    while (rest := total - int(whole.sum())) != 0:
        step, bound = (1, high) if rest > 0 else (-1, low)
        able = order[whole[order] != bound[order]]
        chosen = able[:rest] if rest > 0 else able[rest:]
        whole[chosen] += step
    return whole


def largest_remainder(target: FloatMatrix, sums: IntArray) -> IntArray:
    """(N, C) integers next to `target` whose rows sum to `sums`.

    The rows of `target` must have these sums up to rounding errors.

    >>> largest_remainder(np.array([[0.5, 1.2, 1.3]]), np.array([3]))
    array([[1, 1, 1]])
    """
    whole = np.floor(target + 1e-9).astype(np.int64)
    missing = sums - whole.sum(axis=1)  # (N,)
    rank = np.argsort(np.argsort(whole - target, axis=1, kind="stable"), axis=1, kind="stable")
    whole += rank < missing[:, None]
    return whole


def fit_labels(sizes: IntArray, proportions: FloatMatrix, class_counts: IntArray) -> IntArray:
    """(N, C) label counts near sizes·proportions with given margins.

    Rows sum to `sizes` and columns to `class_counts`. After rounding by largest remainders, each
    class with a surplus passes it to classes with a deficit inside clients that hold it, more where
    the client is meant to hold the other class too. At most 2·C - 1 moves, each O(N log N).

    >>> fit_labels(np.array([4, 4]), np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([4, 4]))
    array([[2, 2],
           [2, 2]])
    """
    counts = largest_remainder(sizes[:, None] * proportions, sizes)
    surplus = counts.sum(axis=0) - class_counts  # (C,)
    for over in np.flatnonzero(surplus > 0):
        for under in np.flatnonzero(surplus < 0):
            amount = int(min(surplus[over], -surplus[under]))
            if amount == 0:
                continue
            weights = counts[:, over] * (proportions[:, under] + 0.01)
            moved = apportion(amount, weights, upper=counts[:, over])
            counts[:, over] -= moved
            counts[:, under] += moved
            surplus[over] -= amount
            surplus[under] += amount
    return counts


def deal(
    counts: IntArray, labels: IntArray, classes: IntArray, rng: np.random.Generator
) -> IntArray:
    """(n,) owners: client k gets counts[k, c] random examples of label classes[c].

    The columns of `counts` must sum to the numbers of examples with these labels.
    """
    owners = np.empty(len(labels), dtype=np.int64)
    for position, label in enumerate(classes):
        examples = rng.permutation(np.flatnonzero(labels == label))
        owners[examples] = np.repeat(np.arange(len(counts)), counts[:, position])
    return owners


def client_sizes(
    total: int, clients: int, *, sigma: float, minimum: int, rng: np.random.Generator
) -> IntArray:
    """(N,) log-normal sizes that sum to `total`, each at least `minimum`.

    ln s_k ~ N(log(n/N) - sigma²/2, sd sigma), then rescaled.

    Raises:
        DataError: `total` is less than N · `minimum`; the message has the largest possible minimum.
    """
    if minimum * clients > total:
        raise DataError(
            f"partition.minimum = {minimum} for {clients} clients needs {minimum * clients} "
            f"examples, but there are {total}; at most {total // clients} is possible"
        )
    if sigma == 0:
        return apportion(total, np.ones(clients), lower=minimum)
    return apportion(
        total, rng.lognormal(np.log(total / clients) - sigma**2 / 2, sigma, clients), lower=minimum
    )
