"""The memory of a graph that grows: clients give their vectors only when they are selected."""

import numpy as np

from fedgs.arrays import AnyArray, BoolArray, FloatMatrix, IntArray
from fedgs.clients import Memory
from fedgs.graph import Graph, feature_products
from fedgs.graph.growth import embedded, unit_rows, widened
from fedgs.graph.settings import ClientGraph

__all__ = ["grown_by_clients", "grown_by_features", "grown_by_products", "no_client_seen"]


def no_client_seen(count: int) -> Memory:
    """The memory before round 0: all N clients have distance 1 from each other.

    Arrays: seen (N,) bool; features (N, d), scaled to length 1, with d = 0 before the first cohort;
    paths (N, N), shortest paths between seen clients; similarity, adjacency and distance (N, N), as
    in `fedgs.graph.ClientGraph`.

    >>> no_client_seen(2)["distance"]
    array([[0., 1.],
           [1., 0.]])
    """
    none = np.zeros((0, 0))
    graph = embedded(ClientGraph(none, none, none), np.empty(0, dtype=np.int64), count)
    return {
        "seen": np.zeros(count, dtype=np.bool_),
        "features": np.zeros((count, 0)),
        "paths": graph.adjacency,
        **_arrays(graph),
    }


def grown_by_clients(memory: Memory, count: int) -> Memory:
    """The memory after clients have joined, which nothing is known of.

    Args:
        memory: before, see `no_client_seen`.
        count: N, all clients.

    >>> grown_by_clients(no_client_seen(1), 2)["distance"]
    array([[0., 1.],
           [1., 0.]])
    """
    fresh, earlier = no_client_seen(count), len(memory["seen"])
    features = np.zeros((count, memory["features"].shape[1]))
    features[:earlier] = memory["features"]
    fresh["seen"][:earlier] = memory["seen"]
    fresh["paths"][:earlier, :earlier] = memory["paths"]
    known = np.flatnonzero(memory["seen"])
    block = np.ix_(known, known)
    graph = ClientGraph(*(memory[name][block] for name in ("similarity", "adjacency", "distance")))
    return {**fresh, "features": features, **_arrays(embedded(graph, known, count))}


def grown_by_products(
    graph: Graph, memory: Memory, vectors: FloatMatrix, clients: IntArray
) -> Memory:
    """The memory after a cohort whose clients give the oracle's vectors, which never change.

    Products are rescaled over the known pairs, so a new client may change every edge, and the graph
    of the seen clients is rebuilt. A round without a new client changes nothing.

    Args:
        graph: settings, of similarity "oracle".
        memory: before the round, see `no_client_seen`.
        vectors: (N, d) u_k; only the rows of seen clients are used.
        clients: (m,) the cohort.
    """
    seen = np.array(memory["seen"])
    if seen[clients].all():
        return memory
    seen[clients] = True
    known = np.flatnonzero(seen)
    inner = graph.of_products(feature_products(vectors[known]))
    return {**memory, "seen": seen, **_arrays(embedded(inner, known, len(seen)))}


def grown_by_features(
    graph: Graph, memory: Memory, features: FloatMatrix, clients: IntArray
) -> Memory:
    """The memory after a cohort whose local models gave features.

    A client's first feature, scaled to length 1, is stored; a later one enters a moving average
    with weight `graph.refresh`. With refresh 0, new clients are added to the shortest paths in
    O(m·N·d + m·N²); otherwise all paths are recomputed.

    Args:
        graph: settings, of similarity "update" or "functional".
        memory: before the round, see `no_client_seen`.
        features: (m, d) of the cohort.
        clients: (m,) the cohort.
    """
    seen, rows = np.array(memory["seen"]), unit_rows(features)
    averages = np.array(memory["features"])
    if averages.shape[1] == 0:
        averages = np.zeros((len(seen), rows.shape[1]))
    first = ~seen[clients]
    changed = clients if graph.refresh > 0 else clients[first]
    if len(changed) == 0:
        return memory
    earlier = averages[clients]
    fresh = np.where(first[:, None], rows, (1 - graph.refresh) * earlier + graph.refresh * rows)
    averages[clients] = np.where((first | (graph.refresh > 0))[:, None], unit_rows(fresh), earlier)
    seen[clients] = True
    similarity = _refreshed(np.array(memory["similarity"]), averages, changed, seen)
    if graph.construction != "threshold" or graph.rescale:
        known, paths = np.flatnonzero(seen), memory["paths"]
        inner = graph.of_similarity(similarity[np.ix_(known, known)])
        whole = embedded(inner, known, len(seen))
    else:
        only_new = bool(first[np.isin(clients, changed)].all())
        whole, paths = widened(
            graph, memory["paths"], similarity, known=seen, new=changed if only_new else None
        )
    return {
        "seen": seen,
        "features": averages,
        "paths": paths,
        **_arrays(whole),
        "similarity": similarity,
    }


def _refreshed(
    similarity: FloatMatrix, features: FloatMatrix, changed: IntArray, seen: BoolArray
) -> FloatMatrix:
    """V with the rows and columns of the changed clients recomputed, in place.

    The features have length 1 or are zero.
    """
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
