"""Distances of many clients through a few landmarks, without a matrix of all pairs."""

from dataclasses import replace
from functools import cached_property

import numpy as np

from fedgs.arrays import FloatArray, FloatMatrix, IntArray
from fedgs.errors import GraphError
from fedgs.graph.distance import check_lengths
from fedgs.graph.tree import SpanningForest, minimum_spanning_forest, shortfall

__all__ = ["LandmarkDistances", "largest_distance"]


class LandmarkDistances:
    """The landmark metric: shortest paths among L landmarks, and one edge for each other client.

    Client i has a landmark a(i) and an edge of length e_i to it. For i≠j

        h_ij = e_i + H_L[a(i), a(j)] + e_j

    A landmark is its own landmark, with e = 0. Each h_ij is the length of a path in the graph of
    all clients, hence at least the shortest one. Pairs without a path have the largest finite
    distance, 1 if there is none. The arrays are not copied: do not write into them.

    Args:
        landmarks: (L,) the clients that are landmarks, distinct.
        nearest: (N,) a(i) as a place in `landmarks`.
        pendant: (N,) e_i >= 0, inf for no edge.
        between: (L, L) H_L, symmetric, >= 0, 0 on the diagonal, inf for no path.

    Raises:
        GraphError: arrays that do not fit together, or lengths that are not allowed.

    >>> between = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> metric = LandmarkDistances(
    ...     np.array([0, 2]), np.array([0, 0, 1]), np.array([0.0, 0.5, 0.0]), between
    ... )
    >>> metric.maximum, metric.rows(np.array([1])).tolist()
    (1.5, [[0.5, 0.0, 1.5]])
    """

    def __init__(
        self, landmarks: IntArray, nearest: IntArray, pendant: FloatArray, between: FloatMatrix
    ) -> None:
        self.landmarks: IntArray = np.asarray(landmarks)
        self.nearest: IntArray = np.asarray(nearest)
        self.pendant: FloatArray = np.asarray(pendant, dtype=np.float64)
        self.between: FloatMatrix = np.ascontiguousarray(between, dtype=np.float64)
        _check(self.landmarks, self.nearest, self.pendant, self.between)
        self.maximum: float = largest_distance(self.nearest, self.pendant, self.between) or 1.0

    @classmethod
    def trusted(
        cls,
        landmarks: IntArray,
        nearest: IntArray,
        pendant: FloatArray,
        between: FloatMatrix,
        *,
        maximum: float,
        forest: SpanningForest,
    ) -> "LandmarkDistances":
        """The distances of arrays that were checked before, with what was computed from them."""
        distances = cls.__new__(cls)
        distances.landmarks, distances.nearest = landmarks, nearest
        distances.pendant, distances.between = pendant, between
        distances.maximum = maximum
        # A `cached_property` keeps its value in the instance's `__dict__` under its own name.
        distances.__dict__["landmark_forest"] = forest
        return distances

    def __len__(self) -> int:
        return len(self.pendant)

    def rows(self, clients: IntArray) -> FloatMatrix:
        """(k, N) distances from each of k clients."""
        rows = self._sums(clients, slice(None))
        rows[np.arange(len(clients)), clients] = 0.0
        return rows

    def block(self, rows: IntArray, columns: IntArray) -> FloatMatrix:
        """(k, l) distances between two sets of clients."""
        block = self._sums(rows, columns)
        block[np.asarray(rows)[:, None] == np.asarray(columns)[None, :]] = 0.0
        return block

    def _sums(self, rows: IntArray, columns: IntArray | slice) -> FloatMatrix:
        """h_ij, also where i = j."""
        sums = self.between[self.nearest[rows]][:, self.nearest[columns]]
        sums += self.pendant[rows][:, None]
        sums += self.pendant[columns][None, :]
        # The maximum is the largest finite sum, and counts where there is no path.
        return np.asarray(np.minimum(sums, self.maximum, out=sums))

    def restricted(self, clients: IntArray) -> "LandmarkDistances":
        """The same distances for some of the clients, all landmarks among them.

        Args:
            clients: (n,) ascending.

        >>> between = np.array([[0.0, 1.0], [1.0, 0.0]])
        >>> whole = LandmarkDistances(
        ...     np.array([0, 3]), np.array([0, 0, 1, 1]), np.array([0.0, 0.5, 0.25, 0.0]), between
        ... )
        >>> whole.restricted(np.array([0, 2, 3])).rows(np.array([1])).tolist()
        [[1.25, 0.0, 0.25]]
        """
        return self.trusted(
            np.searchsorted(clients, self.landmarks),
            self.nearest[clients],
            self.pendant[clients],
            self.between,
            maximum=self.maximum,
            forest=self.landmark_forest,
        )

    @cached_property
    def landmark_forest(self) -> SpanningForest:
        """The minimum spanning forest of the landmarks, with its shortfall; O(L²), once."""
        forest = minimum_spanning_forest(self.between)
        # Pairs without a path are in different trees, and do not count.
        finite = np.where(np.isfinite(self.between), self.between, 0.0)
        return replace(forest, shortfall=max(shortfall(finite, forest), 0.0))

    @cached_property
    def tree(self) -> SpanningForest:
        """A spanning forest whose metric dominates the distances.

        It is the forest of the landmarks and the edges of all other clients.
        """
        forest, count = self.landmark_forest, len(self)
        parent = self.landmarks[self.nearest].astype(np.int64)
        parent[np.isinf(self.pendant)] = -1
        roots = forest.parent < 0
        parent[self.landmarks] = np.where(roots, -1, self.landmarks[forest.parent])
        above = np.where(parent < 0, 0.0, self.pendant)
        above[self.landmarks] = forest.above
        others = np.ones(count, dtype=bool)
        others[self.landmarks] = False
        order = np.concatenate([self.landmarks[forest.order], np.flatnonzero(others)])
        return SpanningForest(parent, above, order, forest.shortfall)


def largest_distance(nearest: IntArray, pendant: FloatArray, between: FloatMatrix) -> float:
    """The largest finite h_ij of i≠j, 0 if there is none. O(N + L²).

    >>> largest_distance(np.array([0, 0, 0]), np.array([0.0, 2.0, 3.0]), np.zeros((1, 1)))
    5.0
    """
    finite = np.isfinite(pendant)
    lengths = np.where(finite, pendant, -np.inf)
    first = np.full(len(between), -np.inf)  # the longest edge at each landmark
    np.maximum.at(first, nearest, lengths)
    longest = np.flatnonzero(lengths == first[nearest])
    which = np.full(len(between), -1)
    which[nearest[longest]] = longest
    lengths[which[which >= 0]] = -np.inf
    second = np.full(len(between), -np.inf)
    np.maximum.at(second, nearest, lengths)
    sums = np.where(np.isfinite(between), between, -np.inf)
    sums += first[:, None]
    sums += first[None, :]
    np.fill_diagonal(sums, first + second)
    return max(float(sums.max(initial=-np.inf)), 0.0)


def _check(
    landmarks: IntArray, nearest: IntArray, pendant: FloatArray, between: FloatMatrix
) -> None:
    count, number = len(pendant), len(landmarks)
    for name, given in (("landmarks", landmarks), ("nearest", nearest)):
        if given.ndim != 1 or given.dtype.kind not in "iu":
            raise GraphError(
                f"{name} must be a 1-d array of integers, got {given.dtype} of shape {given.shape}"
            )
    if between.shape != (number, number):
        raise GraphError(
            f"between must have shape ({number}, {number}), a row a landmark, got {between.shape}"
        )
    check_lengths(between, "between")
    if pendant.ndim != 1 or nearest.shape != pendant.shape:
        raise GraphError(
            f"nearest and pendant must have one entry a client, got {nearest.shape} and "
            f"{pendant.shape}"
        )
    if not (pendant >= 0).all():
        raise GraphError(f"pendant must be >= 0, got {pendant[~(pendant >= 0)][0]}")
    if count and not 0 <= nearest.min() <= nearest.max() < number:
        raise GraphError(
            f"nearest must be in 0..{number - 1}, got {nearest.min()}..{nearest.max()}"
        )
    inside = number == 0 or 0 <= landmarks.min() <= landmarks.max() < count
    if not (
        inside
        and np.array_equal(nearest[landmarks], np.arange(number))
        and not pendant[landmarks].any()
    ):
        raise GraphError("each landmark must be a client, its own landmark, with pendant 0")
