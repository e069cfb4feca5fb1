"""The selection problem of a round, and what a solver answers."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from fedgs.arrays import FloatArray, FloatMatrix, IntArray
from fedgs.errors import SelectionError

__all__ = ["Distances", "Effort", "SelectionProblem", "Solution", "Status", "objective"]

Effort = Literal["fast", "default", "thorough"]
Status = Literal["optimal", "bounded", "feasible", "time_limit"]


@runtime_checkable
class Distances(Protocol):
    """Distances that are not held as a matrix: rows on demand, the largest entry, a spanning tree whose metric dominates them."""

    maximum: float
    tree: Any

    def __len__(self) -> int: ...
    def rows(self, clients: IntArray) -> FloatMatrix: ...


@dataclass(frozen=True, eq=False)
class SelectionProblem:
    """Maximise pair_weight * sum over pairs i<j in S of h_ij - sum over k in S of z_k, over S within `available`, |S| = cohort_size.

    Attributes:
        distance: (N, N) matrix H, symmetric, >= 0, 0 on the diagonal, inf for unreachable; or `Distances`.
        balance_penalty: (N,) z_k (SPEC: 2 (v_k - mean(v) - M/N) + 1).
        cohort_size: m, 1 <= m <= number of available clients.
        pair_weight: c >= 0 of one unordered pair (`paper` scale: 2 alpha / N).
        available: distinct indices, or None for all clients.

    Raises:
        SelectionError: one sentence for a matrix that is not square, asymmetric, negative or NaN, counts of the wrong length, an
            unknown or doubled client, a cohort larger than the pool, a negative weight.

    >>> SelectionProblem(np.array([[0.0, 1.0], [1.0, 0.0]]), np.zeros(2), cohort_size=1, pair_weight=1.0).pool
    array([0, 1])
    """

    distance: FloatMatrix | Distances
    balance_penalty: FloatArray
    cohort_size: int
    pair_weight: float
    available: IntArray | None = None

    @cached_property
    def pool(self) -> IntArray:
        """Ascending indices of the clients that can be selected."""
        if self.available is None:
            return np.arange(len(self.balance_penalty))
        return np.sort(np.asarray(self.available, dtype=np.int64))

    def __post_init__(self) -> None:
        if not 1 <= self.cohort_size <= len(self.pool):
            raise SelectionError(f"cohort_size must be in 1..{len(self.pool)} (available clients), got {self.cohort_size}")


@dataclass(frozen=True, eq=False)
class Solution:
    """A cohort and how good it is.

    Attributes:
        cohort: (m,) ascending indices.
        objective: its value.
        upper_bound: no cohort has a larger value.
        status: "optimal" (proven), "bounded" (a finite bound is known, not met), "feasible" (no bound worth the name),
            "time_limit" (the wall-clock limit fired: the best found until then).
        seconds: wall-clock time.
    """

    cohort: IntArray
    objective: float
    upper_bound: float
    status: Status
    seconds: float


def objective(problem: SelectionProblem, cohort: IntArray) -> float:
    """J(S) of a cohort, computed plainly: the referee of every solver.

    >>> H = np.array([[0.0, 3.0], [3.0, 0.0]])
    >>> objective(SelectionProblem(H, np.array([1.0, 1.0]), cohort_size=2, pair_weight=2.0), np.array([0, 1]))
    4.0
    """
    rows = problem.distance if isinstance(problem.distance, np.ndarray) else None
    block = rows[np.ix_(cohort, cohort)] if rows is not None else problem.distance.rows(cohort)[:, cohort]  # type: ignore[union-attr]
    pairs = float(np.sum(np.triu(block, 1)))
    return problem.pair_weight * pairs - float(np.sum(problem.balance_penalty[cohort]))
