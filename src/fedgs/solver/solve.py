"""From a selection problem to a cohort: reduction, then proof where the pool is small, else search."""

from math import comb
from time import perf_counter

import numpy as np

from fedgs.arrays import FloatArray, FloatMatrix, IntArray
from fedgs.errors import SelectionError
from fedgs.graph.distances import MatrixDistances
from fedgs.rng import stream
from fedgs.solver.problem import Distances, Effort, SelectionProblem, Solution, Status, check_available, objective
from fedgs.solver.reduction import reduce
from fedgs.solver.scales import Scale, balance_penalty, pair_weight
from fedgs.solver.search import best_swaps, enumerate_all, greedy, row_bound, value

__all__ = ["select", "solve"]

_ENUMERATED = 100_000  # pools with no more choices than this are searched completely


def solve(
    problem: SelectionProblem, *, effort: Effort = "default", time_limit: float | None = None, seed: int | np.random.Generator = 0
) -> Solution:
    """The best cohort that the effort finds, and how good it is.

    Args:
        problem: what to maximise.
        effort: iterations, not seconds: "fast", "default" or "thorough".
        time_limit: seconds; when they are over, the best cohort found so far is returned with status "time_limit".
        seed: breaks ties; an integer or a generator.

    >>> line = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    >>> solve(SelectionProblem(line, np.zeros(4), cohort_size=2, pair_weight=1.0)).cohort
    array([0, 3])
    """
    started = perf_counter()
    rng = seed if isinstance(seed, np.random.Generator) else stream(seed, "select")
    order = rng.permutation(problem.pool)
    cohort, slack, status = _decide(problem, order)
    cohort = np.sort(cohort)
    reached = objective(problem, cohort)
    return Solution(cohort, reached, reached + slack, status, perf_counter() - started)


def select(
    distance: FloatMatrix | Distances,
    sampling_counts: IntArray,
    available: IntArray,
    cohort_limit: int,
    alpha: float = 1.0,
    scale: Scale = "paper",
    seed: int | np.random.Generator = 0,
) -> IntArray:
    """One cohort of FedGS, for any framework: balanced counts, far apart in the graph.

    Args:
        distance: (N, N) matrix H, symmetric, >= 0, 0 on the diagonal, inf for unreachable; or a `MatrixDistances`, which is
            checked once instead of in every call.
        sampling_counts: (N,) in how many rounds before each client was selected, >= 0.
        available: (a,) indices of the clients that can be selected now.
        cohort_limit: M >= 1; where no more than M are available, all of them are the cohort.
        alpha: diversity weight >= 0; at 0 the smallest counts are selected.
        scale: "paper" or "cohort" (the authors' code).
        seed: breaks ties; give another in each round.

    Returns:
        (m,) ascending indices, m = min(M, a).

    Raises:
        SelectionError: one sentence that names the argument, what is allowed and what came.

    >>> line = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0))) / 3
    >>> select(line, np.array([0, 0, 0, 1]), np.array([0, 1, 2, 3]), 2)
    array([0, 2])
    """
    distances = distance if not isinstance(distance, np.ndarray | list) else np.asarray(distance, dtype=np.float64)
    counts, present = np.asarray(sampling_counts), np.asarray(available)
    total = len(distances)
    if counts.shape != (total,):
        raise SelectionError(f"sampling_counts must have shape ({total},), one a client, got {counts.shape}")
    if not (counts >= 0).all():
        raise SelectionError(f"sampling_counts must be >= 0, got {counts[~(counts >= 0)][0]}")
    check_available(present, total)
    if not isinstance(cohort_limit, int | np.integer) or cohort_limit < 1:
        raise SelectionError(f"cohort_limit must be an integer >= 1, got {cohort_limit!r}")
    size = min(int(cohort_limit), len(present))
    weight = pair_weight(alpha, scale, total, size)
    penalty = balance_penalty(counts, int(cohort_limit), present, scale)
    return solve(SelectionProblem(distances, penalty, size, weight, present), seed=seed).cohort


def _decide(problem: SelectionProblem, order: IntArray) -> tuple[IntArray, float, Status]:
    """A cohort, how far above it the optimum can lie at most, and the status."""
    size, weight, largest = problem.cohort_size, problem.pair_weight, problem.distances.maximum
    gains = -problem.balance_penalty[order]
    if size == len(order):
        return order, 0.0, "optimal"
    if size == 1 or weight * largest == 0:
        return order[np.argsort(-gains, kind="stable")[:size]], 0.0, "optimal"
    forced, clients, gains, left = _reduced(problem, order, gains)
    if left in (0, len(clients)):
        return np.concatenate([forced, clients[:left]]), 0.0, "optimal"
    block = _block(problem.distances, clients, clients)
    if comb(len(clients), left) <= _ENUMERATED:
        return np.concatenate([forced, clients[enumerate_all(block, gains, left)]]), 0.0, "optimal"
    tolerance = 1e-9 * largest
    chosen = best_swaps(block, gains, greedy(block, gains, left), tolerance=tolerance)
    slack = weight * (row_bound(block, gains, left) - value(block, gains, chosen))
    return np.concatenate([forced, clients[chosen]]), max(slack, 0.0), "optimal" if slack <= weight * tolerance else "bounded"


def _reduced(problem: SelectionProblem, order: IntArray, gains: FloatArray) -> tuple[IntArray, IntArray, FloatArray, int]:
    """Clients that are in for certain, and the residual problem in units of distance."""
    size, weight, largest = problem.cohort_size, problem.pair_weight, problem.distances.maximum
    always, opened = reduce(order, gains, size, weight * largest)
    forced, clients, left = order[always], order[opened], size - len(always)
    # Differences can be 1e-13 of the gains themselves: subtract what is common before anything is added.
    gains = (gains[opened] - gains[opened].max()) / weight
    gains = gains + _block(problem.distances, forced, clients).sum(axis=0)
    while 0 < left < len(clients):
        always, opened = reduce(clients, gains, left, largest)
        if len(opened) == len(clients):
            break
        added = clients[always]
        forced, clients, left = np.concatenate([forced, added]), clients[opened], left - len(added)
        gains = gains[opened] + _block(problem.distances, added, clients).sum(axis=0)
    return forced, clients, gains, left


def _block(distances: Distances, rows: IntArray, columns: IntArray) -> FloatMatrix:
    if isinstance(distances, MatrixDistances):
        return np.asarray(distances.matrix[np.ix_(rows, columns)])
    return np.asarray(distances.rows(rows)[:, columns])
