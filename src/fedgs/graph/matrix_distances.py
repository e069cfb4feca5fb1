"""Distances held as a matrix that is checked once and used in every round."""

import weakref
from dataclasses import replace
from functools import cached_property
from math import isinf
from typing import NamedTuple

import numpy as np

from fedgs.arrays import FloatMatrix, IntArray, kernel_alias
from fedgs.graph.distance import as_lengths, check_lengths
from fedgs.graph.tree import SpanningForest, minimum_spanning_forest, shortfall

__all__ = ["MatrixDistances", "checked_once"]

# Up to this number of clients, whole rows are taken first.
_SMALL = 64


class _Checked(NamedTuple):
    """The result of an earlier check of a matrix, without a reference that keeps it alive."""

    matrix: "weakref.ref[FloatMatrix]"
    maximum: float
    tree: SpanningForest | None


# id of a matrix -> its check. Arrays cannot be hashed, hence cannot be keys of a weak dictionary.
# Two fine points: NumPy arrays accept weak references, whose callback removes the entry with the
# array; and an id may be reused after that, so an entry counts only for the array it refers to.
_known: dict[int, _Checked] = {}


class MatrixDistances:
    """Distances held as a matrix; its check (O(N²)) and its spanning tree are computed once.

    Args:
        matrix: (N, N) H, symmetric, >= 0, 0 on the diagonal. inf means unreachable and counts as
            the largest finite distance (1 if there is none). A matrix that is finite, float64 and
            C-ordered is not copied: do not write into it.

    Raises:
        GraphError: not a matrix of numbers, not square, asymmetric, negative, NaN or a diagonal
            that is not 0.

    >>> matrix = np.array([[0.0, 2.0, np.inf], [2.0, 0.0, 1.0], [np.inf, 1.0, 0.0]])
    >>> distances = MatrixDistances(matrix)
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
        # A view, so that the shape cannot be changed from outside.
        lengths = kernel_alias(matrix if usual else as_lengths(matrix, "distance")).view()
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
        """The distances of a matrix that was checked before."""
        distances = cls.__new__(cls)
        distances.matrix = kernel_alias(matrix).view()
        distances.maximum = maximum
        distances.tree = tree
        return distances

    def __len__(self) -> int:
        return len(self.matrix)

    def rows(self, clients: IntArray) -> FloatMatrix:
        """(k, N) distances from each of k clients."""
        return np.asarray(self.matrix[clients])

    def block(self, rows: IntArray, columns: IntArray) -> FloatMatrix:
        """(k, l) distances between two sets of clients."""
        if len(self.matrix) <= _SMALL:  # twice as fast for small matrices
            return np.asarray(self.matrix.take(rows, axis=0).take(columns, axis=1))
        return np.asarray(self.matrix[rows[:, None], columns])

    @cached_property
    def tree(self) -> SpanningForest | None:
        """The minimum spanning forest of the distances below the largest, if it dominates them.

        None if a distance exceeds the one along the forest. This does not happen for shortest-path
        distances. Pairs in different trees have the largest distance.
        """
        whole = minimum_spanning_forest(self.matrix)
        cut = whole.above >= self.maximum * (1 - 1e-12)
        grown = SpanningForest(
            np.where(cut, -1, whole.parent), np.where(cut, 0.0, whole.above), whole.order
        )
        over = shortfall(self.matrix, grown)
        return replace(grown, shortfall=max(over, 0.0)) if over <= 1e-9 * self.maximum else None


def _checked_maximum(lengths: FloatMatrix) -> float:
    """The largest distance, after a quick check of all; O(N²).

    If it fails, `check_lengths` finds the fault, or accepts an asymmetry that is rounding.
    """
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
    """`MatrixDistances` of a matrix that is not written to, with its check cached while it lives.

    For callers that get the same array in every round and cannot keep an object, such as a sampler
    with its memory.

    Raises:
        GraphError: as `MatrixDistances`.

    >>> matrix = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> checked_once(matrix).tree is checked_once(matrix).tree
    True
    """
    key = id(matrix)
    known = _known.get(key)
    if known is not None and known.matrix() is matrix:
        return MatrixDistances._trusted(matrix, known.maximum, known.tree)
    distances = MatrixDistances(matrix)
    if np.shares_memory(distances.matrix, matrix):
        reference = weakref.ref(matrix, lambda _: _known.pop(key, None))
        _known[key] = _Checked(reference, distances.maximum, distances.tree)
    return distances
