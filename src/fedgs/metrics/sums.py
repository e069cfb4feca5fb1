"""Loss and accuracy from sums over examples. NumPy only."""

from collections.abc import Mapping

import numpy as np

from fedgs.arrays import AnyArray, FloatArray, IntArray
from fedgs.requests import ClientMetrics, Metrics

__all__ = ["client_metrics", "mean_losses", "weighted_metrics"]


def mean_losses(loss_sums: FloatArray, sizes: AnyArray) -> FloatArray:
    """(m,) mean losses from sums and numbers of examples; NaN where there is no example.

    >>> mean_losses(np.array([3.0, 0.0]), np.array([2, 0]))
    array([1.5, nan])
    """
    means = np.full(len(sizes), np.nan)
    np.divide(loss_sums, sizes, out=means, where=sizes > 0)
    return means


def client_metrics(sums: Mapping[str, FloatArray], sizes: IntArray) -> ClientMetrics:
    """Loss and accuracy of each client.

    Args:
        sums: sums over each client's examples, (m,) each, see `weighted_metrics`.
        sizes: (m,) number of examples of each.

    >>> sums = {"losses": np.array([2.0, 9.0, 0.0]), "correct": np.array([1, 3, 0])}
    >>> metrics = client_metrics(sums, np.array([2, 3, 0]))
    >>> metrics.losses, metrics.accuracies
    (array([ 1.,  3., nan]), array([0.5, 1. , nan]))
    """
    correct = sums.get("correct")
    return ClientMetrics(
        mean_losses(sums["losses"], sums.get("weights", sizes)),
        None if correct is None else mean_losses(correct, sums.get("answers", sizes)),
    )


def weighted_metrics(sums: Mapping[str, FloatArray], sizes: IntArray, weights: AnyArray) -> Metrics:
    """The weighted mean of per-client means; clients without examples are left out.

    Args:
        sums: sums over each client's examples, (m,) each. "losses": of the losses; "weights": of
            what these count, by default the number of examples; "correct": right answers, which
            are missing where accuracy has no meaning; "answers": of all answers, by default the
            number of examples.
        sizes: (m,) number of examples of each.
        weights: (m,) >= 0, such as the training sizes n_k; not normalised.

    Returns:
        Loss and accuracy; NaN when no client has an example.

    >>> sizes, weights = np.array([2, 3, 0]), np.array([1, 3, 50])
    >>> sums = {"losses": np.array([2.0, 9.0, 0.0]), "correct": np.array([1, 3, 0])}
    >>> metrics = weighted_metrics(sums, sizes, weights)
    >>> metrics.loss, metrics.accuracy
    (2.5, 0.875)
    """
    counts, answers = sums.get("weights", sizes), sums.get("answers", sizes)
    shares = _shares(counts, weights)
    loss = _weighted_mean(sums["losses"], counts, shares)
    correct = sums.get("correct")
    if correct is None:
        return Metrics(loss, None)
    if answers is not counts:
        shares = _shares(answers, weights)
    return Metrics(loss, _weighted_mean(correct, answers, shares))


def _shares(counts: AnyArray, weights: AnyArray) -> tuple[AnyArray, AnyArray]:
    """(m,) which clients count, and their weights with sum 1."""
    counted = counts > 0
    return counted, weights[counted] / np.sum(weights[counted], dtype=np.float64)


def _weighted_mean(sums: AnyArray, counts: AnyArray, shares: tuple[AnyArray, AnyArray]) -> float:
    counted, share = shares
    if not len(share):
        return float("nan")
    return float(np.sum(share * (sums[counted] / counts[counted])))
