"""Build the landmark metric from features: choose landmarks, then give each client to one."""

from collections.abc import Callable
from typing import Literal

import numpy as np

from fedgs.arrays import BoolArray, FloatArray, FloatMatrix, IntArray
from fedgs.compiling import load_kernels
from fedgs.errors import GraphError
from fedgs.graph.distance import shortest_paths
from fedgs.graph.growth import model_similarity, unit_rows
from fedgs.graph.landmarks import LandmarkDistances, largest_distance
from fedgs.graph.settings import Graph
from fedgs.graph.similarity import feature_products
from fedgs.rng import stream

__all__ = ["choose_landmarks", "landmark_distances", "uses_landmarks"]

# Up to this number of clients `structure = "auto"` makes the graph of all pairs.
MOST_DENSE = 10_000
# Up to this number of coordinates the clients' features are given to landmarks.
MOST_COORDINATES = 256
# Landmarks with the largest values of each coordinate.
_HUBS = 4
# Clients among which further landmarks are searched.
_SAMPLE = 100_000
# Products that are computed at once without compiled code.
_BLOCK_PRODUCTS = 1_000_000
# As in `similarity`: a range of products below this share of the largest is rounding.
_ROUNDING = 1e-12


def uses_landmarks(graph: Graph, count: int, coordinates: int | None = None) -> bool:
    """Whether the graph of so many clients has landmarks, by its setting `structure`.

    "auto" chooses them above 10,000 clients where the graph can have them: threshold construction
    from features, of at most 256 numbers if the clients give them.

    Args:
        graph: the settings.
        count: N.
        coordinates: d of the clients' features; None: not known, or features of local models.

    >>> uses_landmarks(Graph(), 10_000), uses_landmarks(Graph(), 10_001)
    (False, True)
    """
    if graph.structure != "auto":
        return graph.structure == "landmarks"
    return (
        count > MOST_DENSE
        and graph.path is None
        and graph.construction == "threshold"
        and graph.similarity != "private"
        and (coordinates is None or coordinates <= MOST_COORDINATES)
    )


def landmark_distances(
    features: FloatMatrix,
    graph: Graph | None = None,
    *,
    of: Literal["clients", "models"] = "clients",
) -> LandmarkDistances:
    """The landmark metric of N clients, in O(N·L·d) time and O(N + L²) memory.

    Similarities, edges and their normalisation are those of `graph`. The smallest and the largest
    similarity are taken over all pairs of a client and a landmark. With at least N landmarks the
    distances are those of the whole graph.

    Args:
        features: (N, d), such as label proportions.
        graph: the settings, of construction "threshold"; None: `Graph()`.
        of: "clients": similarities are products of features, or cosines with
            `graph.normalize_by_norm`; "models": features of local models, with cosines >= 0.

    Raises:
        GraphError: another construction, or features that are not a finite matrix.

    >>> shares = np.random.default_rng(0).dirichlet(np.ones(3), 200)
    >>> metric = landmark_distances(shares, Graph(landmarks=20))
    >>> len(metric), len(metric.landmarks), metric.maximum
    (200, 20, 1.0)
    """
    graph = Graph() if graph is None else graph
    rows = np.ascontiguousarray(features, dtype=np.float64)
    if graph.construction != "threshold":
        raise GraphError(
            f"landmarks need graph.construction 'threshold', got {graph.construction!r}"
        )
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise GraphError(f"features must be a finite (N, d) matrix, got shape {rows.shape}")
    if len(rows) <= graph.landmarks:
        return _whole(rows, graph, of)
    if of == "models" or graph.normalize_by_norm:
        rows = unit_rows(rows)
    landmarks = choose_landmarks(rows, graph.landmarks)
    nearest, best, low, high = _nearest(rows, landmarks)
    products = _products(rows[landmarks], np.ascontiguousarray(rows[landmarks].T))
    if of == "clients" and graph.normalize_over == "all":
        own = np.einsum("kj,kj->k", rows, rows)
        low, high = min(low, float(own.min())), max(high, float(own.max()))
    if of == "models":
        best, low, high = np.clip(best, 0.0, 1.0), max(low, 0.0), min(max(high, 0.0), 1.0)
        products = np.clip(products, 0.0, 1.0)
    over = graph.normalize_over if of == "clients" else "off_diagonal" if graph.rescale else "none"
    scaled = _rescaling(low, high, none=over == "none")
    return _metric(graph, landmarks, nearest, best=scaled(best), between=scaled(products))


def choose_landmarks(vectors: FloatMatrix, number: int) -> IntArray:
    """The landmarks: clients with the largest coordinates, then clients far from all landmarks.

    For each coordinate, the 4 clients with its largest values are landmarks, up to half of
    `number`. Then the client that is farthest from all landmarks is added (farthest-first
    traversal), among 100,000 clients drawn by a fixed seed if there are more. It ends early if each
    of these has the features of a landmark.

    Args:
        vectors: (N, d).
        number: L, at most N.

    Returns:
        (at most L,) distinct clients in the order in which they were chosen.

    References:
        T. F. Gonzalez (1985): Clustering to minimize the maximum intercluster distance. Theoretical
        Computer Science 38.

    >>> choose_landmarks(np.array([[0.0], [1.0], [2.0], [9.0]]), 2)
    array([3, 0])
    """
    chosen = _hubs(vectors, max(1, number // 2))
    sample = np.arange(len(vectors))
    if len(sample) > _SAMPLE:
        rng = stream(0, "landmarks")
        sample = np.sort(rng.choice(len(vectors), _SAMPLE, replace=False))
    coordinates = np.ascontiguousarray(vectors[sample].T)  # (d, s)
    nearest = np.full(len(sample), np.inf)  # squared distance to the nearest landmark
    for place in range(number):
        if place == len(chosen):
            farthest = int(np.argmax(nearest))
            if nearest[farthest] == 0.0:
                break
            chosen.append(int(sample[farthest]))
        np.minimum(nearest, _squared(coordinates, vectors[chosen[place]]), out=nearest)
    return np.array(chosen, dtype=np.int64)


def _hubs(vectors: FloatMatrix, most: int) -> list[int]:
    """Clients with the largest values of the coordinates: each largest, then each second, ..."""
    ranked = []
    number = min(_HUBS, len(vectors))
    for values in vectors.T:
        least = np.partition(values, len(values) - number)[len(values) - number]
        candidates = np.flatnonzero(values >= least)
        ranked.append(candidates[np.lexsort((candidates, -values[candidates]))[:number]])
    by_rank = np.array(ranked, dtype=np.int64).T.ravel().tolist()
    return list(dict.fromkeys(by_rank))[:most]


def _squared(coordinates: FloatMatrix, vector: FloatArray) -> FloatArray:
    """(s,) squared distances of the columns from a vector, coordinate after coordinate."""
    total = np.zeros(coordinates.shape[1])
    for values, value in zip(coordinates, vector, strict=True):
        change = values - value
        change *= change
        total += change
    return total


def _nearest(
    vectors: FloatMatrix, landmarks: IntArray
) -> tuple[IntArray, FloatArray, float, float]:
    """Each client's landmark and product with it; the smallest and the largest of all products.

    A landmark is its own landmark; its product with itself counts for nothing.
    """
    nearest: IntArray = np.full(len(vectors), -1, dtype=np.int32)
    nearest[landmarks] = np.arange(len(landmarks))
    best = np.empty(len(vectors))
    across = np.ascontiguousarray(vectors[landmarks].T)
    kernels = load_kernels("fedgs.graph.landmark_kernels")
    if kernels is not None:
        low, high = kernels.nearest_landmarks(vectors, across, nearest, best)
        return nearest, best, float(low), float(high)
    low, high = np.inf, -np.inf
    step = max(1, _BLOCK_PRODUCTS // len(landmarks))
    for first in range(0, len(vectors), step):
        rows = slice(first, first + step)
        products = _products(vectors[rows], across)
        own: IntArray = nearest[rows]
        at = np.flatnonzero(own >= 0)
        products[at, own[at]] = products[at, (own[at] + 1) % len(landmarks)]
        low, high = min(low, float(products.min())), max(high, float(products.max()))
        where = np.argmax(products, axis=1)
        best[rows] = products[np.arange(len(where)), where]
        nearest[rows] = np.where(own < 0, where, own)
    return nearest, best, low, high


def _products(rows: FloatMatrix, across: FloatMatrix) -> FloatMatrix:
    """(k, L) products, summed in the order of the coordinates whatever the number of threads."""
    total = np.zeros((len(rows), across.shape[1]))
    for values, column in zip(rows.T, across, strict=True):
        total += values[:, None] * column[None, :]
    return total


def _rescaling(low: float, high: float, *, none: bool) -> Callable[[FloatArray], FloatArray]:
    """The function from products to similarities in [0, 1], as `min_max`."""
    if none:
        return lambda products: products
    if high - low <= _ROUNDING * max(abs(low), abs(high)):
        return np.ones_like
    return lambda products: np.asarray(np.clip((products - low) / (high - low), 0.0, 1.0))


def _metric(
    graph: Graph, landmarks: IntArray, nearest: IntArray, *, best: FloatArray, between: FloatMatrix
) -> LandmarkDistances:
    """The metric from similarities of clients and their landmarks, and among landmarks."""
    is_other = np.ones(len(nearest), dtype=bool)
    is_other[landmarks] = False
    apart = ~np.eye(len(landmarks), dtype=bool)
    hangs, joined = (best >= graph.epsilon) & is_other, (between >= graph.epsilon) & apart
    # As in `edge_weights`, lengths are in units of the longest edge.
    least = min(
        float((values[edges] ** graph.power).min(initial=np.inf))
        for values, edges in ((best, hangs), (between, joined))
    )

    def lengths(similarity: FloatArray, edges: BoolArray) -> FloatArray:
        powers = np.where(edges, similarity, 0.0) ** graph.power
        exponents = np.where(edges, (least - powers) / graph.sigma_squared, 0.0)
        return np.where(edges, np.exp(exponents), np.inf)

    pendant = np.where(is_other, lengths(best, hangs), 0.0)
    edges = lengths(between, joined)
    np.fill_diagonal(edges, 0.0)
    paths = shortest_paths(edges)
    largest = largest_distance(nearest, pendant, paths)
    if largest == 0.0:
        if np.isfinite(pendant).all() and np.isfinite(paths).all():
            # All edges have length 0: all pairs are alike, as pairs without a path.
            pendant[is_other], paths[apart] = np.inf, np.inf
        return LandmarkDistances(landmarks, nearest, pendant, paths)
    unit = largest if graph.normalize else float(np.exp(least / graph.sigma_squared))
    pendant /= unit
    paths /= unit
    return LandmarkDistances(landmarks, nearest, pendant, paths)


def _whole(features: FloatMatrix, graph: Graph, of: str) -> LandmarkDistances:
    """The metric in which every client is a landmark: the distances of the whole graph."""
    whole = (
        graph.of_products(feature_products(features))
        if of == "clients"
        else graph.of_similarity(model_similarity(features))
    )
    every = np.arange(len(features))
    return LandmarkDistances(every, every.astype(np.int32), np.zeros(len(features)), whole.distance)
