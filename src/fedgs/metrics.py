"""Loss and accuracy from sums over examples, and how evenly clients take part. NumPy only."""

import numpy as np

from fedgs.arrays import AnyArray, FloatArray, IntArray
from fedgs.requests import Metrics

__all__ = ["count_variance", "coverage", "jain_index", "mean_losses", "weighted_metrics"]


def mean_losses(loss_sums: FloatArray, sizes: IntArray) -> FloatArray:
    """(m,) mean losses from sums and numbers of examples; NaN where there is no example.

    >>> mean_losses(np.array([3.0, 0.0]), np.array([2, 0]))
    array([1.5, nan])
    """
    means = np.full(len(sizes), np.nan)
    np.divide(loss_sums, sizes, out=means, where=sizes > 0)
    return means


def weighted_metrics(
    loss_sums: FloatArray, correct: AnyArray, sizes: IntArray, weights: AnyArray
) -> Metrics:
    """The mean of per-client means, weighted; clients without examples are left out.

    Args:
        loss_sums: (m,) sum of the losses of each client's examples.
        correct: (m,) how many of them are right.
        sizes: (m,) how many examples each has.
        weights: (m,) >= 0, such as the training sizes n_k; not normalised.

    Returns:
        Loss and accuracy; NaN when nobody has an example.

    >>> weighted_metrics(np.array([2.0, 9.0, 0.0]), np.array([1, 3, 0]), np.array([2, 3, 0]), np.array([1, 3, 50]))
    Metrics(loss=2.5, accuracy=0.875)
    """
    kept = sizes > 0
    if not kept.any():
        return Metrics(float("nan"), float("nan"))
    share = weights[kept] / np.sum(weights[kept], dtype=np.float64)
    loss = float(np.sum(share * (loss_sums[kept] / sizes[kept])))
    return Metrics(loss, float(np.sum(share * (correct[kept] / sizes[kept]))))


def count_variance(counts: IntArray) -> float:
    """Variance of the sampling counts with N - 1 in the denominator (0 for one client).

    >>> count_variance(np.array([0, 2, 4]))
    4.0
    """
    return float(np.var(counts, ddof=1)) if len(counts) > 1 else 0.0


def jain_index(counts: IntArray) -> float:
    """Jain's fairness index (sum v)² / (N · sum v²): 1 when all counts are equal (also all 0), 1/N when one client does all.

    >>> jain_index(np.array([3, 3, 3])), jain_index(np.array([5, 0]))
    (1.0, 0.5)
    """
    values = np.asarray(counts, dtype=np.float64)
    squares = float(np.sum(values**2))
    return float(np.sum(values)) ** 2 / (len(values) * squares) if squares > 0 else 1.0


def coverage(counts: IntArray) -> float:
    """The share of clients that took part at least once.

    >>> coverage(np.array([0, 1, 7, 0]))
    0.5
    """
    return float(np.mean(np.asarray(counts) > 0))
