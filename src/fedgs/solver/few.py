"""Pools of a few clients: what `reduction` and `residual` do, kernel by kernel.

There a dozen calls of NumPy, and even new arrays to work in, cost more than the search. So the kernels are called without the
layers between, and each thread keeps what they work in.
"""

import threading
from math import comb
from typing import Any

import numpy as np

from fedgs.arrays import FloatArray, IntArray
from fedgs.compiling import load_kernels
from fedgs.graph.distances import MatrixDistances
from fedgs.solver.problem import SelectionProblem
from fedgs.solver.reduction import TINY
from fedgs.solver.residual import FEW, Found, Plan

__all__ = ["Few", "few_of"]

_threads = threading.local()


class Few:
    """The kernels for pools of up to 64 clients, and what they work in, which no two threads share.

    Attributes:
        steps, kernels: `small_kernels` and `kernels`.
        ints, reals, near: see `kernels.room`.
        forest_room: see `tree_kernels.room`.
    """

    def __init__(self, steps: Any, kernels: Any, tree_kernels: Any) -> None:
        self.steps, self.kernels = steps, kernels
        self.ints, self.reals, self.near = kernels.room(FEW, FEW)
        self.forest_room = tree_kernels.room(FEW, FEW)

    def reduced(self, problem: SelectionProblem, state: Any) -> tuple[IntArray, IntArray, FloatArray, int]:
        """What `reduction.reduced` answers, for an order of the clients that is drawn here."""
        size, weight, distances = problem.cohort_size, problem.pair_weight, problem.distances
        matrix, largest = distances.matrix, distances.maximum  # type: ignore[attr-defined]
        order, gains = problem.pool.copy(), np.empty(len(problem.pool))
        if not self.steps.begin(order, problem.balance_penalty, weight, (size - 1) * (weight * largest), state, gains):
            return order[:0], order, gains, size
        cohort = np.empty(size, dtype=np.int64)
        taken, count = self.steps.narrow(matrix, order, gains, weight, largest, cohort, self.reals)
        return cohort[:taken], order[:count], gains[:count], size - taken

    def best(self, problem: SelectionProblem, clients: IntArray, gains: FloatArray, size: int) -> IntArray:
        """The positions of the best choice, by trying every one."""
        chosen = np.empty(size, dtype=np.int64)
        matrix, largest = problem.distances.matrix, problem.distances.maximum  # type: ignore[attr-defined]
        self.steps.try_all(matrix, clients, gains, chosen, 1e-12 * size * size * largest, self.ints, self.reals)
        return chosen

    def found(
        self, distances: MatrixDistances, clients: IntArray, gains: FloatArray, given: IntArray | None, bound: float, plan: Plan,
        size: int, state: Any,
    ) -> Found:  # fmt: skip
        """What `search`, `tighten` and `settle_ties` of `residual` find."""
        matrix, tolerance = distances.matrix, 1e-9 * distances.maximum
        chosen = np.full(size, -1) if given is None else given
        value, _ = self.kernels.search(
            matrix, clients, gains, chosen, -np.inf, 3, plan.rounds, plan.idle, plan.rows, plan.style, state, bound, tolerance,
            self.ints, self.reals, self.near,
        )  # fmt: skip
        found = Found(chosen, value, bound)
        if not found.proven(tolerance):
            found.bound = min(bound, self.steps.row_bound(matrix, clients, gains, size, self.reals, self.near))
        self.kernels.shuffle_ties(matrix, clients, gains, chosen, state, 1e-3 * tolerance, self.ints, self.reals)
        return found

    def conclude(self, problem: SelectionProblem, cohort: IntArray) -> float:
        """The objective of the cohort, which is put in ascending order."""
        matrix = problem.distances.matrix  # type: ignore[attr-defined]
        return float(self.steps.conclude(matrix, problem.balance_penalty, problem.pair_weight, cohort))


def few_of(problem: SelectionProblem) -> Few | None:
    """None where the pool is larger, has so few choices that nothing need be compiled, or numba is not there."""
    count, distances = len(problem.pool), problem.distances
    if count > FEW or not isinstance(distances, MatrixDistances) or comb(count, problem.cohort_size) <= TINY:
        return None
    steps = load_kernels("fedgs.solver.small_kernels") if problem.pair_weight * distances.maximum > 0 else None
    if steps is None:
        return None
    if not hasattr(_threads, "few"):
        _threads.few = Few(steps, load_kernels("fedgs.solver.kernels"), load_kernels("fedgs.solver.tree_kernels"))
    return _threads.few  # type: ignore[no-any-return]
