"""A distance matrix that is checked once and then used in every round."""

import weakref
from dataclasses import replace
from functools import cached_property
from math import isinf

import numpy as np

from fedgs.arrays import FloatMatrix, IntArray, kernel_alias
from fedgs.graph.distance import as_lengths, check_lengths
from fedgs.graph.tree import SpanningForest, minimum_spanning_forest, shortfall

__all__ = ["MatrixDistances", "checked_once"]

_SMALL = 64  # clients

# id of a matrix -> the matrix (weakly), its largest distance, its forest. Nothing here keeps a
# matrix alive.
_known: dict[int, tuple["weakref.ref[FloatMatrix]", float, SpanningForest | None]] = {}


class MatrixDistances:
    """Distances held as a matrix; checking it (O(N²)) and growing its spanning tree happen once, not in every round.

    Args:
        matrix: (N, N) H, symmetric, >= 0, 0 on the diagonal. inf means unreachable and counts as
            the largest finite distance (1 where there is none). Kept without a copy where it is
            finite, float64 and C-ordered: do not write into it.

    Raises:
        GraphError: not a matrix of numbers, not square, asymmetric, negative, NaN or a diagonal
            that is not 0.

    >>> distances = MatrixDistances(np.array([[0.0, 2.0, np.inf], [2.0, 0.0, 1.0], [np.inf, 1.0, 0.0]]))
    >>> distances.maximum, distances.rows(np.array([0])).tolist()
    (2.0, [[0.0, 2.0, 2.0]])
    """

    def __init__(self, matrix: FloatMatrix) -> None:
        usual = (
            type(matrix) is np.ndarray
            and matrix.dtype == np.float64
            and matrix.flags.c_contiguous
            and matrix.flags.aligned
        )
        lengths = kernel_alias(
            matrix if usual else as_lengths(matrix, "distance")
        ).view()  # nobody else can change its shape
        largest = _checked_maximum(lengths)
        if isinf(largest):
            finite = np.isfinite(lengths)
            largest = float(lengths.max(initial=0.0, where=finite)) or 1.0
            lengths = np.where(finite, lengths, largest)
        self.matrix: FloatMatrix = lengths
        self.maximum: float = largest

    @classmethod
    def _trusted(
        cls, matrix: FloatMatrix, maximum: float, tree: SpanningForest | None
    ) -> "MatrixDistances":
        """One that has been checked before."""
        distances = cls.__new__(cls)
        distances.matrix, distances.maximum, distances.tree = (
            kernel_alias(matrix).view(),
            maximum,
            tree,
        )
        return distances

    def __len__(self) -> int:
        return len(self.matrix)

    def rows(self, clients: IntArray) -> FloatMatrix:
        """(k, N) distances from each of k clients."""
        return np.asarray(self.matrix[clients])

    def block(self, rows: IntArray, columns: IntArray) -> FloatMatrix:
        """(k, l) distances between two sets of clients."""
        if len(self.matrix) <= _SMALL:  # whole rows first: twice as fast
            return np.asarray(self.matrix.take(rows, axis=0).take(columns, axis=1))
        return np.asarray(self.matrix[rows[:, None], columns])

    @cached_property
    def tree(self) -> SpanningForest | None:
        """The minimum spanning forest of the distances below the largest, or None where its metric does not dominate them.

        Pairs in different trees have the largest distance. Shortest-path distances are always
        dominated; others need not be.
        """
        whole = minimum_spanning_forest(self.matrix)
        cut = whole.above >= self.maximum * (1 - 1e-12)
        grown = SpanningForest(
            np.where(cut, -1, whole.parent), np.where(cut, 0.0, whole.above), whole.order
        )
        over = shortfall(self.matrix, grown)
        return replace(grown, shortfall=max(over, 0.0)) if over <= 1e-9 * self.maximum else None


def _checked_maximum(lengths: FloatMatrix) -> float:
    """The largest distance; `check_lengths` looks for the fault where a quick look does not find all in order. O(N²)."""
    square = lengths.ndim == 2 and lengths.shape[0] == lengths.shape[1]
    # NaN differs from itself, so a matrix that equals its transpose holds none.
    if not (
        square
        and lengths.size > 0
        and np.count_nonzero(lengths == lengths.T) == lengths.size
        and np.count_nonzero(lengths.diagonal()) == 0
        and np.minimum.reduce(lengths, axis=None) >= 0
    ):
        check_lengths(lengths, "distance")
    return float(np.maximum.reduce(lengths, axis=None, initial=0.0))


def checked_once(matrix: FloatMatrix) -> MatrixDistances:
    """`MatrixDistances` of a matrix that nobody writes into: the check and the forest are remembered as long as it lives.

    For whoever meets the same array in every round and has nowhere to keep an object, such as a
    sampler with its memory.

    Raises:
        GraphError: as `MatrixDistances`.

    >>> matrix = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> checked_once(matrix).tree is checked_once(matrix).tree
    True
    """
    key = id(matrix)
    known = _known.get(key)
    if known is not None and known[0]() is matrix:
        return MatrixDistances._trusted(matrix, known[1], known[2])
    distances = MatrixDistances(matrix)
    if np.shares_memory(distances.matrix, matrix):
        forget = weakref.ref(matrix, lambda _: _known.pop(key, None))
        _known[key] = (forget, distances.maximum, distances.tree)
    return distances
