"""The memory of a graph that grows: nobody is asked for anything before being selected in the normal course."""

import numpy as np

from fedgs.arrays import AnyArray, FloatMatrix, IntArray
from fedgs.clients import Memory
from fedgs.graph import Graph, feature_products
from fedgs.graph.growth import embedded, unit_rows, widened
from fedgs.graph.settings import ClientGraph

__all__ = ["grown_by_features", "grown_by_products", "nobody_seen"]


def nobody_seen(count: int) -> Memory:
    """The memory before round 0: all N clients are at distance 1 of each other.

    Arrays: seen (N,) bool; features (N, d), scaled to length 1, d = 0 until the first came; paths
    (N, N) shortest paths among the seen; similarity, adjacency and distance as of any graph.

    >>> nobody_seen(2)["distance"]
    array([[0., 1.],
           [1., 0.]])
    """
    nothing = embedded(
        ClientGraph(*(np.zeros((0, 0)) for _ in range(3))), np.empty(0, dtype=np.int64), count
    )
    return {
        "seen": np.zeros(count, dtype=np.bool_),
        "features": np.zeros((count, 0)),
        "paths": nothing.adjacency,
        **_arrays(nothing),
    }


def grown_by_products(
    graph: Graph, memory: Memory, vectors: FloatMatrix, clients: IntArray
) -> Memory:
    """The memory after a cohort whose clients hand over the oracle's vectors, which never change.

    Products are rescaled over the pairs that are known, so a newcomer may change every edge, and
    the graph of the seen clients is made again; a round without a newcomer changes nothing.

    Args:
        vectors: (N, d) u_k; only rows of clients that have been seen are looked at.
        clients: (m,) the cohort.
    """
    seen = np.array(memory["seen"])
    if seen[clients].all():
        return memory
    seen[clients] = True
    here = np.flatnonzero(seen)
    inner = graph.of_products(feature_products(vectors[here]))
    return {**memory, "seen": seen, **_arrays(embedded(inner, here, len(seen)))}


def grown_by_features(
    graph: Graph, memory: Memory, features: FloatMatrix, clients: IntArray
) -> Memory:
    """The memory after a cohort's local models gave features; O(m·N·d), and O(N²) a newcomer where nobody's feature is refreshed.

    A client's first feature, scaled to length 1, is taken; a later one is averaged in with weight
    `graph.refresh`. With refresh 0 the shortest paths are only added to; otherwise they are
    computed again.

    Args:
        features: (m, d) of the cohort.
        clients: (m,) the cohort.
    """
    seen, rows = np.array(memory["seen"]), unit_rows(features)
    kept = (
        np.array(memory["features"])
        if memory["features"].shape[1]
        else np.zeros((len(seen), rows.shape[1]))
    )
    first = ~seen[clients]
    changed = clients if graph.refresh > 0 else clients[first]
    if len(changed) == 0:
        return memory
    fresh = np.where(
        first[:, None], rows, (1 - graph.refresh) * kept[clients] + graph.refresh * rows
    )
    kept[clients] = np.where(
        (first | (graph.refresh > 0))[:, None], unit_rows(fresh), kept[clients]
    )
    seen[clients] = True
    similarity = _refreshed(np.array(memory["similarity"]), kept, changed, seen)
    if graph.construction != "threshold" or graph.rescale:
        here, paths = np.flatnonzero(seen), memory["paths"]
        whole = embedded(graph.of_similarity(similarity[np.ix_(here, here)]), here, len(seen))
    else:
        only_new = bool(first[np.isin(clients, changed)].all())
        whole, paths = widened(
            graph, memory["paths"], similarity, known=seen, new=changed if only_new else None
        )
    return {
        "seen": seen,
        "features": kept,
        "paths": paths,
        **_arrays(whole),
        "similarity": similarity,
    }


def _refreshed(
    similarity: FloatMatrix, features: FloatMatrix, changed: IntArray, seen: AnyArray
) -> FloatMatrix:
    """V with the rows and columns of the changed clients computed again; features have length 1 or are zero."""
    rows = np.clip(features[changed] @ features.T, 0.0, 1.0)  # (m, N)
    rows[:, changed] = (rows[:, changed] + rows[:, changed].T) / 2
    rows[:, ~seen] = 0.0
    similarity[changed], similarity[:, changed] = rows, rows.T
    np.fill_diagonal(similarity, 1.0)
    return similarity


def _arrays(graph: ClientGraph) -> dict[str, AnyArray]:
    return {
        "distance": graph.distance,
        "similarity": graph.similarity,
        "adjacency": graph.adjacency,
    }
