"""Distances of clients on the graph (the paper's matrix H): shortest paths, on a common scale."""

import numpy as np
import numpy.typing as npt

from fedgs.arrays import FloatMatrix
from fedgs.compiling import load_kernels
from fedgs.errors import GraphError
from fedgs.graph.similarity import blocks
from fedgs.graph.tree import forest_distances, minimum_spanning_forest

__all__ = [
    "as_lengths",
    "check_lengths",
    "first_asymmetry",
    "floyd_warshall",
    "graph_distance",
    "shortest_paths",
]

# The sums along a path from its two ends differ in their last bits.
_ROUNDING = 1e-9
# Up to this number of clients compiled code is not faster.
_PLAIN = 128


def shortest_paths(adjacency: FloatMatrix) -> FloatMatrix:
    """All-pairs shortest-path distances on the client graph (Algorithm 1, line 3), exact.

    Edges that can lie on no shortest path are dropped first. If only the spanning forest is left,
    its distances are the result; otherwise Dijkstra's algorithm from every client or a blocked
    Floyd-Warshall algorithm follows, whichever is faster. Small graphs, and installations without
    numba, use the plain O(N³) loop.

    Args:
        adjacency: (N, N) edge lengths >= 0, symmetric, 0 on the diagonal, inf for no edge. A length
            of 0 is an edge.

    Returns:
        (N, N) distances H, symmetric; inf where no path exists.

    Raises:
        GraphError: not a matrix of numbers, not square, not symmetric, a negative length or a NaN.

    >>> shortest_paths(np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 1.0], [5.0, 1.0, 0.0]]))[0]
    array([0., 1., 2.])
    """
    lengths = np.array(as_lengths(adjacency, "adjacency"), order="C")
    check_lengths(lengths, "adjacency")
    kernels = load_kernels("fedgs.graph.kernels") if len(lengths) > _PLAIN else None
    if kernels is None:
        return floyd_warshall(lengths)
    forest = minimum_spanning_forest(lengths)
    # An edge longer than the path between its ends on any spanning forest lies on no shortest path.
    starts, ends, weights = kernels.prune(lengths, *forest.kernel_arguments)
    if len(ends) == 2 * int(np.sum(forest.parent >= 0)):
        return forest_distances(forest)
    # Measured: Dijkstra's algorithm costs per source about 100 ns per vertex and 10 ns per edge,
    # Floyd-Warshall's 0.07 ns per pair.
    count = len(lengths)
    if 100 * count + 10 * len(ends) < 0.07 * count * count:
        kernels.dijkstra_rows(starts, ends, weights, lengths)
    else:
        kernels.floyd_warshall_blocked(lengths)
    return lengths


def floyd_warshall(lengths: FloatMatrix) -> FloatMatrix:
    """Plain O(N³) all-pairs shortest paths in place, the reference for the compiled routines.

    References:
        R. W. Floyd (1962): Algorithm 97: Shortest Path. Communications of the ACM 5.

    >>> floyd_warshall(np.array([[0.0, 1.0, np.inf], [1.0, 0.0, 2.0], [np.inf, 2.0, 0.0]]))[0]
    array([0., 1., 3.])
    """
    for middle in range(len(lengths)):
        np.minimum(lengths, lengths[:, middle, None] + lengths[middle], out=lengths)
    return lengths


def graph_distance(
    paths: FloatMatrix, *, normalize: bool = True, overwrite: bool = False
) -> FloatMatrix:
    """H from shortest paths: finite, and scaled so that the largest entry is 1.

    Pairs without a path get the largest finite distance. Without any edge, or if every path has
    length 0, H is 1 off the diagonal; a single client has H = [[0]].

    Args:
        paths: (N, N), inf where no path exists.
        normalize: divide by the largest finite entry, so that alpha means the same on any graph.
        overwrite: whether H may take the place of `paths`, which saves a matrix.

    >>> graph_distance(np.array([[0.0, 2.0, np.inf], [2.0, 0.0, np.inf], [np.inf, np.inf, 0.0]]))[0]
    array([0., 1., 1.])
    """
    finite = np.isfinite(paths)
    largest = float(np.max(paths, initial=0.0, where=finite))
    if largest == 0.0:
        # There is no edge, or all edges have length 0. Then clients differ only by missing paths,
        # and if no path is missing, all pairs are alike.
        distance = np.where(finite, 0.0, 1.0) if not finite.all() else np.ones_like(paths)
        np.fill_diagonal(distance, 0.0)
        return np.asarray(distance, dtype=np.float64)
    filled = paths if overwrite else paths.copy()
    filled[~finite] = largest
    if normalize:
        filled /= largest
    return filled


def as_lengths(values: npt.ArrayLike, name: str) -> FloatMatrix:
    """A matrix as float64, aligned and in C order; copied only if it is not so already.

    The entries are not checked, see `check_lengths`.

    Raises:
        GraphError: rows of different lengths, or entries that are no real numbers.

    >>> as_lengths([[0, 1], [1]], "adjacency")
    Traceback (most recent call last):
    fedgs.errors.GraphError: adjacency must be a square matrix of numbers, got rows of different
    lengths
    """
    try:
        given = np.asarray(values)
    except (TypeError, ValueError):
        raise GraphError(
            f"{name} must be a square matrix of numbers, got rows of different lengths"
        ) from None
    if given.dtype.kind not in "biufO":
        raise GraphError(
            f"{name} must be a square matrix of numbers, got entries of type {given.dtype}"
        )
    try:
        return np.require(given, dtype=np.float64, requirements=["C", "A"])
    except (TypeError, ValueError):
        raise GraphError(
            f"{name} must be a square matrix of numbers, got an array of objects of shape "
            f"{given.shape}"
        ) from None


def check_lengths(lengths: FloatMatrix, name: str) -> None:
    """Raise `GraphError` unless `lengths` is a square matrix of lengths. O(N²).

    It must be symmetric to a relative 1e-9, >= 0, without NaN, and 0 on the diagonal.

    >>> check_lengths(np.array([[0.0, 1.0]]), "adjacency")
    Traceback (most recent call last):
    fedgs.errors.GraphError: adjacency must be a square matrix, got shape (1, 2)
    """
    if lengths.ndim != 2 or lengths.shape[0] != lengths.shape[1]:
        raise GraphError(f"{name} must be a square matrix, got shape {lengths.shape}")
    smallest = float(lengths.min(initial=0.0))
    if np.isnan(smallest):
        row, column = np.argwhere(np.isnan(lengths))[0]
        raise GraphError(
            f"{name} must hold numbers >= 0 or inf; the entry ({row}, {column}) is NaN"
        )
    if smallest < 0:
        row, column = np.argwhere(lengths < 0)[0]
        raise GraphError(
            f"{name} must be >= 0; the entry ({row}, {column}) is {lengths[row, column]}"
        )
    if np.diagonal(lengths).any():
        row = int(np.flatnonzero(np.diagonal(lengths))[0])
        raise GraphError(
            f"{name} must be 0 on the diagonal; the entry ({row}, {row}) is {lengths[row, row]}"
        )
    asymmetry = first_asymmetry(lengths, rtol=_ROUNDING, atol=0.0)
    if asymmetry is not None:
        row, column = asymmetry
        raise GraphError(
            f"{name} must be symmetric; the entries ({row}, {column}) and ({column}, {row}) are "
            f"{lengths[row, column]} and {lengths[column, row]}"
        )


def first_asymmetry(matrix: FloatMatrix, *, rtol: float, atol: float) -> tuple[int, int] | None:
    """The first (row, column) whose entry is not close to (column, row), or None.

    No copy of the matrix is made.

    >>> first_asymmetry(np.array([[0.0, 1.0], [2.0, 0.0]]), rtol=1e-9, atol=0.0)
    (0, 1)
    """
    for rows in blocks(len(matrix)):
        part, across = matrix[rows], matrix[:, rows].T
        if np.array_equal(part, across):
            continue
        differs = ~np.isclose(part, across, rtol=rtol, atol=atol)
        diagonal = np.arange(rows.stop - rows.start)
        differs[diagonal, diagonal + rows.start] = False
        if differs.any():
            row, column = np.argwhere(differs)[0].tolist()
            return row + rows.start, column
    return None
