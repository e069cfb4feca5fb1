"""The graph of the clients seen so far, updated only where a new client changes it."""

import numpy as np

from fedgs.arrays import BoolArray, FloatMatrix, IntArray
from fedgs.graph.distance import graph_distance, shortest_paths
from fedgs.graph.settings import ClientGraph, Graph
from fedgs.graph.similarity import cosines, feature_products

__all__ = ["add_vertices", "embedded", "model_similarity", "unit_rows", "widened"]


def unit_rows(features: FloatMatrix) -> FloatMatrix:
    """(N, d) features scaled to length 1; a row of zeros stays one.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    rows = np.asarray(features, dtype=np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0))


def model_similarity(features: FloatMatrix) -> FloatMatrix:
    """V_ij = max(cos(f_i, f_j), 0) of (N, d) features, (N, N) in [0, 1]. O(N²·d).

    V is exactly symmetric, with 1 on the diagonal. Equal features give 1. A feature of zeros (a
    model that did not change) has similarity 0 to every other client.

    >>> model_similarity(np.array([[1.0, 0.0], [2.0, 0.0], [-1.0, 0.0], [0.0, 0.0]]))
    array([[1., 1., 0., 0.],
           [1., 1., 0., 0.],
           [0., 0., 1., 0.],
           [0., 0., 0., 1.]])
    """
    angles = cosines(feature_products(features))
    # The entries on the two sides of the diagonal differ in their last bits.
    similarity = np.maximum((angles + angles.T) / 2, 0.0)
    np.fill_diagonal(similarity, 1.0)
    return similarity


def embedded(inner: ClientGraph, known: IntArray, count: int) -> ClientGraph:
    """The graph of `count` clients of which those in `known` have the graph `inner`.

    Unknown pairs have similarity 0 and no edge; their distance is the largest known one, or 1 if
    none is known.

    Args:
        inner: graph of the k known clients.
        known: (k,) their indices, distinct.
        count: N.

    >>> pair = Graph().of_similarity(np.array([[1.0, 0.5], [0.5, 1.0]]))
    >>> embedded(pair, np.array([0, 2]), 3).distance
    array([[0., 1., 1.],
           [1., 0., 1.],
           [1., 1., 0.]])
    """
    block = np.ix_(known, known)
    similarity = np.eye(count)
    similarity[block] = inner.similarity
    adjacency = np.where(np.eye(count, dtype=bool), 0.0, np.inf)
    adjacency[block] = inner.adjacency
    distance = np.full((count, count), float(inner.distance.max(initial=0.0)) or 1.0)
    np.fill_diagonal(distance, 0.0)
    distance[block] = inner.distance
    return ClientGraph(similarity, adjacency, distance)


def add_vertices(paths: FloatMatrix, lengths: FloatMatrix, new: IntArray) -> FloatMatrix:
    """Shortest paths after vertices and their edges are added. O(N²) for each new vertex.

    Args:
        paths: (N, N) shortest paths without the new vertices, whose rows and columns are inf.
        lengths: (N, N) edge lengths, inf for no edge.
        new: (k,) the new vertices.

    >>> before = np.array([[0.0, 5.0, np.inf], [5.0, 0.0, np.inf], [np.inf, np.inf, 0.0]])
    >>> lengths = np.array([[0.0, 5.0, 1.0], [5.0, 0.0, 2.0], [1.0, 2.0, 0.0]])
    >>> add_vertices(before, lengths, np.array([2]))
    array([[0., 3., 1.],
           [3., 0., 2.],
           [1., 2., 0.]])
    """
    paths = paths.copy()
    for vertex in new.tolist():
        near = np.flatnonzero(np.isfinite(lengths[vertex]) & np.isfinite(np.diagonal(paths)))
        reach = (lengths[vertex, near][:, None] + paths[near]).min(axis=0, initial=np.inf)  # (N,)
        reach[vertex] = 0.0
        paths[vertex], paths[:, vertex] = reach, reach
        np.minimum(paths, reach[:, None] + reach[None, :], out=paths)
    return paths


def widened(
    graph: Graph,
    paths: FloatMatrix,
    similarity: FloatMatrix,
    *,
    known: BoolArray,
    new: IntArray | None,
) -> tuple[ClientGraph, FloatMatrix]:
    """The graph of the clients known so far, and its shortest paths for the next call.

    Paths are kept in units of exp(-epsilon^p / sigma²), which do not depend on the clients, so that
    vertices can be added.

    Args:
        graph: settings, of construction "threshold" and without rescaling.
        paths: (N, N) from the last call; used only with `new`.
        similarity: (N, N) V in [0, 1], valid for pairs of known clients.
        known: (N,) bool.
        new: (k,) the new clients, if nothing else has changed; None: all paths are recomputed.

    Returns:
        The graph of N clients, see `embedded`, and (N, N) paths, inf for unknown clients.
    """
    edges = (
        (similarity >= graph.epsilon)
        & known[:, None]
        & known[None, :]
        & ~np.eye(len(known), dtype=bool)
    )
    least = graph.epsilon**graph.power
    lengths = np.where(
        edges, np.exp((least - similarity**graph.power) / graph.sigma_squared), np.inf
    )
    np.fill_diagonal(lengths, 0.0)
    paths = shortest_paths(lengths) if new is None else add_vertices(paths, lengths, new)
    clients = np.flatnonzero(known)
    block = np.ix_(clients, clients)
    distance = graph_distance(paths[block], normalize=graph.normalize)
    unit = np.exp(-least / graph.sigma_squared)
    if graph.normalize:
        unit = 1.0 / float(lengths.max(initial=0.0, where=edges) or 1.0)
    elif (np.isfinite(paths[block]) & (paths[block] > 0)).any():
        distance = distance * unit
    inner = ClientGraph(similarity[block], lengths[block] * unit, distance)
    return embedded(inner, clients, len(known)), paths
