"""The weighted average of local models, as a fold over blocks of models. The rules of the weights: `fedgs.weights`."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from fedgs.arrays import FloatArray, IntArray
from fedgs.errors import UpdateError

__all__ = ["WeightedMean", "all_finite", "is_finite"]


_IN_CACHE = 1 << 16  # numbers
_Sum = tuple[
    int, torch.Tensor | None, torch.Tensor | None
]  # models so far, the first one, the sum of differences to it


@dataclass(frozen=True, eq=False)
class WeightedMean:
    """The fold sum_k w_k·theta_k, accumulated in float64 as theta_first + sum_k w_k·(theta_k - theta_first).

    In this form identical local models give exactly themselves. Models are added one at a time in
    the clients' order, so the result does not depend on how they were cut into blocks. Cost: O(m·P)
    time, two (P,) float64 vectors of memory.

    Attributes:
        weights: (m,) in the order of the request's clients, sum 1.

    >>> mean = WeightedMean(np.array([0.25, 0.75]))
    >>> mean.finish(mean.add(mean.start(), np.array([4, 7]), torch.tensor([[0.0], [4.0]])))
    tensor([3.])
    """

    weights: FloatArray

    def start(self) -> _Sum:
        """Nothing gathered yet: how many models came, the first one, and the weighted sum of differences to it."""
        return (0, None, None)

    def add(self, kept: _Sum, clients: IntArray, models: torch.Tensor) -> _Sum:
        """Add the (b, P) models of the next b clients."""
        done, first, total = kept
        if first is None or total is None:
            first = models[0].clone()
            total = torch.zeros_like(first, dtype=torch.float64)
        for row, weight in zip(
            models, self.weights[done : done + len(clients)].tolist(), strict=True
        ):
            _add_difference(total, row, first, weight)
        return (done + len(clients), first, total)

    def finish(self, kept: _Sum) -> torch.Tensor:
        """The (P,) float32 average.

        Raises:
            UpdateError: a model was missing, or the average is not finite.
        """
        done, first, total = kept
        if done != len(self.weights) or first is None or total is None:
            raise UpdateError(f"the average needs {len(self.weights)} local models, got {done}")
        average: torch.Tensor = (first + total).float()
        if not is_finite(average):
            raise UpdateError("the average of the local models is not finite (NaN or inf)")
        return average


def all_finite(vectors: torch.Tensor) -> torch.Tensor:
    """(..., P) float32 -> (...) whether all P numbers are finite, from their sum in float64, which no P float32 numbers overflow.

    >>> all_finite(torch.tensor([[3e38, 3e38], [torch.inf, -torch.inf], [0.0, torch.nan]])).tolist()
    [True, False, False]
    """
    return torch.isfinite(vectors.sum(dim=-1, dtype=torch.float64))


def is_finite(vector: torch.Tensor) -> bool:
    """Whether all numbers of a (P,) float32 vector are finite. On the CPU NumPy finds out, which is quicker to begin.

    >>> is_finite(torch.tensor([3e38, 3e38])), is_finite(torch.tensor([torch.inf, -torch.inf]))
    (True, False)
    """
    if vector.device.type != "cpu":
        return bool(all_finite(vector))
    with np.errstate(invalid="ignore"):  # inf - inf
        return math.isfinite(np.add.reduce(vector.numpy(), dtype=np.float64))


def _add_difference(
    total: torch.Tensor, model: torch.Tensor, first: torch.Tensor, weight: float
) -> None:
    """total += (model - first)·weight in float64, (P,) each, in pieces that stay in the processor's cache."""
    size = _IN_CACHE if total.device.type == "cpu" else len(total)
    difference = torch.empty_like(total[:size])
    for sums, own, reference in zip(
        *(torch.split(vector, size) for vector in (total, model, first)), strict=True
    ):
        piece = difference[: len(sums)].copy_(own)
        sums += piece.sub_(reference).mul_(weight)
