"""Selection problems of every kind, and what every solution must fulfil."""

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from fedgs.graph import Graph, feature_products, shortest_paths
from fedgs.solver import (
    Scale,
    SelectionProblem,
    Solution,
    balance_penalty,
    objective,
    pair_weight,
    plain,
    solve,
)

KINDS = (
    "paper graph",
    "authors graph",
    "euclidean",
    "uniform",
    "integer",
    "forest",
    "halves",
    "equal",
    "no edges",
    "huge",
    "line",
)


def distance_of(kind: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """(count, count) distances of clients' graphs, or from the maximum-diversity literature."""
    if kind in ("paper graph", "authors graph"):
        products = feature_products(rng.dirichlet(np.full(5, 0.5), count))
        graph = Graph(preset="paper" if kind == "paper graph" else "authors")
        return graph.of_products(products).distance
    if kind == "halves":
        shares = np.zeros((count, 6))
        for row in shares:
            row[rng.choice(6, 2, replace=False)] = 0.5
        return Graph().of_products(feature_products(shares)).distance
    if kind == "euclidean":
        points = rng.uniform(0, 10, (count, 3))
        matrix = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2))
    elif kind == "line":
        matrix = np.abs(np.subtract.outer(np.arange(float(count)), np.arange(float(count))))
    elif kind == "forest":
        weights = np.where(
            rng.random((count, count)) < 1.5 / count, rng.uniform(0.1, 1.0, (count, count)), np.inf
        )
        weights = np.minimum(weights, weights.T)
        np.fill_diagonal(weights, 0.0)
        return shortest_paths(weights)  # inf between components
    else:
        matrix = {
            "uniform": lambda: rng.uniform(0, 10, (count, count)),
            "integer": lambda: rng.integers(0, 11, (count, count)).astype(float),
            "equal": lambda: np.ones((count, count)),
            "no edges": lambda: np.full((count, count), np.inf),
            "huge": lambda: np.where(
                rng.random((count, count)) < 0.03, 1e12, rng.random((count, count))
            ),
        }[kind]()
    matrix = np.triu(matrix, 1)
    matrix = np.where(matrix.T > 0, matrix.T, matrix)
    np.fill_diagonal(matrix, 0.0)
    return matrix


def whole_number_problem(seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Whole numbers: sums are exact in any order, so two programs must make the very same moves."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(4, 30))
    W, gains = distance_of("integer", count, rng), rng.integers(-5, 6, count).astype(float)
    if seed % 2:  # twins: two by two at one place
        place = np.arange(count) // 2
        W, gains = W[np.ix_(place, place)], gains[place]
    return W, gains, int(rng.integers(2, count))


def problem_of(
    kind: str,
    count: int,
    seed: int,
    *,
    scale: Scale = "paper",
    alpha: float = 1.0,
    spread: int = 3,
    share: float = 1.0,
) -> SelectionProblem:
    """A problem with counts in 0..spread; about `share` of the clients are available."""
    rng = np.random.default_rng(seed)
    matrix = distance_of(kind, count, rng)
    available = np.flatnonzero(rng.random(count) < share)
    available = available if len(available) else np.arange(count)
    limit = int(rng.integers(1, count + 1))
    size = min(limit, len(available))
    penalty = balance_penalty(rng.integers(0, spread + 1, count), limit, available, scale)
    weight = pair_weight(alpha, scale, count, size)
    return SelectionProblem(matrix, penalty, size, weight, available)


@st.composite
def problems(draw: st.DrawFn, max_clients: int = 9) -> SelectionProblem:
    """Any small problem."""
    return problem_of(
        draw(st.sampled_from(KINDS)),
        draw(st.integers(1, max_clients)),
        draw(st.integers(0, 10**6)),
        scale=draw(st.sampled_from(["paper", "cohort"])),
        alpha=draw(st.sampled_from([0.0, 0.5, 1.0, 5.0, 100.0])),
        spread=draw(st.sampled_from([0, 1, 5])),
        share=draw(st.sampled_from([0.5, 1.0])),
    )


def assert_feasible(problem: SelectionProblem, solution: Solution) -> None:
    """Constraint by constraint."""
    cohort = solution.cohort
    assert cohort.dtype == np.int64
    assert len(cohort) == problem.cohort_size
    assert (np.diff(cohort) > 0).all()
    assert np.isin(cohort, problem.pool).all()
    assert solution.objective == pytest.approx(
        objective(problem, cohort), rel=1e-14, abs=1e-5 * unit(problem)
    )
    assert solution.upper_bound >= solution.objective
    assert solution.seconds >= 0


def unit(problem: SelectionProblem) -> float:
    """What counts as equal: 1e-9 of the largest pair, and the rounding of the sums."""
    scale = problem.pair_weight * problem.distances.maximum + np.abs(problem.balance_penalty).max()
    return (
        1e-9 * problem.pair_weight * problem.distances.maximum
        + 1e-13 * scale * problem.cohort_size**2
    )


def greedy_value(problem: SelectionProblem) -> float:
    pool = problem.pool
    block = problem.distances.rows(pool)[:, pool] * problem.pair_weight
    chosen = plain.greedy(block, -problem.balance_penalty[pool], problem.cohort_size)
    return objective(problem, np.sort(pool[chosen]))


def times_chosen(problem: SelectionProblem, seeds: int, **options: Any) -> np.ndarray:
    times = np.zeros(len(problem.distances), dtype=int)
    for seed in range(seeds):
        times[solve(problem, seed=seed, **options).cohort] += 1
    return times
