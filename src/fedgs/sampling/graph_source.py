"""Where a client graph comes from: a file, the secure scalar product, or features of local models."""

import hashlib
import logging
import zipfile
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from fedgs.arrays import FloatMatrix
from fedgs.clients import Clients
from fedgs.errors import ConfigError, GraphError
from fedgs.graph import ClientGraph, Graph, client_features
from fedgs.graph.distance import check_lengths, first_asymmetry
from fedgs.graph.growth import embedded, model_similarity
from fedgs.secure import PrivateProducts, private_similarity

__all__ = ["digest_of", "graph_of_features", "private_graph", "private_products", "save_graph", "stored_graph"]

_log = logging.getLogger("fedgs")


def stored_graph(path: str, num_clients: int) -> ClientGraph:
    """The graph in an .npz: `distance`, and `similarity` and `adjacency` where it has them (else zeros and inf off the diagonal).

    Args:
        path: the file; a relative path starts at the working folder.
        num_clients: N.

    Raises:
        ConfigError: no such file, or not an .npz with `distance`.
        GraphError: a matrix that is not (N, N), symmetric, finite where it must be and 0 on the diagonal where it must be.
    """
    arrays = _read(path)
    for name, matrix in arrays.items():
        if matrix.shape != (num_clients, num_clients):
            raise GraphError(
                f"method.graph.path {path!r}: {name} must have shape ({num_clients}, {num_clients}), a row a client, got "
                f"{matrix.shape}"
            )
    for name in ("distance", "adjacency"):
        if name in arrays:
            check_lengths(arrays[name], f"method.graph.path {path!r}: {name}")
    if not np.isfinite(arrays["distance"]).all():
        raise GraphError(f"method.graph.path {path!r}: distance must be finite, got inf")
    similarity = arrays.get("similarity", np.eye(num_clients))
    if np.isnan(similarity).any() or first_asymmetry(similarity, rtol=1e-9, atol=1e-12) is not None:
        raise GraphError(f"method.graph.path {path!r}: similarity must be finite and symmetric")
    no_edges = np.where(np.eye(num_clients, dtype=bool), 0.0, np.inf)
    return ClientGraph(similarity, arrays.get("adjacency", no_edges), arrays["distance"])


def save_graph(path: Path, graph: ClientGraph) -> None:
    """Write `similarity`, `adjacency` and `distance` so that `method.graph.path` takes them."""
    if path.suffix != ".npz":
        raise ConfigError(f"--out must end in .npz, got {str(path)!r}")
    np.savez(path, similarity=graph.similarity, adjacency=graph.adjacency, distance=graph.distance)


def digest_of(path: str) -> str:
    """A hash of the distances in the file: what the path stands for, part of a run's identity."""
    distance = np.ascontiguousarray(_read(path)["distance"])
    return hashlib.sha256(repr(distance.shape).encode() + distance.tobytes()).hexdigest()


def _read(path: str) -> dict[str, FloatMatrix]:
    if not Path(path).is_file():
        raise ConfigError(f"method.graph.path must be a file, got {path!r}, which does not exist")
    try:
        with np.load(path, allow_pickle=False) as stored:
            names = [name for name in ("similarity", "adjacency", "distance") if name in stored.files]
            arrays = {name: np.asarray(stored[name], dtype=np.float64) for name in names}
    except (OSError, ValueError, EOFError, TypeError, zipfile.BadZipFile) as error:
        raise ConfigError(f"method.graph.path {path!r} is not a readable .npz: {error}") from None
    if "distance" not in arrays:
        raise ConfigError(f"method.graph.path {path!r} must hold an array `distance`, got {', '.join(names) or 'none'}")
    return arrays


def private_products(graph: Graph, clients: Clients) -> PrivateProducts:
    """The oracle's products u_i·u_j by the secure scalar product, with cost and failures; once for all runs on these clients.

    Where `value_range` is not given it is 1 for label proportions; for features it is the smallest power of two that holds all
    entries, which in a deployment has to be agreed on beforehand, since it says something about the largest entry.
    """
    return _products(clients, graph.protocol, graph.value_range, graph.dealer)


@lru_cache(maxsize=4)
def _products(
    clients: Clients, protocol: Literal["ring", "paper"], value_range: float | None, dealer: str | None
) -> PrivateProducts:
    vectors = client_features(clients)
    if protocol == "paper":
        return private_similarity(vectors, protocol="paper", dealer=dealer)
    if value_range is None:
        largest = float(np.abs(vectors).max(initial=0.0))
        value_range = float(2.0 ** np.ceil(np.log2(largest))) if clients.features is not None and largest > 0 else 1.0
    return private_similarity(vectors, value_range=value_range, dealer=dealer)


def private_graph(graph: Graph, clients: Clients, result: PrivateProducts | None = None) -> ClientGraph:
    """The graph of `private_products`; a client that went away is warned of by name, and its pairs are unknown."""
    result = private_products(graph, clients) if result is None else result
    gone = sorted({failure.client for failure in result.failures if failure.client is not None})
    if not gone:
        return graph.of_products(result.products)
    for client in gone:
        _log.warning("client %r went away during the secure scalar product; its distances are unknown", clients.names[client])
    rest = np.setdiff1d(np.arange(len(clients)), gone)
    return embedded(graph.of_products(result.products[np.ix_(rest, rest)]), rest, len(clients))


def graph_of_features(graph: Graph, features: FloatMatrix) -> ClientGraph:
    """The graph of (N, d) features of local models, for "update" and "functional"."""
    return graph.of_similarity(model_similarity(features))
