"""The geometry of theorem 1: distances, cones and determinants of label distributions.

Clients are label distributions p_k in the simplex of R^C, e_k = p_k / |p_k|, R_ij = |e_i - e_j|².
A cohort recovers the full update if the global distribution p* lies in the cone of its p_k. For
M = C clients the probability is |det[p_1 .. p_C]| if p* is uniform on the simplex. If the direction
of p* is uniform on the sphere, it is the cone's solid angle as a share of the orthant's, which is a
different number. For M > C, non-negative least squares decides whether p* lies in the cone.
"""

import numpy as np
from scipy.optimize import nnls
from scipy.stats import rankdata

from fedgs.arrays import AnyArray, FloatArray, FloatMatrix
from fedgs.graph import shortest_paths
from fedgs.rng import stream

__all__ = [
    "cone_share",
    "distances",
    "further_but_smaller",
    "mean_distance",
    "rank_correlation",
    "solid_angle",
]

_INSIDE = 1e-9  # smaller residuals are rounding errors


def distances(columns: FloatMatrix) -> FloatMatrix:
    """(M, M) squared distances of (C, M) columns that are scaled to length 1.

    >>> distances(np.array([[1.0, 0.0], [0.0, 1.0]]))
    array([[0., 2.],
           [2., 0.]])
    """
    unit = columns / np.linalg.norm(columns, axis=0)
    result = np.maximum(2.0 - 2.0 * unit.T @ unit, 0.0)
    np.fill_diagonal(result, 0.0)
    return np.asarray((result + result.T) / 2)


def mean_distance(columns: FloatMatrix, *, paths: bool = False) -> float:
    """f(S) of equation 24: the mean of R over ordered pairs, or of the shortest paths H on R."""
    matrix = distances(columns)
    size = len(matrix)
    return float((shortest_paths(matrix) if paths else matrix).sum() / (size * (size - 1)))


def solid_angle(columns: FloatMatrix, directions: FloatMatrix) -> float:
    """Share of (C, D) directions of the orthant that lie in the cone of (C, C) columns.

    The Monte Carlo standard error is at most .5/sqrt(D).

    >>> directions = np.abs(np.random.default_rng(0).standard_normal((2, 1000)))
    >>> half = np.array([[1.0, 0.5], [0.0, 0.5]])
    >>> solid_angle(np.eye(2), directions), round(solid_angle(half, directions), 1)
    (1.0, 0.5)
    """
    if abs(np.linalg.det(columns)) < 1e-14:
        return 0.0
    return float((np.linalg.solve(columns, directions) >= 0).all(axis=0).mean())


def cone_share(columns: FloatMatrix, points: FloatMatrix) -> float:
    """Share of (C, D) points that lie in the cone of (C, M) columns, by non-negative least squares.

    >>> cone_share(np.eye(2), np.array([[0.3, 0.9], [0.7, 0.1]]))
    1.0
    """
    return float(np.mean([nnls(columns, point)[1] < _INSIDE for point in points.T]))


def further_but_smaller(seed: int) -> FloatArray:
    """(2, 3, 3): two cohorts of three clients.

    The first has the larger mean distance and the smaller determinants.
    """
    rng = stream(seed, "theorem1 counter-example")
    sets = rng.multinomial(10, rng.dirichlet(np.ones(3), size=(400, 3))).transpose(0, 2, 1) / 10
    unit = sets / np.linalg.norm(sets, axis=1, keepdims=True)
    determinant, unit_determinant = _determinants(sets), _determinants(unit)
    distance: FloatArray = np.array([mean_distance(cohort) for cohort in sets])
    gain = distance[:, None] - distance[None, :]
    loss = np.minimum(
        determinant[None, :] - determinant[:, None],
        unit_determinant[None, :] - unit_determinant[:, None],
    )
    # Cohorts of equal clients are left out.
    worth = np.where(determinant[:, None] > 0.02, np.minimum(gain, loss), -np.inf)
    first, second = divmod(int(np.argmax(worth)), len(sets))
    return np.stack([sets[first], sets[second]])


def _determinants(sets: AnyArray) -> FloatArray:
    """(S,) |det| of (S, C, C) matrices."""
    return np.array([abs(float(np.linalg.det(columns))) for columns in sets])


def rank_correlation(first: FloatArray, second: FloatArray) -> float:
    """Spearman's rank correlation; NaN if one of them is constant.

    >>> rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([1.0, 4.0, 9.0]))
    1.0
    """
    ranks = np.stack([rankdata(first), rankdata(second)])
    if np.any(ranks.std(axis=1) == 0):
        return float("nan")
    return float(round(float(np.asarray(np.corrcoef(ranks))[0, 1]), 12))
