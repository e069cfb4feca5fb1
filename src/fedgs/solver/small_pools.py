"""Pools of up to 64 clients: the steps of `reduction` and `search` on small kernels.

In such pools, the overhead of NumPy's calls and of allocating arrays exceeds the work. So the
kernels are called directly, and each thread reuses its workspace.
"""

import threading
from math import comb
from types import ModuleType

import numpy as np

from fedgs.arrays import FloatArray, FloatMatrix, IntArray
from fedgs.compiling import load_kernels
from fedgs.graph.matrix_distances import MatrixDistances
from fedgs.solver import limits, tree
from fedgs.solver.plain import XorshiftState
from fedgs.solver.problem import SelectionProblem
from fedgs.solver.reduction import Reduced
from fedgs.solver.search import Incumbent, SearchPlan

__all__ = ["SmallPoolSteps", "small_pool_steps"]


class SmallPoolSteps:
    """The steps for pools of up to 64 clients, with a workspace that no two threads share.

    Attributes:
        small: the module `kernels.small`.
        search: the module `kernels.search`.
        ints: see `kernels.search.workspace`, as `reals` and `near`.
        forest_workspace: see `tree.workspace`.
    """

    def __init__(self, small: ModuleType, search: ModuleType) -> None:
        self.small, self.search = small, search
        most = limits.MAX_CLIENTS_SMALL_POOL
        self.ints, self.reals, self.near = search.workspace(most, most)
        self.forest_workspace = tree.workspace(
            np.zeros(most, dtype=np.int64), np.full(most, most), most
        )

    def reduced(self, problem: SelectionProblem, state: XorshiftState) -> Reduced:
        """As `reduction.reduced`, for an order of the clients that is drawn here."""
        size, weight, largest = problem.cohort_size, problem.pair_weight, problem.distances.maximum
        order, gains = problem.pool.copy(), np.empty(len(problem.pool))
        spread = (size - 1) * (weight * largest)
        if not self.small.begin(order, problem.balance_penalty, weight, spread, state, gains):
            return Reduced(order[:0], order, gains, size)
        cohort = np.empty(size, dtype=np.int64)
        taken, count = self.small.narrow(
            _matrix(problem), order, gains, weight, largest, cohort, self.reals
        )
        return Reduced(cohort[:taken], order[:count], gains[:count], size - taken)

    def best(
        self, problem: SelectionProblem, clients: IntArray, gains: FloatArray, size: int
    ) -> IntArray:
        """The positions of the best choice, by enumerating all."""
        chosen, equal = np.arange(size), 1e-12 * size * size * problem.distances.maximum
        self.small.try_all(_matrix(problem), clients, gains, chosen, equal, self.ints, self.reals)
        return chosen

    def searched(
        self,
        distances: MatrixDistances,
        clients: IntArray,
        *,
        gains: FloatArray,
        size: int,
        given: IntArray | None,
        bound: float,
        plan: SearchPlan,
        state: XorshiftState,
    ) -> Incumbent:
        """As `search`, `tighten` and `settle_ties` of the module `search`, in this order."""
        matrix = distances.matrix
        tolerance = limits.TOLERANCE_OF_LARGEST_DISTANCE * distances.maximum
        chosen = np.full(size, -1) if given is None else given
        value, _ = self.search.search(
            matrix, clients, gains, chosen, -np.inf,
            3, plan.rounds, plan.idle, plan.rows, plan.numbers,
            state, bound, tolerance, self.ints, self.reals, self.near,
        )  # fmt: skip
        incumbent = Incumbent(chosen, value, bound)
        if not incumbent.proven(tolerance):
            row_bound = self.small.row_bound(matrix, clients, gains, size, self.reals, self.near)
            incumbent.bound = min(bound, row_bound)
        tie = limits.TIE_OF_TOLERANCE * tolerance
        self.search.shuffle_ties(matrix, clients, gains, chosen, state, tie, self.ints, self.reals)
        return incumbent

    def conclude(self, problem: SelectionProblem, cohort: IntArray) -> float:
        """Sort the cohort in place; its objective."""
        penalty, weight = problem.balance_penalty, problem.pair_weight
        return float(self.small.conclude(_matrix(problem), penalty, weight, cohort))


def _matrix(problem: SelectionProblem) -> FloatMatrix:
    distances = problem.distances
    assert isinstance(distances, MatrixDistances)  # `small_pool_steps` returns None for others
    return distances.matrix


class _Thread(threading.local):
    """What each thread keeps from call to call."""

    steps: SmallPoolSteps | None = None


_thread = _Thread()


def small_pool_steps(problem: SelectionProblem) -> SmallPoolSteps | None:
    """The steps for small pools, or None where the general path is taken.

    That is the case in larger pools, for distances without a matrix, without numba, and where
    there are so few choices, or so simple ones, that nothing should be compiled for them.
    """
    count, distances = len(problem.pool), problem.distances
    if (
        count > limits.MAX_CLIENTS_SMALL_POOL
        or not isinstance(distances, MatrixDistances)
        or comb(count, problem.cohort_size) <= limits.MAX_CHOICES_ENUMERATED
        or not problem.pair_weight * distances.maximum > 0
    ):
        return None
    small = load_kernels("fedgs.solver.kernels.small")
    search = load_kernels("fedgs.solver.kernels.search")
    if small is None or search is None:
        return None
    if _thread.steps is None:
        _thread.steps = SmallPoolSteps(small, search)
    return _thread.steps
