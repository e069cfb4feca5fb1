"""Spanning forests, on which most shortest paths lie and which give bounds to the solver."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fedgs.arrays import AnyArray, FloatArray, FloatMatrix, IntArray, kernel_alias, private
from fedgs.compiling import load_kernels
from fedgs.errors import GraphError

__all__ = ["Preorder", "SpanningForest", "minimum_spanning_forest", "shortfall"]

# Up to this number of clients a bound of the shortfall from the edges alone is tried first.
_EDGEWISE = 256
# Up to this number of clients compiled code is not faster.
_PLAIN = 24


class Preorder(NamedTuple):
    """A forest renumbered so that the descendants of each vertex follow it without a gap.

    Attributes:
        place: (N,) the new number of each vertex.
        up: (N,) by new number: the parent's new number, -1 for a root.
        above: (N,) by new number: length of the edge to the parent, 0 for a root.
        roots: (t,) new numbers of the roots, ascending: where each tree begins.
        sizes: (N,) by new number: number of vertices of the subtree.
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
        shortfall: the largest excess of a distance over the one along the forest (<= 0 if the
            forest's metric dominates); pairs in different trees do not count.

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
                    f"a forest's {name} must be a 1-d array of numbers, got {given.dtype} of shape "
                    f"{given.shape}"
                )
            object.__setattr__(self, name, private(given.astype(kind, copy=False)))
        _check_forest(self.parent, self.above, self.order)

    @property
    def kernel_arguments(self) -> tuple[AnyArray, ...]:
        """Parent, above and order in the form that kernels are compiled for."""
        return kernel_alias(self.parent), kernel_alias(self.above), kernel_alias(self.order)

    def __len__(self) -> int:
        return len(self.parent)

    @cached_property
    def preorder(self) -> Preorder:
        """The forest renumbered, tree by tree. O(N), once.

        >>> parent, above = np.array([2, 2, -1, 0]), np.array([1.0, 2.0, 0.0, 3.0])
        >>> SpanningForest(parent, above, np.array([2, 0, 1, 3])).preorder.place
        array([1, 3, 0, 2])
        """
        parent, order = self.parent.tolist(), self.order.tolist()
        sizes = [1] * len(order)  # of the subtrees
        for vertex in reversed(order):
            if parent[vertex] >= 0:
                sizes[parent[vertex]] += sizes[vertex]
        place, total = [0] * len(order), 0
        free = [0] * len(order)  # the first unused number below each vertex
        for vertex in order:
            above = parent[vertex]
            if above < 0:
                place[vertex] = total
                total += sizes[vertex]
            else:
                place[vertex] = free[above]
                free[above] += sizes[vertex]
            free[vertex] = place[vertex] + 1
        places = np.array(place, dtype=np.int64)
        below = self.parent >= 0
        up = np.full(len(order), -1)
        up[places[below]] = places[self.parent[below]]
        lengths = np.empty(len(order))
        lengths[places] = self.above
        subtree_sizes = np.empty(len(order), dtype=np.int64)
        subtree_sizes[places] = sizes
        return Preorder(places, up, lengths, np.flatnonzero(up < 0), subtree_sizes)


def minimum_spanning_forest(lengths: FloatMatrix) -> SpanningForest:
    """The minimum spanning forest of a matrix of edge lengths, by Prim's algorithm. O(N²).

    Args:
        lengths: (N, N) edge lengths >= 0, symmetric, inf for no edge.

    Raises:
        GraphError: not a square matrix of numbers, or a forest with an edge that is negative.

    References:
        R. C. Prim (1957): Shortest connection networks and some generalizations. Bell System
        Technical Journal 36(6).

    >>> lengths = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 2.0], [5.0, 2.0, 0.0]])
    >>> minimum_spanning_forest(lengths).parent
    array([-1,  0,  1])
    """
    lengths = _square(lengths, "lengths")
    kernels = load_kernels("fedgs.graph.kernels") if len(lengths) > _PLAIN else None
    count = len(lengths)
    parent, above = np.full(count, -1), np.full(count, np.inf)
    order = np.empty(count, dtype=np.int64)
    if kernels is not None:
        kernels.prim(lengths, parent, above, order, np.empty(count, dtype=np.int64))
        return SpanningForest(parent, above, order)
    in_forest, vertex = np.zeros(count, dtype=bool), 0
    for step in range(count):
        order[step] = vertex
        in_forest[vertex] = True
        nearer = (lengths[vertex] < above) & ~in_forest
        above[nearer] = lengths[vertex][nearer]
        parent[nearer] = vertex
        waiting = np.flatnonzero(~in_forest)
        vertex = int(waiting[np.argmin(above[waiting])]) if len(waiting) else 0
    above[parent < 0] = 0.0
    return SpanningForest(parent, above, order)


def shortfall(distance: FloatMatrix, forest: SpanningForest) -> float:
    """The largest h_ij - t_ij over pairs in the same tree, with t the forest's metric. O(N²).

    At most 0 if the metric dominates the distances. In small matrices it may then be rounded up, to
    at most 1e-12 of the longest edge, which avoids compiled code.

    Raises:
        GraphError: the matrix is not square, or does not fit the forest.

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
        bound = _edgewise(distance, forest)
        if bound <= 1e-12 * float(forest.above.max(initial=0.0)):
            return bound
    kernels = load_kernels("fedgs.graph.kernels") if len(distance) > _PLAIN else None
    if kernels is not None:
        return float(kernels.tree_excess(distance, *forest.kernel_arguments))
    excess = distance - forest_distances(forest)
    np.fill_diagonal(excess, -np.inf)
    return float(excess.max(initial=-np.inf))


def _square(lengths: FloatMatrix, name: str) -> FloatMatrix:
    """The matrix in the form that kernels are compiled for."""
    matrix = lengths
    if not (
        isinstance(lengths, np.ndarray) and lengths.dtype == np.float64 and lengths.flags.carray
    ):
        matrix = kernel_alias(np.require(lengths, dtype=np.float64, requirements=["C", "A"]))
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
            f"a forest's parents must be vertices in 0..{count - 1} or -1, got {parent.min()}.."
            f"{parent.max()}"
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
    """An upper bound of the shortfall, in NumPy: 0 except for rounding if distances are a metric.

    Along an edge of the forest, the distances of a metric to any vertex change by at most the
    edge's length. The largest changes beyond that, summed over all edges, bound the shortfall. NaN
    if some distances are inf. O(N²).
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
