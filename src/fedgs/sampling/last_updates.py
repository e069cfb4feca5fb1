"""The memory of samplers that compare clients by their last updates."""

from typing import Literal

import numpy as np

from fedgs.arrays import FloatMatrix, IntArray
from fedgs.clients import Memory, Outcome, View
from fedgs.errors import ConfigError, SelectionError
from fedgs.graph.growth import unit_rows
from fedgs.machine import memory_limit

__all__ = [
    "Measure",
    "check_fits",
    "distances",
    "grown",
    "needed_distances",
    "needed_updates",
    "no_updates",
    "with_updates",
]

Measure = Literal["angle", "l1", "l2", "squared", "cosine"]

_METRICS: dict[str, Literal["cityblock", "euclidean", "sqeuclidean"]] = {
    "l1": "cityblock",
    "l2": "euclidean",
    "squared": "sqeuclidean",
}


def no_updates(count: int, *, known: bool = True) -> Memory:
    """The memory before any update: all N clients have an update of zeros.

    Arrays: known (N,) bool, the clients whose feature counts; features (N, d), the last update of
    each client, zeros for the others, with d = 0 before the first; distance (N, N) of the features.

    Args:
        count: N.
        known: whether the zeros count as features.

    >>> no_updates(2)["distance"].tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    return {
        "known": np.full(count, known),
        "features": np.zeros((count, 0)),
        "distance": np.zeros((count, count)),
    }


def with_updates(
    memory: Memory, features: FloatMatrix, clients: IntArray, measure: Measure
) -> Memory:
    """The memory after new updates of some clients, in O(m·N·d + N²).

    Args:
        memory: before, see `no_updates`.
        features: (m, d) of the clients; a client's earlier feature is replaced.
        clients: (m,) distinct.
        measure: of the distances.

    >>> memory = with_updates(no_updates(3), np.eye(2), np.array([0, 2]), "squared")
    >>> memory["distance"].tolist()
    [[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]
    """
    fresh = np.asarray(features, dtype=np.float64)
    known, rows = np.array(memory["known"]), np.array(memory["features"])
    if rows.shape[1] == 0:
        rows = np.zeros((len(known), fresh.shape[1]))
    rows[clients] = unit_rows(fresh) if measure in ("angle", "cosine") else fresh
    known[clients] = True
    block = distances(rows[clients], rows, measure)
    # The entries on the two sides of the diagonal may differ in their last bits.
    block[:, clients] = (block[:, clients] + block[:, clients].T) / 2
    distance = np.array(memory["distance"])
    distance[clients], distance[:, clients] = block, block.T
    np.fill_diagonal(distance, 0.0)
    return {"known": known, "features": rows, "distance": distance}


def grown(memory: Memory, count: int, measure: Measure, *, known: bool = True) -> Memory:
    """The memory after clients have joined, which have an update of zeros, in O(N²·d).

    Args:
        memory: before, see `no_updates`.
        count: N, all clients.
        measure: of the distances.
        known: whether the zeros count as features.

    >>> memory = with_updates(no_updates(1), np.array([[2.0]]), np.array([0]), "l2")
    >>> grown(memory, 2, "l2")["distance"].tolist()
    [[0.0, 2.0], [2.0, 0.0]]
    """
    earlier, fresh = len(memory["known"]), no_updates(count, known=known)
    features = np.zeros((count, memory["features"].shape[1]))
    features[:earlier] = memory["features"]
    fresh["known"][:earlier] = memory["known"]
    distance = fresh["distance"]
    distance[:earlier, :earlier] = memory["distance"]
    block = distances(features[earlier:], features, measure)
    distance[earlier:], distance[:, earlier:] = block, block.T
    return {**fresh, "features": features}


def distances(rows: FloatMatrix, others: FloatMatrix, measure: Measure) -> FloatMatrix:
    """(m, N) distances of (m, d) from (N, d) features.

    "angle": arccos of the cosine; "cosine": 1 - cosine; both take rows of length 1 or 0. An update
    of zeros is orthogonal to all others, and at distance 0 from updates of zeros. "l1", "l2":
    norms of the difference; "squared": l2 squared.

    >>> unit = np.array([[0.6, 0.8], [0.0, 0.0]])
    >>> distances(unit, unit, "cosine").round(12).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    if measure not in ("angle", "cosine"):
        # Imported here, since the import takes long and other samplers do without.
        from scipy.spatial.distance import cdist

        return np.asarray(cdist(rows, others, _METRICS[measure]))
    cosines = np.clip(rows @ others.T, -1.0, 1.0)
    result = np.arccos(cosines) if measure == "angle" else 1.0 - cosines
    result[np.ix_(~rows.any(axis=1), ~others.any(axis=1))] = 0.0
    return np.asarray(result)


def needed_updates(method: str, outcome: Outcome) -> FloatMatrix:
    """(m, d) the cohort's updates.

    Raises:
        SelectionError: the outcome has none.
    """
    if outcome.features is None:
        raise SelectionError(f"{method!r} needs the cohort's updates in outcome.features, got none")
    return outcome.features


def needed_distances(method: str, view: View) -> FloatMatrix:
    """(N, N) the distances in the memory.

    Raises:
        SelectionError: the view has no memory.
    """
    if "distance" not in view.memory:
        raise SelectionError(
            f"{method!r} needs the memory that start(clients) gives in view.memory, got none"
        )
    return view.memory["distance"]


def check_fits(method: str, count: int) -> None:
    """Refuse distances of N clients that do not fit into the memory of this process.

    Raises:
        ConfigError: too many clients.
    """
    needed, limit = 8 * 3 * count**2, memory_limit()
    if limit is not None and needed > limit:
        raise ConfigError(
            f"method {method!r} needs about {needed / 1e9:.1f} GB of memory for the distances of "
            f"{count} clients, and this process may use {limit / 1e9:.1f} GB; use fewer clients, "
            "or 'clustered_sizes' or 'md', which compare no clients"
        )
