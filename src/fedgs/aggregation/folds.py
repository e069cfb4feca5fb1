"""Folds that reduce local models block by block: weighted mean, weighted sum, and all rows."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from fedgs.arrays import FloatArray, IntArray
from fedgs.errors import UpdateError

__all__ = ["Rows", "WeightedMean", "WeightedSum", "all_finite", "is_finite", "weighted_rows"]


_IN_CACHE = 1 << 16  # numbers

# The number of models so far, the first one, and the weighted sum of the differences to it.
_Accumulator = tuple[int, torch.Tensor | None, torch.Tensor | None]


@dataclass(frozen=True, eq=False)
class WeightedMean:
    """The fold sum_k w_k·theta_k.

    It is accumulated in float64 as theta_first + sum_k w_k·(theta_k - theta_first). In this form
    the average of identical local models is exactly that model. Models are added one at a time in
    the clients' order, so the result does not depend on how they were cut into blocks. Cost: O(m·P)
    time, two (P,) float64 vectors of memory.

    Attributes:
        weights: (m,) in the order of the request's clients, sum 1.

    >>> mean = WeightedMean(np.array([0.25, 0.75]))
    >>> mean.finish(mean.add(mean.start(), np.array([4, 7]), torch.tensor([[0.0], [4.0]])))
    tensor([3.])
    """

    weights: FloatArray

    def start(self) -> _Accumulator:
        """The accumulator of no models."""
        return (0, None, None)

    def add(
        self, accumulator: _Accumulator, clients: IntArray, models: torch.Tensor
    ) -> _Accumulator:
        """Add the (b, P) models of the next b clients."""
        done, first, total = accumulator
        if first is None or total is None:
            first = models[0].clone()
            total = torch.zeros_like(first, dtype=torch.float64)
        for row, weight in zip(
            models, self.weights[done : done + len(clients)].tolist(), strict=True
        ):
            _add_difference(total, row, first, weight)
        return (done + len(clients), first, total)

    def finish(self, accumulator: _Accumulator) -> torch.Tensor:
        """The (P,) float32 average.

        Raises:
            UpdateError: a model was missing, or the average is not finite.
        """
        done, first, total = accumulator
        if done != len(self.weights) or first is None or total is None:
            raise UpdateError(f"the average needs {len(self.weights)} local models, got {done}")
        average: torch.Tensor = (first + total).float()
        if not is_finite(average):
            raise UpdateError("the average of the local models is not finite (NaN or inf)")
        return average


@dataclass(frozen=True, eq=False)
class WeightedSum:
    """The fold theta + sum_k w_k·(theta_k - theta), for weights of any sum.

    It is accumulated as `WeightedMean` is, with theta in place of the first model.

    Attributes:
        weights: (m,) in the order of the request's clients.
        parameters: (P,) float32, theta.

    >>> fold = WeightedSum(np.array([0.5, 1.0]), torch.tensor([1.0]))
    >>> fold.finish(fold.add(fold.start(), np.array([4, 7]), torch.tensor([[3.0], [2.0]])))
    tensor([3.])
    """

    weights: FloatArray
    parameters: torch.Tensor

    def start(self) -> _Accumulator:
        """The accumulator of no models."""
        return (0, self.parameters, torch.zeros_like(self.parameters, dtype=torch.float64))

    def add(
        self, accumulator: _Accumulator, clients: IntArray, models: torch.Tensor
    ) -> _Accumulator:
        """Add the (b, P) models of the next b clients."""
        return WeightedMean(self.weights).add(accumulator, clients, models)

    def finish(self, accumulator: _Accumulator) -> torch.Tensor:
        """The (P,) float32 sum.

        Raises:
            UpdateError: a model was missing, or the sum is not finite.
        """
        return WeightedMean(self.weights).finish(accumulator)


@dataclass(frozen=True, eq=False)
class Rows:
    """The fold that keeps all local models, (m, P) float32.

    >>> fold = Rows()
    >>> fold.finish(fold.add(fold.start(), np.array([4]), torch.tensor([[3.0]])))
    tensor([[3.]])
    """

    def start(self) -> tuple[torch.Tensor, ...]:
        """The accumulator of no models."""
        return ()

    def add(
        self, accumulator: tuple[torch.Tensor, ...], clients: IntArray, models: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Add the (b, P) models of the next b clients; they are copied."""
        return (*accumulator, models.clone())

    def finish(self, accumulator: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """The (m, P) models."""
        return torch.cat(accumulator)


def weighted_rows(weights: FloatArray, rows: torch.Tensor) -> torch.Tensor:
    """The (P,) float64 sum of w_k times row k, added in the order of the rows.

    >>> weighted_rows(np.array([0.5, 2.0]), torch.tensor([[2.0], [3.0]]))
    tensor([7.], dtype=torch.float64)
    """
    total = torch.zeros(rows.shape[1], dtype=torch.float64, device=rows.device)
    for weight, row in zip(weights.tolist(), rows.double(), strict=True):
        total.add_(row, alpha=weight)
    return total


def all_finite(vectors: torch.Tensor) -> torch.Tensor:
    """(..., P) float32 -> (...) whether all P numbers are finite.

    They are if their sum in float64 is, since float32 numbers cannot overflow it.

    >>> all_finite(torch.tensor([[3e38, 3e38], [torch.inf, -torch.inf], [0.0, torch.nan]])).tolist()
    [True, False, False]
    """
    return torch.isfinite(vectors.sum(dim=-1, dtype=torch.float64))


def is_finite(vector: torch.Tensor) -> bool:
    """Whether all numbers of a (P,) float32 vector are finite.

    On the CPU this uses NumPy, whose calls have less overhead than PyTorch's.

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
    """Add (model - first)·weight to `total` in float64, (P,) each, in pieces that fit the cache."""
    size = _IN_CACHE if total.device.type == "cpu" else len(total)
    difference = torch.empty_like(total[:size])
    pieces = zip(*(torch.split(vector, size) for vector in (total, model, first)), strict=True)
    for total_piece, model_piece, first_piece in pieces:
        piece = difference[: len(total_piece)].copy_(model_piece)
        total_piece += piece.sub_(first_piece).mul_(weight)
