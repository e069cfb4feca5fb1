"""How biased the average over a uniform cohort is (the paper's equations 18 to 23).

Uniform sampling of M of N clients without replacement, aggregation weights n_k / sum_S n_i: client
k's expected weight is about (n_k/n)·gamma_k. The step from E[1/(n_k + sigma)] to 1/(n_k + E[sigma])
is Jensen's gap; `expected_weights` has no such step.
"""

import math
from typing import Literal

import numpy as np

from fedgs.arrays import FloatArray, FloatMatrix, IntArray
from fedgs.errors import DataError
from fedgs.rng import stream

__all__ = ["expected_weights", "gamma"]


def gamma(data_sizes: IntArray, cohort_size: int) -> FloatArray:
    """(N,) factors gamma_k = 1 / (1 + (N-M)(n_k - mean n) / (M (N-1) mean n)).

    They are 1 for all clients when sizes are equal or M = N.

    Args:
        data_sizes: (N,) examples n_k >= 1.
        cohort_size: M.

    Raises:
        DataError: M not in 1..N.

    >>> gamma(np.array([1, 1, 4]), 2)
    array([1.14285714, 1.14285714, 0.8       ])
    """
    count = _checked(data_sizes, cohort_size)
    if count == 1:
        return np.ones(1)
    mean = data_sizes.mean()
    return np.asarray(
        1 / (1 + (count - cohort_size) * (data_sizes - mean) / (cohort_size * (count - 1) * mean))
    )


def expected_weights(
    data_sizes: IntArray,
    cohort_size: int,
    *,
    method: Literal["auto", "exact", "monte_carlo"] = "auto",
    draws: int = 20_000,
    seed: int = 0,
) -> FloatArray:
    """(N,) expected aggregation weights E[1(k in S)·n_k / sum_S n_i]; they sum to 1.

    Exact: 1/s is the integral of exp(-u s) over u >= 0, and the mean of exp(-u·sum of M-1 others)
    over cohorts is a normalised elementary symmetric polynomial. With u = exp(v) the trapezoid rule
    converges to about 1e-12. O(N·M) for each of about 200 nodes. Monte Carlo: the mean over `draws`
    cohorts, for federations too large for that.

    Args:
        data_sizes: (N,) examples n_k >= 1.
        cohort_size: M.
        method: "auto" is "monte_carlo" where N·M > 2·10⁵, else "exact".
        draws: cohorts for "monte_carlo".
        seed: of these cohorts.

    Raises:
        DataError: M not in 1..N.

    The cohorts (1, 1), (1, 4) and (1, 4) give (1/2 + 1/5)/3 and (4/5 + 4/5)/3:

    >>> expected_weights(np.array([1, 1, 4]), 2).round(6)
    array([0.233333, 0.233333, 0.533333])
    """
    count = _checked(data_sizes, cohort_size)
    if method == "monte_carlo" or (method == "auto" and count * cohort_size > 200_000):
        return _sampled(data_sizes, cohort_size, draws, seed)
    sizes = data_sizes / data_sizes.mean()
    others = np.sort(sizes)[: cohort_size - 1].sum()  # no cohort's sum is below n_k plus this
    step = 0.25
    start = math.log(1e-16 / sizes.max())
    stop = math.log(45.0 / max(float(sizes.min() + others), 1e-300))
    nodes = np.exp(np.arange(start, stop + step, step))
    weights = np.zeros(count)
    for u in np.array_split(nodes, max(1, len(nodes) * count * cohort_size // 4_000_000)):
        terms = np.exp(-np.outer(u, sizes))  # (U, N)
        integrand = u[:, None] * terms * _mean_without_each(terms, cohort_size - 1)
        weights += step * sizes * integrand.sum(axis=0)
    return weights * cohort_size / count


def _mean_without_each(terms: FloatMatrix, size: int) -> FloatMatrix:
    """(U, N) mean products of the subsets of `size` entries, with each entry left out in turn.

    Means over subsets of the first j and of the last N-1-j entries, by E_m(j) = (1 - m/j)·E_m(j-1)
    + (m/j)·a_j·E_{m-1}(j-1), are joined with hypergeometric weights: everything stays in [0, 1].
    """
    count = terms.shape[1]
    if size == 0:
        return np.ones_like(terms)
    before, after = _prefix_means(terms, size), _prefix_means(terms[:, ::-1], size)
    result = np.empty_like(terms)
    for left_out in range(count):
        left, right = left_out, count - 1 - left_out
        taken = np.arange(max(0, size - right), min(size, left) + 1)
        share = np.array(
            [math.exp(_log_choose(left, a) + _log_choose(right, size - a)) for a in taken.tolist()]
        )
        share /= share.sum()
        result[:, left_out] = (before[:, left][:, taken] * after[:, right][:, size - taken]) @ share
    return result


def _prefix_means(terms: FloatMatrix, size: int) -> FloatArray:
    """(U, N, size+1) mean products of the m-subsets of the first j entries, at [:, j, m].

    They are 0 for m > j.
    """
    rows, count = terms.shape
    means = np.zeros((rows, count, size + 1))
    means[:, 0, 0] = 1
    order = np.arange(1, size + 1)
    for j in range(1, count):
        share = np.minimum(order / j, 1.0)
        means[:, j, 0] = 1
        before = means[:, j - 1]
        means[:, j, 1:] = (1 - share) * before[:, 1:] + share * terms[:, j - 1, None] * before[
            :, :-1
        ]
        means[:, j, j + 1 :] = 0
    return means


def _log_choose(total: int, chosen: int) -> float:
    return math.lgamma(total + 1) - math.lgamma(chosen + 1) - math.lgamma(total - chosen + 1)


def _sampled(data_sizes: IntArray, cohort_size: int, draws: int, seed: int) -> FloatArray:
    rng = stream(seed, "expected_weights")
    weights = np.zeros(len(data_sizes))
    for _ in range(draws):
        cohort = rng.choice(len(data_sizes), cohort_size, replace=False)
        weights[cohort] += data_sizes[cohort] / data_sizes[cohort].sum()
    return weights / draws


def _checked(data_sizes: IntArray, cohort_size: int) -> int:
    if not 1 <= cohort_size <= len(data_sizes):
        raise DataError(
            f"the cohort size must be in 1..{len(data_sizes)}, the number of clients; "
            f"got {cohort_size}"
        )
    return len(data_sizes)
