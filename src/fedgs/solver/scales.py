"""A selection problem's numbers from sampling counts and alpha, in both scales.

Equations (14) to (17) of the paper.
"""

from math import inf, isfinite
from numbers import Real
from typing import Literal

import numpy as np

from fedgs.arrays import FloatArray, IntArray
from fedgs.errors import SelectionError

__all__ = ["Scale", "balance_bound", "balance_penalty", "pair_weight"]

Scale = Literal["paper", "cohort"]


def balance_penalty(
    counts: IntArray | FloatArray, cohort_limit: int, available: IntArray, scale: Scale = "paper"
) -> FloatArray:
    """The price z of selecting each client: clients that were selected more often cost more.

    "paper": z_k = 2 (v_k - mean(v) - M/N) + 1, the mean over all N clients. "cohort", the authors'
    code: the same with m/|A_t| in place of M/N, divided by N - 1.

    Args:
        counts: (N,) sampling counts v_k >= 0, or other numbers in units of one selection, of which
            only the differences matter for the best cohort.
        cohort_limit: M >= 1.
        available: (a,) indices of the available clients A_t.
        scale: "paper" or "cohort".

    Returns:
        (N,) penalties z_k.

    >>> balance_penalty(np.array([0, 1, 2, 3]), 2, np.arange(4), "paper")
    array([-3., -1.,  1.,  3.])
    """
    total, size = len(counts), len(available)
    share = cohort_limit / total if scale == "paper" else min(cohort_limit, size) / size
    penalty = np.array(counts, dtype=np.float64)
    penalty -= np.add.reduce(penalty) / total
    penalty -= share
    penalty *= 2.0
    penalty += 1.0
    if scale != "paper":
        penalty /= max(total - 1, 1)
    return penalty


def balance_bound(clients: int, cohort_size: int) -> float:
    """The alpha below which balance decides before diversity in `paper` scale: N/(m-1).

    Replacing a client of the cohort changes the sum of the counts by 0 or by at least 1, and so the
    sum of the penalties by at least 2. With distances of at most 1, it changes the diversity term
    by at most 2 alpha (m-1)/N. For every alpha in (0, N/(m-1)) the best cohorts are therefore the
    same: smallest counts first, then the largest dispersion.

    Args:
        clients: N.
        cohort_size: m >= 1.

    Returns:
        The bound; inf for cohorts of one client, which have no pairs.

    >>> balance_bound(30, 6), balance_bound(30, 1)
    (6.0, inf)
    """
    return clients / (cohort_size - 1) if cohort_size > 1 else inf


def pair_weight(alpha: float, scale: Scale, clients: int, cohort_size: int) -> float:
    """The weight of one unordered pair of selected clients.

    "paper": 2·alpha/N. "cohort": 2·alpha/(m(m-1)), and 0 where m = 1.

    Args:
        alpha: diversity weight >= 0.
        scale: "paper" or "cohort".
        clients: N.
        cohort_size: m.

    Raises:
        SelectionError: an alpha that is negative or not finite, or an unknown scale.

    >>> pair_weight(1.0, "paper", 100, 10), pair_weight(1.0, "cohort", 100, 5)
    (0.02, 0.1)
    """
    if not (isinstance(alpha, Real) and alpha >= 0 and isfinite(alpha)):
        raise SelectionError(f"alpha must be >= 0 and finite, got {alpha}")
    if scale == "paper":
        return 2.0 * alpha / clients
    if scale != "cohort":
        raise SelectionError(f"scale must be 'paper' or 'cohort', got {scale!r}")
    return 2.0 * alpha / (cohort_size * (cohort_size - 1)) if cohort_size > 1 else 0.0
