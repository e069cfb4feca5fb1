"""FedGS on the landmark metric: which graphs have it, its memory, and how good its cohorts are."""

import logging
import weakref
from typing import Literal, NamedTuple

import numpy as np

from fedgs.arrays import AnyArray, FloatArray, FloatMatrix
from fedgs.clients import Clients, Memory
from fedgs.errors import ConfigError, SelectionError
from fedgs.graph import Graph, LandmarkDistances, MatrixDistances, feature_products
from fedgs.graph.growth import model_similarity
from fedgs.graph.landmark_building import (
    MOST_COORDINATES,
    MOST_DENSE,
    landmark_distances,
    uses_landmarks,
)
from fedgs.graph.tree import SpanningForest
from fedgs.rng import stream
from fedgs.sampling.graph_source import graph_source
from fedgs.solver import SelectionProblem, objective, solve

__all__ = [
    "GOOD",
    "NUMERICS",
    "check_structure",
    "has_landmarks",
    "landmark_memory",
    "landmark_words",
    "measured_quality",
    "remembered",
]

NUMERICS = 1
"""The version of the metric over landmarks, as a part of a run's identity."""

_log = logging.getLogger("fedgs")

# Clients of the sample on which both graphs select a cohort, and the size of that cohort.
_SAMPLE = 2000
_COHORT = 100
# Up to this number of clients all may train before round 0 for their features.
_MOST_TRAINED = 100_000
GOOD = 0.99
"""The share of the full graph's dispersion below which a warning is given."""


def has_landmarks(graph: Graph, clients: Clients) -> bool:
    """Whether the graph of these clients has landmarks, see `uses_landmarks`.

    >>> labels = np.ones((3, 2), dtype=np.int64)
    >>> clients = Clients((0, 1, 2), np.full(3, 2), label_counts=labels)
    >>> has_landmarks(Graph(), clients), has_landmarks(Graph(structure="landmarks"), clients)
    (False, True)
    """
    return uses_landmarks(graph, len(clients), _coordinates(graph, clients))


def _coordinates(graph: Graph, clients: Clients) -> int | None:
    """How many numbers the oracle has of each client; None for features of local models."""
    vectors = clients.label_counts if clients.features is None else clients.features
    return None if vectors is None or graph.similarity != "oracle" else np.shape(vectors)[1]


def check_structure(graph: Graph, clients: Clients) -> None:
    """Refuse a structure that these clients' graph cannot have.

    Raises:
        ConfigError: landmarks for features that are too long, or too many clients for a private
            graph, or for one that trains all of them before round 0.
    """
    if graph_source(graph) == "local_models" and len(clients) > _MOST_TRAINED:
        raise ConfigError(
            f"method.graph.start must be 'seen' for similarity {graph.similarity!r} with more than "
            f"{_MOST_TRAINED} clients, since all of them would train before round 0, got 'all' and "
            f"{len(clients)} clients"
        )
    if graph.similarity == "private" and graph.path is None and len(clients) > MOST_DENSE:
        raise ConfigError(
            f"method.graph.similarity must not be 'private' with more than {MOST_DENSE} clients, "
            f"since each pair of them meets, got {len(clients)} clients"
        )
    coordinates = _coordinates(graph, clients)
    long = coordinates is not None and coordinates > MOST_COORDINATES
    if graph.structure == "landmarks" and long:
        raise ConfigError(
            "method.graph.structure = 'landmarks' needs client features of at most "
            f"{MOST_COORDINATES} numbers, got {coordinates}"
        )


def landmark_memory(
    graph: Graph, features: FloatMatrix, *, of: Literal["clients", "models"]
) -> Memory:
    """The landmark metric as named arrays, with its measured quality.

    Arrays: landmarks (L,), nearest (N,) int32, pendant (N,) and between (L, L), see
    `fedgs.graph.LandmarkDistances`; quality (2,), the share of `measured_quality` and the size of
    its sample. A share below 0.99 is warned of.

    Args:
        graph: the settings.
        features: (N, d) of clients or of local models.
        of: which of these.
    """
    metric = landmark_distances(features, graph, of=of)
    quality = measured_quality(graph, metric, features, of=of)
    memory: dict[str, AnyArray] = {
        "landmarks": metric.landmarks,
        "nearest": metric.nearest,
        "pendant": metric.pendant,
        "between": metric.between,
        "quality": quality,
    }
    if quality[0] < GOOD:
        _log.warning("the client graph has %s", landmark_words(memory, graph.landmarks))
    return memory


def measured_quality(
    graph: Graph,
    metric: LandmarkDistances,
    features: FloatMatrix,
    *,
    of: Literal["clients", "models"],
) -> FloatArray:
    """How good a cohort of the metric is in the full graph of a sample.

    The graph of the landmarks and of up to 2000 clients, drawn by a fixed seed, is made in full.
    From these clients, each of the two metrics selects a cohort, of 100 clients or a twentieth of
    fewer ones. Both cohorts are judged by the full graph's distances.

    Returns:
        (2,): the sum of distances in the metric's cohort as a share of that in the full graph's
        cohort, to 3 decimals, and the number of clients in the sample.

    >>> shares = np.random.default_rng(0).dirichlet(np.ones(3), 300)
    >>> graph = Graph(structure="landmarks", landmarks=100)
    >>> metric = landmark_distances(shares, graph)
    >>> measured_quality(graph, metric, shares, of="clients").tolist()
    [1.0, 200.0]
    """
    others = np.setdiff1d(np.arange(len(metric)), metric.landmarks)
    others = others if len(others) else np.arange(len(metric))
    rng = stream(0, "landmark quality")
    sample = np.sort(rng.choice(others, min(_SAMPLE, len(others)), replace=False))
    clients = np.union1d(sample, metric.landmarks)
    rows = np.asarray(features, dtype=np.float64)[clients]
    full = MatrixDistances(
        graph.of_products(feature_products(rows)).distance
        if of == "clients"
        else graph.of_similarity(model_similarity(rows)).distance
    )
    pool = np.searchsorted(clients, sample)
    size = min(_COHORT, max(1, len(pool) // 20))
    none = np.zeros(len(clients))
    whole, part = (
        SelectionProblem(distances, none, cohort_size=size, pair_weight=1.0, available=pool)
        for distances in (full, metric.restricted(clients))
    )
    reached, best = objective(whole, solve(part).cohort), objective(whole, solve(whole).cohort)
    share = reached / best if best > 0 else 1.0
    return np.array([round(share, 3), len(sample)])


def landmark_words(memory: Memory, most: int) -> str | None:
    """The graph of a memory in words; None if it has no landmarks.

    Args:
        memory: from `landmark_memory`.
        most: landmarks that the settings allow; there are fewer where they cover all features.

    >>> memory = {"landmarks": np.arange(1024), "quality": np.array([0.9987, 2000.0])}
    >>> landmark_words(memory, 1024)
    '1024 landmarks: .999 of the full graph on a sample of 2000'
    """
    if "landmarks" not in memory:
        return None
    share, sample = np.asarray(memory["quality"]).tolist()
    number = len(memory["landmarks"])
    words = (
        f"{number} landmarks: {f'{share:.3f}'.removeprefix('0')} of the full graph on a sample of "
        f"{sample:.0f}"
    )
    if share >= GOOD:
        return words
    advice = (
        "more landmarks bring cohorts nearer to the full graph's"
        if number >= most
        else "all features of the clients that landmarks are chosen from have one, so a larger "
        "graph.landmarks changes little"
    )
    return f"{words}, less than {GOOD}: {advice}"


class _Checked(NamedTuple):
    """What is known of arrays that were checked, without a reference that keeps them alive."""

    pendant: "weakref.ref[FloatArray]"
    maximum: float
    forest: SpanningForest


# id of the array `pendant` -> its check, as in `fedgs.graph.matrix_distances`.
_known: dict[int, _Checked] = {}


def remembered(memory: Memory) -> LandmarkDistances:
    """The metric of a memory; its arrays are checked once while they live.

    Raises:
        SelectionError: an array is missing.
    """
    names = ("landmarks", "nearest", "pendant", "between")
    if any(name not in memory for name in names):
        raise SelectionError(
            "'fedgs' needs the distances that start(clients) gives in view.memory, got none"
        )
    landmarks, nearest, pendant, between = (memory[name] for name in names)
    key = id(pendant)
    known = _known.get(key)
    if known is None or known.pendant() is not pendant:
        metric = LandmarkDistances(landmarks, nearest, pendant, between)
        reference = weakref.ref(pendant, lambda _: _known.pop(key, None))
        known = _Checked(reference, metric.maximum, metric.landmark_forest)
        _known[key] = known
    return LandmarkDistances.trusted(
        landmarks, nearest, pendant, between, maximum=known.maximum, forest=known.forest
    )
