"""Compiled weighted means and sums of models."""

import math
from typing import Any

import numpy as np

from fedgs.compiling import compiled

__all__ = ["averages", "block_sums"]


@compiled
def _sum(vector: Any) -> Any:
    total = 0.0
    for value in vector:
        total += value
    return total


@compiled
def averages(
    models: Any, begin: Any, end: Any, weights: Any, references: Any, means: Any, fine: Any
) -> None:
    """The weighted means or sums of R ranges of models.

    They have the same bits as those of the folds of `fedgs.aggregation`.

    Args:
        models: (r, P) float32.
        begin: (R,) first row of each range of models and weights.
        end: (R,) row after the last of each range, > begin.
        weights: (r,) float64.
        references: (R, P) float32, what differences are taken to; (0, P): the first model of each
            range.
        means: (R, P) float32, filled.
        fine: (R,) bool, filled: whether the range's models and their average are all finite.
    """
    total = np.zeros(models.shape[1])
    for i in range(len(begin)):
        first = references[i] if len(references) > 0 else models[begin[i]]
        total[:] = 0
        sums = 0.0  # no number of float32's overflows it
        for row in range(begin[i], end[i]):
            model, weight = models[row], weights[row]
            for j in range(len(total)):
                total[j] += (np.float64(model[j]) - np.float64(first[j])) * weight
            sums += _sum(model)
        for j in range(len(total)):
            means[i, j] = np.float32(first[j] + total[j])
        fine[i] = math.isfinite(sums + _sum(means[i]))


@compiled
def block_sums(
    models: Any, begin: Any, end: Any, weights: Any, references: Any, totals: Any, fine: Any
) -> None:
    """The weighted sums of differences in R ranges of models, as those of a fold's blocks.

    Args:
        models: see `averages`.
        begin: likewise.
        end: likewise.
        weights: likewise.
        references: likewise.
        totals: (R, P) float64, filled.
        fine: (R,) bool, filled: whether the range's models are all finite.
    """
    for i in range(len(begin)):
        first = references[i] if len(references) > 0 else models[begin[i]]
        total = totals[i]
        total[:] = 0
        sums = 0.0
        for row in range(begin[i], end[i]):
            model, weight = models[row], weights[row]
            for j in range(len(total)):
                total[j] += (np.float64(model[j]) - np.float64(first[j])) * weight
            sums += _sum(model)
        fine[i] = math.isfinite(sums)
