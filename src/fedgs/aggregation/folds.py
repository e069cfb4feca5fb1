"""Folds that reduce local models block by block: weighted mean, weighted sum, and all rows."""

import math
from dataclasses import dataclass, replace

import numpy as np
import torch

from fedgs.aggregation.tree import Node, added, merged, root
from fedgs.arrays import FloatArray, IntArray
from fedgs.errors import UpdateError

__all__ = ["Rows", "WeightedMean", "WeightedSum", "all_finite", "is_finite", "weighted_rows"]


@dataclass(frozen=True, eq=False)
class WeightedMean:
    """The fold sum_k w_k·theta_k.

    It is accumulated in float64 as theta_first + sum_k w_k·(theta_k - theta_first). In this form
    the average of identical local models is exactly that model. Models are added in the clients'
    order, in blocks that a fixed tree joins (`fedgs.aggregation.tree`), so the result does not
    depend on how they arrived, nor on where blocks were added. Cost: O(m·P) time; a float32 and a
    float64 vector of P numbers for each of at most 1 + log2(m / 32) nodes.

    Attributes:
        weights: (m,) in the order of the request's clients, sum 1.
        begin: place of the first of these clients in the cohort, a multiple of 32.

    >>> mean = WeightedMean(np.array([0.25, 0.75]))
    >>> mean.finish(mean.add(mean.start(), np.array([4, 7]), torch.tensor([[0.0], [4.0]])))
    tensor([3.])
    """

    weights: FloatArray
    begin: int = 0

    def start(self) -> tuple[Node, ...]:
        """The accumulator of no models."""
        return ()

    def add(
        self, accumulator: tuple[Node, ...], clients: IntArray, models: torch.Tensor
    ) -> tuple[Node, ...]:
        """Add the (b, P) models of the next b clients."""
        return _added(self, accumulator, len(clients), models)

    def part(self, start: int, stop: int) -> "WeightedMean":
        """The fold of the clients start..stop-1."""
        return replace(self, weights=self.weights[start:stop], begin=self.begin + start)

    def merge(self, one: tuple[Node, ...], other: tuple[Node, ...]) -> tuple[Node, ...]:
        """The sums of both, of which the second ones follow the first."""
        return merged(one, other)

    def finish(self, accumulator: tuple[Node, ...]) -> torch.Tensor:
        """The (P,) float32 average.

        Raises:
            UpdateError: a model was missing, or the average is not finite.
        """
        return _finished(self, accumulator)


@dataclass(frozen=True, eq=False)
class WeightedSum:
    """The fold theta + sum_k w_k·(theta_k - theta), for weights of any sum.

    It is accumulated as `WeightedMean` is, with theta in place of the first model.

    Attributes:
        weights: (m,) in the order of the request's clients.
        parameters: (P,) float32, theta.
        begin: see `WeightedMean`.

    >>> fold = WeightedSum(np.array([0.5, 1.0]), torch.tensor([1.0]))
    >>> fold.finish(fold.add(fold.start(), np.array([4, 7]), torch.tensor([[3.0], [2.0]])))
    tensor([3.])
    """

    weights: FloatArray
    parameters: torch.Tensor
    begin: int = 0

    def start(self) -> tuple[Node, ...]:
        """The accumulator of no models."""
        return ()

    def add(
        self, accumulator: tuple[Node, ...], clients: IntArray, models: torch.Tensor
    ) -> tuple[Node, ...]:
        """Add the (b, P) models of the next b clients."""
        return _added(self, accumulator, len(clients), models, self.parameters)

    def part(self, start: int, stop: int) -> "WeightedSum":
        """The fold of the clients start..stop-1."""
        return replace(self, weights=self.weights[start:stop], begin=self.begin + start)

    def merge(self, one: tuple[Node, ...], other: tuple[Node, ...]) -> tuple[Node, ...]:
        """The sums of both, of which the second ones follow the first."""
        return merged(one, other)

    def finish(self, accumulator: tuple[Node, ...]) -> torch.Tensor:
        """The (P,) float32 sum.

        Raises:
            UpdateError: a model was missing, or the sum is not finite.
        """
        if len(self.weights) == 0:
            return self.parameters
        return _finished(self, accumulator)


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

    def part(self, start: int, stop: int) -> "Rows":
        """The fold of the clients start..stop-1."""
        return self

    def merge(
        self, one: tuple[torch.Tensor, ...], other: tuple[torch.Tensor, ...]
    ) -> tuple[torch.Tensor, ...]:
        """The models of both."""
        return (*one, *other)

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


def _added(
    fold: WeightedMean | WeightedSum,
    nodes: tuple[Node, ...],
    count: int,
    models: torch.Tensor,
    first: torch.Tensor | None = None,
) -> tuple[Node, ...]:
    """The nodes with the models of the next clients."""
    done = sum(node.count for node in nodes)
    weights = fold.weights[done : done + count].tolist()
    return added(nodes, models, weights, begin=fold.begin, first=first)


def _finished(fold: WeightedMean | WeightedSum, nodes: tuple[Node, ...]) -> torch.Tensor:
    """The (P,) float32 result of all models."""
    done, wanted = sum(node.count for node in nodes), len(fold.weights)
    if done != wanted or not nodes:
        raise UpdateError(f"the average needs {wanted} local models, got {done}")
    whole = root(nodes)
    average: torch.Tensor = (whole.first + whole.total).float()
    if not is_finite(average):
        raise UpdateError("the average of the local models is not finite (NaN or inf)")
    return average
