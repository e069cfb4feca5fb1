"""The selection problem of a round, and its solution."""

from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from numbers import Real
from typing import Literal, Protocol, cast, runtime_checkable

import numpy as np

from fedgs.arrays import AnyArray, FloatArray, FloatMatrix, IntArray
from fedgs.errors import GraphError, SelectionError
from fedgs.graph.landmarks import LandmarkDistances
from fedgs.graph.matrix_distances import MatrixDistances
from fedgs.graph.tree import SpanningForest
from fedgs.solver import limits

__all__ = [
    "Distances",
    "Effort",
    "SelectionProblem",
    "Solution",
    "Status",
    "as_vector",
    "block_of",
    "check_available",
    "objective",
    "rows_of",
]


Effort = Literal["fast", "default", "thorough"]
Status = Literal["optimal", "bounded", "feasible", "time_limit"]


@runtime_checkable
class Distances(Protocol):
    """Distances that are not held as a matrix.

    `len` is the number N of clients.

    Attributes:
        maximum: the largest distance.
    """

    maximum: float

    @property
    def tree(self) -> SpanningForest | None:
        """A spanning forest whose metric dominates the distances, or None."""

    def __len__(self) -> int: ...

    def rows(self, clients: IntArray) -> FloatMatrix:
        """(k, N) distances from each of k clients."""


@dataclass(frozen=True, eq=False)
class SelectionProblem:
    """Select a cohort S that maximises the objective J(S).

    J(S) = pair_weight · sum over pairs i<j in S of h_ij - sum over k in S of z_k, for S within
    `available` and |S| = cohort_size.

    Penalties and indices are private copies. A matrix of distances is not copied: do not write into
    it.

    Attributes:
        distance: (N, N) matrix H, symmetric, >= 0, 0 on the diagonal, inf for unreachable (it
            counts as the largest finite distance); or `Distances`. A matrix is checked each time,
            O(N²): for many rounds, make one `MatrixDistances` of it.
        balance_penalty: (N,) z_k, see the function `balance_penalty`; at most 1e100 in size.
        cohort_size: m, 1 <= m <= number of available clients.
        pair_weight: c of one unordered pair (`paper` scale: 2 alpha / N), 0 or at least 1e-100.
        available: distinct indices, or None for all clients.

    Raises:
        SelectionError: an argument that is not a matrix or a vector of numbers, a matrix that is
            not square, asymmetric, negative or NaN, penalties of the wrong length, an unknown or
            repeated client, a cohort larger than the pool, a negative weight.

    >>> line = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> SelectionProblem(line, np.zeros(2), cohort_size=1, pair_weight=1.0).pool
    array([0, 1])
    """

    distance: FloatMatrix | Distances
    balance_penalty: FloatArray
    cohort_size: int
    pair_weight: float
    available: IntArray | None = None

    @cached_property
    def pool(self) -> IntArray:
        """Ascending indices of the clients that can be selected; do not write into it."""
        if self.available is None:
            return np.arange(len(self.balance_penalty))
        clients = np.array(self.available, dtype=np.int64)  # a copy, which no caller can change
        return clients if _ascending(clients) else np.sort(clients)

    @cached_property
    def distances(self) -> Distances:
        """The distances behind one interface, without inf."""
        if isinstance(self.distance, MatrixDistances):
            return self.distance
        if callable(getattr(self.distance, "rows", None)):
            return _checked(cast(Distances, self.distance))
        try:
            return MatrixDistances(cast(FloatMatrix, self.distance))
        except GraphError as error:
            raise SelectionError(str(error)) from None

    def _is_pool(self, available: IntArray, count: int) -> bool:
        """Whether `available` has the form of `pool` already; if so, set `pool` to a copy of it.

        This is the usual case, and the cheapest check of it.
        """
        usual = (
            isinstance(available, np.ndarray)
            and available.ndim == 1
            and available.dtype == np.int64
            and len(available) > 0
        )
        if not (usual and available[0] >= 0 and available[-1] < count and _ascending(available)):
            return False
        # A `cached_property` keeps its value in the instance's `__dict__` under its own name, so
        # `pool` is not computed again. `test_a_pool_in_order_is_copied_once` guards this.
        self.__dict__["pool"] = available.copy()
        return True

    def _convert(self) -> None:
        """Convert the numbers into the one form that kernels are compiled for.

        In other forms, sums of float32 and products of int8 would be wrong. The class is frozen
        for its users, hence `object.__setattr__`.
        """
        penalty = as_vector(self.balance_penalty, "balance_penalty")
        object.__setattr__(self, "balance_penalty", np.array(penalty, dtype=np.float64, order="C"))
        if type(self.cohort_size) is not int and isinstance(self.cohort_size, np.integer):
            object.__setattr__(self, "cohort_size", int(self.cohort_size))
        if type(self.pair_weight) is not float:
            if not isinstance(self.pair_weight, Real):
                raise SelectionError(f"pair_weight must be a number >= 0, got {self.pair_weight!r}")
            object.__setattr__(self, "pair_weight", float(self.pair_weight))

    def __post_init__(self) -> None:
        count = len(self.distances)
        self._convert()
        _check_penalty(self.balance_penalty, count)
        if self.available is not None and not self._is_pool(self.available, count):
            check_available(self.available, count)
        size, most = self.cohort_size, len(self.pool)
        if not isinstance(size, int) or not 1 <= size <= most:
            raise SelectionError(
                f"cohort_size must be in 1..{most} (available clients), got {size}"
            )
        total = size * size * self.distances.maximum
        if not isfinite(total):
            raise SelectionError(
                "distances must be finite, also summed over a cohort, "
                f"got up to {self.distances.maximum}"
            )
        if not (self.pair_weight >= 0 and isfinite(self.pair_weight * total)):
            raise SelectionError(
                "pair_weight must be >= 0 and finite, also times the distances, "
                f"got {self.pair_weight}"
            )
        if 0 < self.pair_weight < 1 / limits.MAX_PENALTY:
            raise SelectionError(
                f"pair_weight must be 0 or at least {1 / limits.MAX_PENALTY:g}, "
                f"got {self.pair_weight}"
            )


@dataclass(frozen=True, eq=False)
class Solution:
    """A cohort and how good it is.

    Attributes:
        cohort: (m,) ascending indices.
        objective: its value.
        upper_bound: no cohort has a larger value.
        status: "optimal" (proven), "bounded" (a finite bound is known, not met), "feasible" (only
            the trivial bound is known), "time_limit" (the wall-clock limit fired: the best cohort
            found until then).
        seconds: wall-clock time.
    """

    cohort: IntArray
    objective: float
    upper_bound: float
    status: Status
    seconds: float


def objective(problem: SelectionProblem, cohort: IntArray) -> float:
    """J(S) of a cohort, computed from its definition: the referee of every solver.

    >>> H = np.array([[0.0, 3.0], [3.0, 0.0]])
    >>> problem = SelectionProblem(H, np.array([1.0, 1.0]), cohort_size=2, pair_weight=2.0)
    >>> objective(problem, np.array([0, 1]))
    4.0
    """
    linear = float(np.add.reduce(problem.balance_penalty[cohort]))
    if problem.pair_weight == 0:
        return 0.0 - linear  # never -0.0
    block = block_of(problem.distances, cohort, cohort)
    return problem.pair_weight * (float(np.add.reduce(block, axis=None)) / 2) - linear


def block_of(distances: Distances, rows: IntArray, columns: IntArray) -> FloatMatrix:
    """(k, l) distances between two sets of clients, without copying a matrix's rows."""
    if isinstance(distances, MatrixDistances | LandmarkDistances):
        return distances.block(rows, columns)
    return rows_of(distances, rows)[:, columns]


def rows_of(distances: Distances, clients: IntArray) -> FloatMatrix:
    """(k, N) distances from each of k clients as float64, checked: any class may return them.

    Raises:
        SelectionError: another shape, or entries that are negative, infinite or NaN.
    """
    rows = np.asarray(as_vector(distances.rows(clients), "a row of distances"), dtype=np.float64)
    if rows.shape != (len(clients), len(distances)):
        raise SelectionError(
            f"rows of distances must have shape {(len(clients), len(distances))}, got {rows.shape}"
        )
    if not (rows.size == 0 or (rows.min() >= 0 and rows.max() < np.inf)):
        raise SelectionError(
            f"distances must be finite and >= 0, got rows with {rows.min()}..{rows.max()}"
        )
    return rows


def as_vector(values: object, name: str) -> AnyArray:
    """An array of real numbers, without a copy if it is one already. Its shape is not checked.

    Raises:
        SelectionError: entries of different lengths, or entries that are no numbers.

    >>> as_vector([1, None], "sampling_counts")
    Traceback (most recent call last):
    fedgs.errors.SelectionError: sampling_counts must be a 1-d array of numbers, got objects
    """
    if type(values) is np.ndarray and values.dtype.kind in "biuf":
        return values
    try:
        vector = np.asarray(values)
    except (TypeError, ValueError):
        raise SelectionError(
            f"{name} must be a 1-d array of numbers, got entries of different lengths"
        ) from None
    if vector.dtype.kind not in "biuf":
        kind = "objects" if vector.dtype.kind == "O" else vector.dtype
        raise SelectionError(f"{name} must be a 1-d array of numbers, got {kind}")
    return vector


def check_available(available: IntArray, count: int) -> None:
    """Check that `available` holds distinct indices in 0..count-1, at least one. O(a + N).

    Raises:
        SelectionError: it does not.

    >>> check_available(np.array([0, 7]), 3)
    Traceback (most recent call last):
    fedgs.errors.SelectionError: available must hold client indices in 0..2, got 7
    """
    indices = as_vector(available, "available")
    if indices.ndim != 1 or not (indices.dtype.kind in "iu" or len(indices) == 0):
        raise SelectionError(
            "available must be a 1-d array of client indices, "
            f"got {indices.dtype} of shape {indices.shape}"
        )
    if len(indices) == 0:
        raise SelectionError("available must hold at least one client, got none")
    if indices.min() < 0 or indices.max() >= count:
        outside = indices[(indices < 0) | (indices >= count)][0]
        raise SelectionError(f"available must hold client indices in 0..{count - 1}, got {outside}")
    times = np.bincount(indices, minlength=1)
    if times.max() > 1:
        raise SelectionError(
            f"available must hold distinct clients, got {int(times.argmax())} more than once"
        )


def _ascending(indices: IntArray) -> bool:
    """Whether every index is larger than the one before: the indices are distinct then."""
    return int(np.count_nonzero(indices[1:] > indices[:-1])) == len(indices) - 1


def _checked(distances: Distances) -> Distances:
    maximum = getattr(distances, "maximum", None)
    if not (isinstance(maximum, int | float | np.number) and isfinite(maximum) and maximum >= 0):
        raise SelectionError(f"distances must have a finite maximum >= 0, got {maximum!r}")
    return distances


def _check_penalty(penalty: FloatArray, count: int) -> None:
    if np.shape(penalty) != (count,):
        raise SelectionError(
            f"balance_penalty must have shape ({count},), one a client, got {np.shape(penalty)}"
        )
    if np.count_nonzero(np.abs(penalty) <= limits.MAX_PENALTY) < count:
        wrong = penalty[~(np.abs(penalty) <= limits.MAX_PENALTY)][0]
        raise SelectionError(
            f"balance_penalty must be finite, and at most {limits.MAX_PENALTY:g} in size, "
            f"got {wrong}"
        )
