"""The edges between clients and their lengths (the paper's matrix R)."""

import numpy as np

from fedgs.arrays import BoolArray, FloatMatrix
from fedgs.errors import GraphError
from fedgs.graph.similarity import cosines, off_diagonal_range

__all__ = ["complete_edges", "edge_scale", "edge_weights"]


def edge_weights(
    similarity: FloatMatrix, *, epsilon: float, sigma_squared: float, power: int = 1
) -> FloatMatrix:
    """Edge lengths R_ij = exp(-(V_ij^p - V_min^p) / sigma²) where V_ij >= epsilon, else no edge.

    V_min is the smallest similarity that has an edge. The paper writes exp(-V_ij / sigma²);
    distances are normalised later, and leaving out the common factor brings lengths that span
    e^-10..e^-100 near 1. `edge_scale` is that factor.

    Args:
        similarity: (N, N) symmetric.
        epsilon: similarities below have no edge.
        sigma_squared: sigma² > 0.
        power: p, 1 (paper) or 2 (authors' code).

    Returns:
        (N, N) lengths in [0, 1], symmetric, 0 on the diagonal, inf for no edge.

    >>> similarity = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.6], [0.0, 0.6, 1.0]])
    >>> edge_weights(similarity, epsilon=0.1, sigma_squared=0.1).round(3)
    array([[0.   , 1.   ,   inf],
           [1.   , 0.   , 0.368],
           [  inf, 0.368, 0.   ]])
    """
    edges = _edges(similarity, epsilon)
    weights = np.full(similarity.shape, np.inf)
    if edges.any():
        exponents = similarity[edges]
        exponents **= power
        exponents -= exponents.min()
        np.negative(exponents, out=exponents)
        exponents /= sigma_squared
        weights[edges] = np.exp(exponents, out=exponents)
    np.fill_diagonal(weights, 0.0)
    return weights


def edge_scale(
    similarity: FloatMatrix, *, epsilon: float, sigma_squared: float, power: int = 1
) -> float:
    """exp(-V_min^p / sigma²): the factor that `edge_weights` leaves out; 1 if there is no edge.

    >>> edge_scale(np.array([[1.0, 0.5], [0.5, 1.0]]), epsilon=0.1, sigma_squared=0.5)
    0.36787944117144233
    """
    edges = _edges(similarity, epsilon)
    if not edges.any():
        return 1.0
    return float(np.exp(-(similarity[edges] ** power).min() / sigma_squared))


def complete_edges(products: FloatMatrix) -> FloatMatrix:
    """The complete graph of Theorem 1: R_ij = ‖e_i - e_j‖² = 2 - 2 cos(u_i, u_j), e = u / ‖u‖.

    Departure from the paper: R need not be its own shortest-path matrix, since squared distances
    break the triangle inequality (three points on an arc); `construction = "complete"` takes
    shortest paths, `"complete_direct"` R itself.

    >>> complete_edges(np.array([[1.0, 0.0], [0.0, 1.0]]))
    array([[0., 2.],
           [2., 0.]])
    """
    weights = cosines(products)
    weights *= 2.0
    np.subtract(2.0, weights, out=weights)
    np.fill_diagonal(weights, 0.0)
    return weights


def _edges(similarity: FloatMatrix, epsilon: float) -> BoolArray:
    if np.isnan(off_diagonal_range(similarity)).any():
        raise GraphError("similarities must be numbers, got NaN")
    edges = np.asarray(similarity >= epsilon)
    np.fill_diagonal(edges, False)
    return edges
