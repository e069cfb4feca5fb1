"""Similarity of clients: products of their features, rescaled to [0, 1] (the paper's matrix V)."""

from collections.abc import Iterator
from typing import Literal

import numpy as np

from fedgs.arrays import FloatArray, FloatMatrix
from fedgs.clients import Clients
from fedgs.errors import GraphError

__all__ = [
    "LARGEST_SQUARE",
    "NormalizeOver",
    "blocks",
    "client_features",
    "cosines",
    "feature_products",
    "min_max",
    "off_diagonal_range",
]

NormalizeOver = Literal["off_diagonal", "all", "none"]

# Products of identical vectors differ in their last bits; a range below this share of the largest
# entry is rounding.
_ROUNDING = 1e-12
_BLOCK_ROWS = 256

LARGEST_SQUARE = 1e300
"""Sums and differences of many products up to this size are finite in float64."""


def client_features(clients: Clients) -> FloatMatrix:
    """(N, d) vectors u_k of the oracle: the clients' features or, without these, label proportions.

    Raises:
        GraphError: the clients have neither features nor labels, the features have no column, or
            one is not finite or too large to be multiplied.

    >>> client_features(Clients((0,), np.array([4]), label_counts=np.array([[1, 3]])))
    array([[0.25, 0.75]])
    """
    if clients.features is not None:
        features = np.asarray(clients.features, dtype=np.float64)
    elif clients.label_counts is not None:
        counts = np.asarray(clients.label_counts, dtype=np.float64)
        features = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    else:
        raise GraphError(
            "the graph of similarity 'oracle' needs client features or labels, and these clients "
            "have neither; data.groups gives groups instead of labels"
        )
    bad = np.flatnonzero(~np.isfinite(features).all(axis=1))
    if len(bad):
        name = clients.names[int(bad[0])]
        raise GraphError(f"client features must be finite; those of client {name!r} are not")
    if features.shape[1] == 0:
        raise GraphError(
            "client features must have at least one number for each client, got shape "
            f"{features.shape}"
        )
    with np.errstate(over="ignore"):
        long = np.flatnonzero(np.einsum("kj,kj->k", features, features) > LARGEST_SQUARE)
    if len(long):
        raise GraphError(
            f"client features must be vectors of length at most {LARGEST_SQUARE**0.5:g}, since "
            f"the graph multiplies them; that of client {clients.names[int(long[0])]!r} is longer"
        )
    return features


def feature_products(features: FloatMatrix) -> FloatMatrix:
    """(N, N) dot products u_i·u_j of (N, d) features, exactly symmetric. O(N²·d).

    >>> feature_products(np.array([[1.0, 0.0], [1.0, 1.0]]))
    array([[1., 1.],
           [1., 2.]])
    """
    rows = np.asarray(features, dtype=np.float64)
    products: FloatMatrix = rows @ rows.T
    for upper in blocks(len(products)):
        for left in blocks(upper.stop):
            mean = (products[upper, left] + products[left, upper].T) / 2
            products[upper, left] = mean
            products[left, upper] = mean.T
    return products


def cosines(products: FloatMatrix) -> FloatMatrix:
    """(N, N) products divided by both norms, in [-1, 1]; exactly symmetric.

    A zero vector has similarity 0 to all vectors, also to itself.

    Args:
        products: (N, N) dot products, with those of each client with itself on the diagonal.

    Raises:
        GraphError: an entry of the diagonal is not finite.

    >>> cosines(np.array([[4.0, 2.0], [2.0, 4.0]]))
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    norms = np.sqrt(np.maximum(np.diagonal(products), 0.0))
    if not np.isfinite(norms).all():
        raise GraphError(
            "normalize_by_norm needs every client's own product on the diagonal; it is missing for "
            "at least one"
        )
    scale: FloatArray = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    between = products * scale[:, None]
    between *= scale[None, :]
    symmetric: FloatMatrix = between + between.T  # exactly symmetric
    symmetric /= 2
    return np.asarray(np.clip(symmetric, -1.0, 1.0, out=symmetric))


def blocks(count: int) -> Iterator[slice]:
    """Ranges of at most 256 rows, to process a matrix without a copy of all of it.

    >>> list(blocks(300))
    [slice(0, 256, None), slice(256, 300, None)]
    """
    return (slice(first, min(first + _BLOCK_ROWS, count)) for first in range(0, count, _BLOCK_ROWS))


def off_diagonal_range(matrix: FloatMatrix) -> tuple[float, float]:
    """The smallest and the largest of the entries i≠j; NaN if one is NaN.

    (inf, -inf) for fewer than two rows.
    """
    low, high = np.inf, -np.inf
    for rows in blocks(len(matrix)):
        part, diagonal = matrix[rows].copy(), np.arange(rows.stop - rows.start)
        part[diagonal, diagonal + rows.start] = np.inf
        low = np.minimum(low, part.min())
        part[diagonal, diagonal + rows.start] = -np.inf
        high = np.maximum(high, part.max())
    return float(low), float(high)


def min_max(similarity: FloatMatrix, over: NormalizeOver) -> FloatMatrix:
    """Similarities rescaled linearly to [0, 1].

    Args:
        similarity: (N, N) symmetric.
        over: which entries give minimum and maximum. "off_diagonal": the pairs i≠j (then V_ii is
            set to 1); "all": all i, j, the paper's reading; "none": nothing is rescaled.

    Returns:
        (N, N); if all these entries are equal, every V_ij is 1.

    >>> min_max(np.array([[9.0, 1.0, 3.0], [1.0, 9.0, 2.0], [3.0, 2.0, 9.0]]), "off_diagonal")
    array([[1. , 0. , 1. ],
           [0. , 1. , 0.5],
           [1. , 0.5, 1. ]])
    """
    if over == "none":
        return similarity
    if len(similarity) <= (over == "off_diagonal"):  # no entry gives a minimum
        return np.ones_like(similarity)
    if over == "off_diagonal":
        low, high = off_diagonal_range(similarity)
    else:
        low, high = float(similarity.min()), float(similarity.max())
    if high - low <= _ROUNDING * max(abs(low), abs(high)):
        return np.ones_like(similarity)
    scaled = similarity - low
    scaled /= high - low
    np.clip(scaled, 0.0, 1.0, out=scaled)
    if over == "off_diagonal":
        np.fill_diagonal(scaled, 1.0)
    return np.asarray(scaled)
