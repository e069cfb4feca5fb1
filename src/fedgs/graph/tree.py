"""Spanning forests: what carries nearly all shortest paths of a client graph, and bounds the selection problem."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fedgs.arrays import AnyArray, FloatArray, FloatMatrix, IntArray, kernel_alias, private
from fedgs.compiling import load_kernels
from fedgs.errors import GraphError

__all__ = ["Preorder", "SpanningForest", "minimum_spanning_forest", "shortfall"]

_EDGEWISE = 256  # clients
_PLAIN = 24  # matrices up to this size are not worth compiled code


class Preorder(NamedTuple):
    """A forest with its vertices renumbered so that each stands before its descendants, and these follow it without a gap.

    Attributes:
        place: (N,) the new number of each vertex.
        up: (N,) by new number: the parent's new number, -1 for a root.
        above: (N,) by new number: length of the edge to the parent, 0 for a root.
        roots: (t,) new numbers of the roots, ascending: where each tree begins.
        sizes: (N,) by new number: how many vertices the subtree has.
    """

    place: IntArray
    up: IntArray
    above: FloatArray
    roots: IntArray
    sizes: IntArray


@dataclass(frozen=True, eq=False)
class SpanningForest:
    """A rooted spanning forest of N vertices. The arrays are private copies and read-only.

    Attributes:
        parent: (N,) the vertex above, -1 for a root.
        above: (N,) length >= 0 of the edge to the parent, 0 for a root.
        order: (N,) all vertices, parents before children.
        shortfall: by how much a distance exceeds the forest's own at most (<= 0 where the forest's
            metric dominates); pairs in different trees do not count.

    Raises:
        GraphError: arrays of different lengths, numbers that are no vertices, an edge that is
            negative or not finite, or an order in which a vertex comes before its parent.
    """

    parent: IntArray
    above: FloatArray
    order: IntArray
    shortfall: float = 0.0

    def __post_init__(self) -> None:
        for name, kind in (("parent", np.int64), ("above", np.float64), ("order", np.int64)):
            given = np.asarray(getattr(self, name))
            if given.ndim != 1 or given.dtype.kind not in ("biuf" if name == "above" else "iu"):
                raise GraphError(
                    f"a forest's {name} must be a 1-d array of numbers, got {given.dtype} of shape {given.shape}"
                )
            object.__setattr__(self, name, private(given.astype(kind, copy=False)))
        _check_forest(self.parent, self.above, self.order)

    @property
    def kernel_arguments(self) -> tuple[AnyArray, ...]:
        """parent, above and order in the form that kernels are compiled for."""
        return kernel_alias(self.parent), kernel_alias(self.above), kernel_alias(self.order)

    def __len__(self) -> int:
        return len(self.parent)

    @cached_property
    def preorder(self) -> Preorder:
        """The forest renumbered, tree by tree. O(N), once.

        >>> SpanningForest(np.array([2, 2, -1, 0]), np.array([1.0, 2.0, 0.0, 3.0]), np.array([2, 0, 1, 3])).preorder.place
        array([1, 3, 0, 2])
        """
        parent, order = self.parent.tolist(), self.order.tolist()
        sizes = [1] * len(order)  # of the subtrees
        for vertex in reversed(order):
            if parent[vertex] >= 0:
                sizes[parent[vertex]] += sizes[vertex]
        place, free, total = (
            [0] * len(order),
            [0] * len(order),
            0,
        )  # free: the first number not yet given out below a vertex
        for vertex in order:
            above = parent[vertex]
            if above < 0:
                place[vertex] = total
                total += sizes[vertex]
            else:
                place[vertex] = free[above]
                free[above] += sizes[vertex]
            free[vertex] = place[vertex] + 1
        places, up, lengths = (
            np.array(place, dtype=np.int64),
            np.full(len(order), -1),
            np.empty(len(order)),
        )
        below = self.parent >= 0
        up[places[below]] = places[self.parent[below]]
        lengths[places] = self.above
        below_and_itself = np.empty(len(order), dtype=np.int64)
        below_and_itself[places] = sizes
        return Preorder(places, up, lengths, np.flatnonzero(up < 0), below_and_itself)


def minimum_spanning_forest(lengths: FloatMatrix) -> SpanningForest:
    """The minimum spanning forest of a symmetric matrix of edge lengths >= 0, inf for no edge (Prim's algorithm). O(N²).

    Raises:
        GraphError: not a square matrix of numbers, or a forest with an edge that is negative.

    >>> minimum_spanning_forest(np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 2.0], [5.0, 2.0, 0.0]])).parent
    array([-1,  0,  1])
    """
    lengths = _square(lengths, "lengths")
    kernels = load_kernels("fedgs.graph.kernels") if len(lengths) > _PLAIN else None
    count = len(lengths)
    parent, above, order = (
        np.full(count, -1),
        np.full(count, np.inf),
        np.empty(count, dtype=np.int64),
    )
    if kernels is not None:
        kernels.prim(lengths, parent, above, order, np.empty(count, dtype=np.int64))
        return SpanningForest(parent, above, order)
    joined, vertex = np.zeros(count, dtype=bool), 0
    for step in range(count):
        order[step], joined[vertex] = vertex, True
        nearer = (lengths[vertex] < above) & ~joined
        above[nearer], parent[nearer] = lengths[vertex][nearer], vertex
        waiting = np.flatnonzero(~joined)
        vertex = int(waiting[np.argmin(above[waiting])]) if len(waiting) else 0
    above[parent < 0] = 0.0
    return SpanningForest(parent, above, order)


def shortfall(distance: FloatMatrix, forest: SpanningForest) -> float:
    """The largest h_ij - t_ij over pairs in one tree, t the forest's metric; at most 0 where there is nothing to exceed. O(N²).

    In small matrices that the metric dominates it may be rounded up, to no more than 1e-12 of the
    longest edge: then nothing need be compiled for it.

    >>> matrix = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 2.0], [5.0, 2.0, 0.0]])
    >>> shortfall(matrix, minimum_spanning_forest(matrix))
    2.0
    """
    distance = _square(distance, "distance")
    if len(distance) != len(forest):
        raise GraphError(
            f"a forest of {len(forest)} vertices does not fit distances of shape {distance.shape}"
        )
    if len(distance) <= _EDGEWISE:
        most = _edgewise(distance, forest)
        if most <= 1e-12 * float(forest.above.max(initial=0.0)):
            return most
    kernels = load_kernels("fedgs.graph.kernels") if len(distance) > _PLAIN else None
    if kernels is not None:
        return float(kernels.tree_excess(distance, *forest.kernel_arguments))
    over = distance - forest_distances(forest)
    np.fill_diagonal(over, -np.inf)
    return float(over.max(initial=-np.inf))


def _square(lengths: FloatMatrix, name: str) -> FloatMatrix:
    """The matrix in the form that kernels are compiled for."""
    usual = isinstance(lengths, np.ndarray) and lengths.dtype == np.float64 and lengths.flags.carray
    matrix = (
        lengths
        if usual
        else kernel_alias(np.require(lengths, dtype=np.float64, requirements=["C", "A"]))
    )
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise GraphError(f"{name} must be a square matrix, got shape {matrix.shape}")
    return matrix


def _check_forest(parent: IntArray, above: FloatArray, order: IntArray) -> None:
    count = len(parent)
    if not len(above) == len(order) == count:
        raise GraphError(
            f"a forest's arrays must have one length, got {count}, {len(above)} and {len(order)}"
        )
    if count == 0:
        return
    if parent.min() < -1 or parent.max() >= count:
        raise GraphError(
            f"a forest's parents must be vertices in 0..{count - 1} or -1, got {parent.min()}..{parent.max()}"
        )
    if order.min() < 0 or order.max() >= count or np.bincount(order).max() > 1:
        raise GraphError(f"a forest's order must hold every vertex in 0..{count - 1} once")
    place = np.empty(count, dtype=np.int64)
    place[order] = np.arange(count)
    below = parent >= 0
    if not (place[parent[below]] < place[below]).all():
        raise GraphError("a forest's order must have parents before their children")
    if not (np.isfinite(above).all() and above.min() >= 0):
        raise GraphError("a forest's edges must have finite lengths >= 0")


def _edgewise(distance: FloatMatrix, forest: SpanningForest) -> float:
    """At least the shortfall, and 0 but for rounding where distances are a metric; NaN where some are inf. O(N²), in NumPy.

    Along an edge the distances to anyone change by no more than its length; what they change more
    adds up, at most, on a path.
    """
    below = np.flatnonzero(forest.parent >= 0)
    with np.errstate(invalid="ignore"):
        change = np.abs(distance[below] - distance[forest.parent[below]]).max(axis=1, initial=0.0)
    return float(np.maximum(change - forest.above[below], 0.0).sum())


def forest_distances(forest: SpanningForest) -> FloatMatrix:
    """(N, N) distances along the forest, inf between trees, exactly symmetric. O(N²).

    >>> forest_distances(minimum_spanning_forest(np.array([[0.0, 1.0], [1.0, 0.0]])))
    array([[0., 1.],
           [1., 0.]])
    """
    kernels = load_kernels("fedgs.graph.kernels") if len(forest) > _PLAIN else None
    if kernels is not None:
        return np.asarray(kernels.tree_matrix(*forest.kernel_arguments))
    matrix = np.full((len(forest), len(forest)), np.inf)
    for place, vertex in enumerate(forest.order):
        earlier = forest.order[:place]
        if forest.parent[vertex] >= 0:
            matrix[vertex, earlier] = matrix[earlier, vertex] = (
                matrix[forest.parent[vertex], earlier] + forest.above[vertex]
            )
        matrix[vertex, vertex] = 0.0
    return matrix
