"""Loss and accuracy from sums over examples. NumPy only."""

import numpy as np

from fedgs.arrays import AnyArray, FloatArray, IntArray
from fedgs.requests import Metrics

__all__ = ["mean_losses", "weighted_metrics"]


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
    """The weighted mean of per-client means; clients without examples are left out.

    Args:
        loss_sums: (m,) sum of the losses of each client's examples.
        correct: (m,) number of correctly classified examples of each.
        sizes: (m,) number of examples of each.
        weights: (m,) >= 0, such as the training sizes n_k; not normalised.

    Returns:
        Loss and accuracy; NaN when no client has an example.

    >>> sizes, weights = np.array([2, 3, 0]), np.array([1, 3, 50])
    >>> weighted_metrics(np.array([2.0, 9.0, 0.0]), np.array([1, 3, 0]), sizes, weights)
    Metrics(loss=2.5, accuracy=0.875)
    """
    nonempty = sizes > 0
    if not nonempty.any():
        return Metrics(float("nan"), float("nan"))
    share = weights[nonempty] / np.sum(weights[nonempty], dtype=np.float64)
    loss = float(np.sum(share * (loss_sums[nonempty] / sizes[nonempty])))
    return Metrics(loss, float(np.sum(share * (correct[nonempty] / sizes[nonempty]))))
