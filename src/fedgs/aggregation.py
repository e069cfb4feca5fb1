"""Weights of the average of local models, and the average itself as a fold over blocks of models."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fedgs.arrays import FloatArray, IntArray
from fedgs.clients import Weighting
from fedgs.errors import UpdateError

__all__ = ["WeightedMean", "aggregation_weights", "weighted_means"]

_RULES: dict[str, Callable[[FloatArray, FloatArray, FloatArray], FloatArray]] = {
    "data_size": lambda sizes, draws, counts: sizes,
    "draws": lambda sizes, draws, counts: draws,
    "equal": lambda sizes, draws, counts: np.ones_like(sizes),
    "inverse_participation": lambda sizes, draws, counts: sizes / (counts + 1.0),
}


def aggregation_weights(
    weighting: Weighting, data_sizes: IntArray, draws: IntArray | None = None, counts: IntArray | None = None
) -> FloatArray:
    """The weights w_k of the cohort's local models.

    Args:
        weighting: "data_size": n_k; "draws": how often each was drawn; "equal": 1; "inverse_participation": n_k / (v_k + 1).
        data_sizes: (m,) n_k of the cohort.
        draws: (m,) times each was drawn; None: once each.
        counts: (m,) sampling counts v_k before this round; None: all 0.

    Returns:
        (m,) weights >= 0 that sum to 1.

    Raises:
        UpdateError: the weights are all 0, or one is negative, NaN or inf.

    >>> aggregation_weights("data_size", np.array([1, 3])).tolist()
    [0.25, 0.75]
    >>> aggregation_weights("draws", np.array([1, 3]), draws=np.array([2, 2])).tolist()
    [0.5, 0.5]
    """
    sizes = np.asarray(data_sizes, dtype=np.float64)
    drawn = np.ones_like(sizes) if draws is None else np.asarray(draws, dtype=np.float64)
    participated = np.zeros_like(sizes) if counts is None else np.asarray(counts, dtype=np.float64)
    raw = _RULES[weighting](sizes, drawn, participated)
    if not np.isfinite(raw).all() or np.any(raw < 0):
        raise UpdateError(f"aggregation weights ({weighting}) must be finite and >= 0, got {raw.tolist()}")
    total = float(raw.sum())
    if total <= 0:
        raise UpdateError(f"aggregation weights ({weighting}) must not all be 0, got {raw.tolist()}")
    return np.asarray(raw / total)


@dataclass(frozen=True, eq=False)
class WeightedMean:
    """The fold sum_k w_k·theta_k, accumulated in float64 as theta_first + sum_k w_k·(theta_k - theta_first).

    In this form identical local models give exactly themselves. Models are added one at a time in the clients' order, so the
    result does not depend on how they were cut into blocks. Cost: O(m·P) time, two (P,) float64 vectors of memory.

    Attributes:
        weights: (m,) in the order of the request's clients, sum 1.

    >>> mean = WeightedMean(np.array([0.25, 0.75]))
    >>> mean.finish(mean.add(mean.start(), np.array([4, 7]), torch.tensor([[0.0], [4.0]])))
    tensor([3.])
    """

    weights: FloatArray

    def start(self) -> Any:
        """Nothing gathered yet: how many models came, the first one, and the weighted sum of differences to it."""
        return (0, None, None)

    def add(self, kept: Any, clients: IntArray, models: torch.Tensor) -> Any:
        """Add the (b, P) models of the next b clients."""
        done, first, total = kept
        if first is None:
            first = models[0].double()
            total = torch.zeros_like(first)
        for row, weight in zip(models - first, self.weights[done : done + len(clients)].tolist(), strict=True):  # (b, P) float64
            total += row * weight
        return (done + len(clients), first, total)

    def finish(self, kept: Any) -> torch.Tensor:
        """The (P,) float32 average.

        Raises:
            UpdateError: a model was missing, or the average is not finite.
        """
        done, first, total = kept
        if done != len(self.weights) or first is None:
            raise UpdateError(f"the average needs {len(self.weights)} local models, got {done}")
        average: torch.Tensor = (first + total).float()
        if not bool(torch.isfinite(average).all()):
            raise UpdateError("the average of the local models is not finite (NaN or inf)")
        return average


def weighted_means(folds: Sequence[WeightedMean], models: torch.Tensor) -> torch.Tensor:
    """What each of R folds makes of its own m models, all at once and bit for bit the same; not checked for NaN and inf.

    Args:
        folds: R weighted means of m models each, m >= 1.
        models: (R, m, P).

    Returns:
        (R, P) float32.

    >>> weighted_means([WeightedMean(np.array([0.25, 0.75]))], torch.tensor([[[0.0], [4.0]]]))
    tensor([[3.]])
    """
    weights = torch.from_numpy(np.stack([fold.weights for fold in folds])).to(models.device)  # (R, m)
    first = models[:, 0].double()
    total = torch.zeros_like(first)
    for position in range(models.shape[1]):
        total += (models[:, position] - first) * weights[:, position, None]
    return (first + total).float()
