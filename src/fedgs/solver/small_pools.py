"""Pools of a few clients: what `reduction` and `search` do, kernel by kernel.

There a dozen calls of NumPy, and even new arrays to work in, cost more than the search. So the
kernels are called without the layers between, and each thread keeps what they work in.
"""

import threading
from math import comb
from typing import Any

import numpy as np

from fedgs.arrays import FloatArray, FloatMatrix, IntArray
from fedgs.compiling import load_kernels
from fedgs.graph.matrix_distances import MatrixDistances
from fedgs.solver import limits, tree
from fedgs.solver.problem import SelectionProblem
from fedgs.solver.search import Found, Plan, workspace

__all__ = ["Few", "few_of"]

_threads = threading.local()


class Few:
    """The steps for pools of up to 64 clients, and what their kernels work in, which no two threads share.

    Attributes:
        small: the module `kernels.small`.
        ints, reals, near: see `search.workspace`.
        forest_workspace: see `tree.workspace`.
    """

    def __init__(self, small: Any) -> None:
        self.small = small
        most = limits.MAX_CLIENTS_SMALL_POOL
        self.ints, self.reals, self.near = workspace(most, most)
        self.forest_workspace = tree.workspace(
            np.zeros(most, dtype=np.int64), np.full(most, most), most
        )

    def reduced(
        self, problem: SelectionProblem, state: Any
    ) -> tuple[IntArray, IntArray, FloatArray, int]:
        """What `reduction.reduced` answers, for an order of the clients that is drawn here."""
        size, weight, largest = problem.cohort_size, problem.pair_weight, problem.distances.maximum
        order, gains = problem.pool.copy(), np.empty(len(problem.pool))
        if not self.small.begin(
            order, problem.balance_penalty, weight, (size - 1) * (weight * largest), state, gains
        ):
            return order[:0], order, gains, size
        cohort = np.empty(size, dtype=np.int64)
        taken, count = self.small.narrow(
            _matrix(problem), order, gains, weight, largest, cohort, self.reals
        )
        return cohort[:taken], order[:count], gains[:count], size - taken

    def best(
        self, problem: SelectionProblem, clients: IntArray, gains: FloatArray, size: int
    ) -> IntArray:
        """The positions of the best choice, by trying every one."""
        chosen, equal = np.arange(size), 1e-12 * size * size * problem.distances.maximum
        self.small.try_all(_matrix(problem), clients, gains, chosen, equal, self.ints, self.reals)
        return chosen

    def found(
        self, distances: MatrixDistances, clients: IntArray, *, gains: FloatArray, size: int,
        given: IntArray | None, bound: float, plan: Plan, state: Any,
    ) -> Found:  # fmt: skip
        """What `search`, `tighten` and `settle_ties` of the module `search` find."""
        kernels, matrix = load_kernels("fedgs.solver.kernels.search"), distances.matrix
        tolerance = limits.TOLERANCE_OF_LARGEST_DISTANCE * distances.maximum
        assert kernels is not None  # as the small ones are there
        chosen = np.full(size, -1) if given is None else given
        value, _ = kernels.search(
            matrix, clients, gains, chosen, -np.inf, 3, plan.rounds, plan.idle, plan.rows, plan.numbers, state, bound, tolerance,
            self.ints, self.reals, self.near,
        )  # fmt: skip
        found = Found(chosen, value, bound)
        if not found.proven(tolerance):
            found.bound = min(
                bound, self.small.row_bound(matrix, clients, gains, size, self.reals, self.near)
            )
        kernels.shuffle_ties(
            matrix,
            clients,
            gains,
            chosen,
            state,
            limits.TIE_OF_TOLERANCE * tolerance,
            self.ints,
            self.reals,
        )
        return found

    def conclude(self, problem: SelectionProblem, cohort: IntArray) -> float:
        """The objective of the cohort, which is put in ascending order."""
        return float(
            self.small.conclude(
                _matrix(problem), problem.balance_penalty, problem.pair_weight, cohort
            )
        )


def _matrix(problem: SelectionProblem) -> FloatMatrix:
    return problem.distances.matrix  # type: ignore[attr-defined, no-any-return]  # `few_of` has looked


def few_of(problem: SelectionProblem) -> Few | None:
    """None where the pool is larger, has so few choices that nothing need be compiled, or numba is not there."""
    count, distances = len(problem.pool), problem.distances
    if (
        count > limits.MAX_CLIENTS_SMALL_POOL
        or not isinstance(distances, MatrixDistances)
        or comb(count, problem.cohort_size) <= limits.MAX_CHOICES_ENUMERATED
    ):
        return None
    small = (
        load_kernels("fedgs.solver.kernels.small")
        if problem.pair_weight * distances.maximum > 0
        else None
    )
    if small is None:
        return None
    if not hasattr(_threads, "few"):
        _threads.few = Few(small)
    return _threads.few  # type: ignore[no-any-return]
