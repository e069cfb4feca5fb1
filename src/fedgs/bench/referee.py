"""The selection problem as a mixed-integer program for HiGHS: an independent, slow referee."""

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, vstack

from fedgs.arrays import IntArray
from fedgs.solver.problem import SelectionProblem, block_of, objective

__all__ = ["milp_cohort"]


def milp_cohort(
    problem: SelectionProblem, *, time_limit: float | None = None
) -> tuple[IntArray, float, bool]:
    """The cohort that HiGHS finds, its value by our own objective, and whether it is proven.

    The proof holds to HiGHS's tolerance of 1e-6. The program has binary x_i, continuous
    y_ij <= x_i, x_j for pairs i<j, sum of x = m, and for each i: sum of y_ij over j = (m-1) x_i.

    >>> line = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    >>> milp_cohort(SelectionProblem(line, np.zeros(4), cohort_size=2, pair_weight=1.0))[:2]
    (array([0, 3]), 3.0)
    """
    pool, size = problem.pool, problem.cohort_size
    count = len(pool)
    left, right = np.triu_indices(count, 1)
    pairs = np.arange(len(left))
    weights = problem.pair_weight * block_of(problem.distances, pool, pool)[left, right]
    cost = np.concatenate([problem.balance_penalty[pool], -weights])
    shape = (len(left), count + len(left))
    twice = np.repeat([1.0, -1.0], len(left))
    below = [
        coo_array((twice, (np.tile(pairs, 2), np.concatenate([count + pairs, ends]))), shape=shape)
        for ends in (left, right)
    ]
    linked = coo_array(
        (
            np.concatenate([np.ones(2 * len(left)), np.full(count, -(size - 1.0))]),
            (
                np.concatenate([left, right, np.arange(count)]),
                np.concatenate([count + pairs, count + pairs, np.arange(count)]),
            ),
        ),
        shape=(count, count + len(left)),
    )
    chosen = np.concatenate([np.ones(count), np.zeros(len(left))])
    answer = milp(
        cost,
        constraints=[
            LinearConstraint(vstack(below).tocsr(), -np.inf, 0.0),
            LinearConstraint(linked.tocsr(), 0.0, 0.0),
            LinearConstraint(chosen[None, :], size, size),
        ],
        integrality=chosen,
        bounds=Bounds(0.0, 1.0),
        options={} if time_limit is None else {"time_limit": time_limit},
    )
    if answer.x is None:
        return np.sort(pool[:size]), objective(problem, np.sort(pool[:size])), False
    cohort = np.sort(pool[np.argsort(-answer.x[:count], kind="stable")[:size]])
    return cohort, objective(problem, cohort), bool(answer.status == 0)
