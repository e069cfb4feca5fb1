"""The client graph as a drawing: positions of the clients, and the edges that are drawn."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import eigsh

from fedgs.arrays import FloatMatrix, IntArray
from fedgs.clients import Clients
from fedgs.errors import FedgsError
from fedgs.graph.settings import Graph
from fedgs.plurals import counted
from fedgs.report.run_view import Run

__all__ = ["Network", "network", "network_of_run"]

_NEAREST = 3  # neighbours of a client that are joined to it if there is no adjacency


@dataclass(frozen=True, eq=False)
class Network:
    """A drawing of the client graph.

    Attributes:
        positions: (N, 2) in the unit square.
        edges: (E, 2) pairs i < j, the shortest first.
        caption: what the edges are, in words.
        distance: (N, N) H.
    """

    positions: FloatMatrix
    edges: IntArray
    caption: str
    distance: FloatMatrix


def network_of_run(run: Run, *, most_edges: int = 3000) -> Network | None:
    """The drawing of a run that stored its distances, else None.

    The edges are those of the stored adjacency; without one, of the graph that the run's settings
    make of its clients, if that has the stored distances; else each client is joined to its
    nearest ones.
    """
    if run.clients is None:
        return None
    memory = run.memory()
    distance = memory.get("distance")
    if distance is None or distance.shape != (len(run.clients), len(run.clients)):
        return None
    if not np.isfinite(distance).all():
        return None
    adjacency = memory.get("adjacency")
    if adjacency is None:
        adjacency = _rebuilt_adjacency(run, run.clients, distance)
    return network(distance, adjacency, most_edges=most_edges)


def _rebuilt_adjacency(run: Run, clients: Clients, distance: FloatMatrix) -> FloatMatrix | None:
    """The adjacency by the run's settings, or None if it does not give the stored distances."""
    settings = run.table("method").get("graph", {})
    if not isinstance(settings, Mapping) or settings.get("path") is not None:
        return None
    if settings.get("similarity", "oracle") not in ("oracle", "private"):
        return None
    try:
        # Runs of earlier versions may hold settings that have no effect.
        ignored = Graph.without_effect(settings)
        effective = {key: value for key, value in settings.items() if key not in ignored}
        graph = Graph(**effective).of_clients(clients)
    except (FedgsError, ValueError, TypeError):
        return None
    return graph.adjacency if np.allclose(graph.distance, distance, rtol=1e-6, atol=1e-9) else None


def network(
    distance: FloatMatrix, adjacency: FloatMatrix | None = None, *, most_edges: int = 3000
) -> Network:
    """Positions from the distances, edges from the adjacency.

    Args:
        distance: (N, N) H, finite.
        adjacency: (N, N) edge lengths, inf for no edge; None: each client's three nearest are
            joined.
        most_edges: of more edges, only the shortest are drawn.

    >>> network(np.array([[0.0, 1.0], [1.0, 0.0]])).edges
    array([[0, 1]])
    """
    lengths = _nearest(distance) if adjacency is None else adjacency
    first, second = np.nonzero(np.triu(np.isfinite(lengths), 1))
    order = np.argsort(lengths[first, second], kind="stable")
    edges = np.stack([first, second], axis=1)[order]
    caption = (
        counted(len(edges), "edge")
        if adjacency is not None
        else f"each client is joined to its {_NEAREST} nearest"
    )
    if len(edges) > most_edges:
        caption = f"the {most_edges} shortest of {counted(len(edges), 'edge')}"
    edges = edges[:most_edges]
    return Network(_spread(_scaled(_by_distance(distance))), edges, caption, distance)


def _nearest(distance: FloatMatrix) -> FloatMatrix:
    """(N, N) the distances between each client and its nearest ones, inf for all other pairs."""
    lengths = np.full(distance.shape, np.inf)
    for client in range(len(distance)):
        others = np.argsort(
            np.where(np.arange(len(distance)) == client, np.inf, distance[client]), kind="stable"
        )
        near = others[: min(_NEAREST, len(distance) - 1)]
        lengths[client, near] = lengths[near, client] = distance[client, near]
    return lengths


def _by_distance(distance: FloatMatrix) -> FloatMatrix:
    """Classical scaling: (N, 2) points whose distances are close to H. O(N²) a step of Lanczos."""
    count = len(distance)
    squared = distance**2
    centred = -(squared - squared.mean(axis=0) - squared.mean(axis=1)[:, None] + squared.mean()) / 2
    if count < 10:
        values, vectors = np.linalg.eigh(centred)
        values, vectors = values[-2:], vectors[:, -2:]
    else:
        start = np.cos(np.arange(count) * 1.7)  # fixed, so that every call gives the same points
        values, vectors = eigsh(centred, k=2, which="LA", v0=start, tol=1e-6, maxiter=100 * count)
    points = vectors[:, ::-1] * np.sqrt(np.maximum(values[::-1], 0.0))
    # The sign of an eigenvector is arbitrary: the largest coordinate of each axis is positive.
    largest = points[np.abs(points).argmax(axis=0), np.arange(points.shape[1])]
    points = points * np.where(largest < 0, -1.0, 1.0)
    return np.pad(points, ((0, 0), (0, 2 - points.shape[1])))


def _spread(points: FloatMatrix, steps: int = 40) -> FloatMatrix:
    """Push overlapping clients apart, and no others, so that distances keep their meaning.

    O(steps·N²).
    """
    count = len(points)
    if count < 3:
        return np.array([[0.3, 0.5], [0.7, 0.5]])[:count] if count > 1 else np.array([[0.5, 0.5]])
    # By the golden angle, so that equal clients start apart and every call gives the same points.
    angle = np.arange(count) * 2.399963
    points = points + 0.01 * np.stack([np.cos(angle), np.sin(angle)], axis=1) / np.sqrt(count)
    wanted = 0.75 / np.sqrt(count)
    for _ in range(steps):
        gap_x, gap_y = (points[:, None, axis] - points[None, :, axis] for axis in (0, 1))
        length = np.sqrt(gap_x**2 + gap_y**2) + 1e-9
        push = 0.3 * np.maximum(wanted / length - 1.0, 0.0).clip(max=20.0)
        points = points + np.stack([(gap_x * push).sum(axis=1), (gap_y * push).sum(axis=1)], axis=1)
    return _scaled(points)


def _scaled(points: FloatMatrix) -> FloatMatrix:
    """Both axes moved and stretched into [0.04, 0.96]."""
    low, high = points.min(axis=0), points.max(axis=0)
    return np.asarray(0.04 + 0.92 * (points - low) / np.where(high > low, high - low, 1.0))
