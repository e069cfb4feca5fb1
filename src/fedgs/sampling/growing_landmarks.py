"""The memory of a graph over landmarks that grows: only clients that were selected have vectors."""

import logging
from typing import Literal

import numpy as np

from fedgs.arrays import AnyArray, FloatMatrix, IntArray
from fedgs.clients import Memory
from fedgs.graph import Graph
from fedgs.graph.growth import unit_rows
from fedgs.graph.landmark_building import landmark_distances
from fedgs.sampling.landmarks import GOOD, landmark_words, measured_quality

__all__ = [
    "landmarks_by_clients",
    "landmarks_by_features",
    "landmarks_by_products",
    "landmarks_of_known",
    "no_client_known",
]

_log = logging.getLogger("fedgs")


def no_client_known(count: int) -> Memory:
    """The memory before round 0: all N clients have distance 1 from each other.

    Arrays: known (s,) ascending, the clients that were selected; features (s, d) float32 of their
    local models, scaled to length 1; landmarks, nearest, pendant and between, see
    `fedgs.graph.LandmarkDistances`; quality (2,), see `measured_quality`, and measured (1,), how
    many clients were known when it was measured. Clients that are not known have no edge.

    >>> from fedgs.sampling.landmarks import remembered
    >>> remembered(no_client_known(3)).rows(np.array([0])).tolist()
    [[0.0, 1.0, 1.0]]
    """
    pendant = np.full(count, np.inf)
    pendant[0] = 0.0  # a metric has at least one landmark
    return {
        "known": np.empty(0, dtype=np.int64),
        "features": np.empty((0, 0), dtype=np.float32),
        "landmarks": np.zeros(1, dtype=np.int64),
        "nearest": np.zeros(count, dtype=np.int32),
        "pendant": pendant,
        "between": np.zeros((1, 1)),
        "quality": np.array([1.0, 0.0]),
        "measured": np.zeros(1, dtype=np.int64),
    }


def landmarks_by_clients(graph: Graph, memory: Memory, count: int) -> Memory:
    """The memory after clients have joined, which nothing is known of.

    Args:
        graph: settings, of similarity "update" or "functional".
        memory: before, see `no_client_known`; or the one of all pairs of fewer clients, see
            `fedgs.sampling.growing.no_client_seen`.
        count: N, all clients.

    >>> memory = landmarks_by_clients(Graph(), no_client_known(1), 2)
    >>> memory["pendant"].tolist()
    [0.0, inf]
    """
    fresh = no_client_known(count)
    if "seen" not in memory:
        for name in ("nearest", "pendant"):
            fresh[name][: len(memory[name])] = memory[name]
        return {**memory, "nearest": fresh["nearest"], "pendant": fresh["pendant"]}
    known = np.flatnonzero(memory["seen"])
    if not len(known):
        return fresh
    rows = np.asarray(memory["features"][known], dtype=np.float32)
    return landmarks_of_known(graph, {**fresh, "features": rows}, known, rows, of="models")


def landmarks_by_products(
    graph: Graph, memory: Memory, vectors: FloatMatrix, clients: IntArray
) -> Memory:
    """The memory after a cohort whose clients give the oracle's vectors, which never change.

    Args:
        graph: settings, of similarity "oracle".
        memory: before the round, see `no_client_known`.
        vectors: (N, d) u_k; only the rows of known clients are used.
        clients: (m,) the cohort.
    """
    known = np.union1d(memory["known"], clients)
    if len(known) == len(memory["known"]):
        return memory
    return landmarks_of_known(graph, memory, known, vectors[known], of="clients")


def landmarks_by_features(
    graph: Graph, memory: Memory, features: FloatMatrix, clients: IntArray
) -> Memory:
    """The memory after a cohort whose local models gave features.

    Features enter moving averages as in `fedgs.sampling.growing.grown_by_features`.

    Args:
        graph: settings, of similarity "update" or "functional".
        memory: before the round, see `no_client_known`.
        features: (m, d) of the cohort.
        clients: (m,) the cohort.
    """
    earlier: IntArray = memory["known"]
    known = np.union1d(earlier, clients)
    if len(known) == len(earlier) and graph.refresh == 0:
        return memory
    rows = unit_rows(features)
    averages = np.zeros((len(known), rows.shape[1]), dtype=np.float32)
    if len(earlier):
        averages[np.searchsorted(known, earlier)] = memory["features"]
    places, first = np.searchsorted(known, clients), ~np.isin(clients, earlier)
    before = averages[places].astype(np.float64)
    mixed = unit_rows((1 - graph.refresh) * before + graph.refresh * rows)
    later = mixed if graph.refresh > 0 else before
    averages[places] = np.where(first[:, None], rows, later)
    memory = {**memory, "features": averages}
    return landmarks_of_known(graph, memory, known, averages, of="models")


def landmarks_of_known(
    graph: Graph,
    memory: Memory,
    known: IntArray,
    rows: AnyArray,
    *,
    of: Literal["clients", "models"],
) -> Memory:
    """The memory with the landmark metric of the known clients, O(s·L·d + L³).

    Its quality is measured when there are more known clients than landmarks, and again whenever
    their number has doubled.

    Args:
        graph: settings, of construction "threshold".
        memory: the one before, see `no_client_known`; it has the N of the new one.
        known: (s,) ascending, at least one client.
        rows: (s, d) their features.
        of: whether these are the clients' own or those of local models.

    >>> from fedgs.sampling.landmarks import remembered
    >>> rows = np.array([[1.0, 0.0], [0.5, 0.5]])
    >>> known = np.array([0, 2])
    >>> memory = landmarks_of_known(Graph(), no_client_known(3), known, rows, of="clients")
    >>> remembered(memory).rows(known).tolist()
    [[0.0, 1.0, 1.0], [1.0, 1.0, 0.0]]
    """
    metric = landmark_distances(rows, graph, of=of)
    count = len(memory["nearest"])
    nearest, pendant = np.zeros(count, dtype=np.int32), np.full(count, np.inf)
    nearest[known], pendant[known] = metric.nearest, metric.pendant
    grown = {
        **memory,
        "known": known,
        "landmarks": known[metric.landmarks],
        "nearest": nearest,
        "pendant": pendant,
        "between": metric.between,
    }
    if len(known) <= graph.landmarks or len(known) < 2 * int(memory["measured"][0]):
        return grown
    quality = measured_quality(graph, metric, rows, of=of)
    grown |= {"quality": quality, "measured": np.array([len(known)])}
    if quality[0] < GOOD:
        words = landmark_words(grown, graph.landmarks)
        _log.warning("the graph of the %d clients known so far has %s", len(known), words)
    return grown
