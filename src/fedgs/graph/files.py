"""Client graphs in files: read, write, and the digest that a run's identity uses."""

import hashlib
import os
import zipfile
from pathlib import Path

import numpy as np

from fedgs.arrays import FloatMatrix, open_npz
from fedgs.errors import ConfigError, GraphError
from fedgs.graph.distance import check_lengths, first_asymmetry
from fedgs.graph.settings import ClientGraph

__all__ = ["digest_of", "save_graph", "stored_graph"]


def stored_graph(path: str, num_clients: int) -> ClientGraph:
    """The graph in an .npz file.

    The file has an array `distance`. `similarity` and `adjacency` are optional; without them,
    different clients have similarity 0 and no edge.

    Args:
        path: the file; a relative path starts at the working directory.
        num_clients: N.

    Raises:
        ConfigError: there is no such file, or it is not an .npz with `distance`.
        GraphError: a matrix is not (N, N) or not symmetric, or has entries that are not allowed.
    """
    arrays = _read(path)
    for name, matrix in arrays.items():
        if matrix.shape != (num_clients, num_clients):
            raise GraphError(
                f"method.graph.path {path!r}: {name} must have shape ({num_clients}, "
                f"{num_clients}), a row a client, got {matrix.shape}"
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
    """Write `similarity`, `adjacency` and `distance`, in the form that `method.graph.path` reads.

    Raises:
        ConfigError: the file name does not end in .npz.
    """
    if path.suffix != ".npz":
        raise ConfigError(f"--out must end in .npz, got {str(path)!r}")
    np.savez(path, similarity=graph.similarity, adjacency=graph.adjacency, distance=graph.distance)


def digest_of(path: str) -> str:
    """A hash of the distances in the file, part of a run's identity in place of the path."""
    distance = np.ascontiguousarray(_read(path)["distance"])
    return hashlib.sha256(repr(distance.shape).encode() + distance.tobytes()).hexdigest()


def _read(path: str) -> dict[str, FloatMatrix]:
    if not os.path.isfile(path):  # any text may be asked for
        raise ConfigError(f"method.graph.path must be a file, got {path!r}, which does not exist")
    try:
        with open_npz(path) as stored:
            names = [
                name for name in ("similarity", "adjacency", "distance") if name in stored.files
            ]
            arrays: dict[str, FloatMatrix] = {
                name: np.asarray(stored[name], dtype=np.float64) for name in names
            }
    except (OSError, ValueError, EOFError, TypeError, zipfile.BadZipFile) as error:
        raise ConfigError(f"method.graph.path {path!r} is not a readable .npz: {error}") from None
    if "distance" not in arrays:
        raise ConfigError(
            f"method.graph.path {path!r} must hold an array `distance`, got "
            f"{', '.join(names) or 'none'}"
        )
    return arrays
