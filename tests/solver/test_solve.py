"""`solve` against brute force, with and without numba, and properties that every answer has."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.selection import brute_force, value
from tests.solver.conftest import (
    KINDS,
    assert_feasible,
    distance_of,
    greedy_value,
    problem_of,
    problems,
    times_chosen,
    unit,
)

from fedgs.bench.referee import milp_cohort
from fedgs.errors import SelectionError
from fedgs.graph import MatrixDistances
from fedgs.solver import SelectionProblem, solve


@given(problems(max_clients=9), st.sampled_from(["fast", "default", "thorough"]))
@settings(max_examples=150, deadline=None)
def test_equals_brute_force_and_says_so(problem: SelectionProblem, effort: Any) -> None:
    solution = solve(problem, effort=effort, seed=1)
    best, _ = brute_force(problem)
    assert_feasible(problem, solution)
    assert solution.objective == pytest.approx(
        value(problem, tuple(solution.cohort.tolist())), abs=unit(problem)
    )
    assert solution.objective == pytest.approx(best, abs=unit(problem))
    assert solution.upper_bound >= best - unit(problem)
    assert solution.status == "optimal"  # at most 126 choices


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [10, 11, 12])
def test_plain_numpy_equals_brute_force(kind: str, count: int, without_numba: None) -> None:
    for seed in range(2):
        problem = problem_of(kind, count, seed, scale="cohort")
        solution = solve(problem, seed=1)
        assert_feasible(problem, solution)
        assert solution.objective == pytest.approx(brute_force(problem)[0], abs=unit(problem))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [10, 11, 12])
def test_compiled_equals_brute_force(kind: str, count: int) -> None:
    for seed in range(4):
        problem = problem_of(
            kind, count, seed, scale=("paper", "cohort")[seed % 2], alpha=(1.0, 40.0)[seed // 2]
        )
        solution = solve(problem, seed=1)
        assert_feasible(problem, solution)
        best, _ = brute_force(problem)
        assert solution.objective == pytest.approx(best, abs=unit(problem))
        assert solution.upper_bound >= best - unit(problem)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", ["paper", "cohort"])
def test_larger_problems_are_feasible_and_bounded(kind: str, scale: str) -> None:
    problem = problem_of(kind, 80, 3, scale=scale, alpha=20.0, share=0.8)
    at_least = greedy_value(problem)
    answers = [solve(problem, effort=effort, seed=2) for effort in ("fast", "default")]
    for solution in answers:
        assert_feasible(problem, solution)
    assert answers[1].objective >= at_least - unit(problem)
    assert answers[1].objective >= answers[0].objective - unit(problem)
    assert min(a.upper_bound for a in answers) >= max(a.objective for a in answers) - unit(problem)


@pytest.mark.parametrize("kind", KINDS)
def test_plain_numpy_is_as_good_as_compiled(kind: str, without_numba: None) -> None:
    problem = problem_of(kind, 40, 8, scale="cohort", alpha=2.0)
    solution = solve(problem, seed=2)
    assert_feasible(problem, solution)
    assert solution.objective >= greedy_value(problem) - unit(problem)


@pytest.mark.long
@given(st.sampled_from(KINDS), st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_relabelled_clients_reach_the_same_objective(kind: str, seed: int) -> None:
    problem = problem_of(kind, 14, seed, scale="cohort")
    order = np.random.default_rng(seed).permutation(14)
    matrix = np.asarray(problem.distance)[np.ix_(order, order)]
    other = SelectionProblem(
        matrix,
        problem.balance_penalty[order],
        problem.cohort_size,
        problem.pair_weight,
        np.flatnonzero(np.isin(order, problem.pool)),
    )
    assert solve(other, effort="thorough").objective == pytest.approx(
        solve(problem, effort="thorough").objective, abs=unit(problem)
    )


def test_scaling_distances_is_scaling_alpha() -> None:
    problem = problem_of("euclidean", 14, 5)
    other = SelectionProblem(
        np.asarray(problem.distance) * 8,
        problem.balance_penalty,
        problem.cohort_size,
        problem.pair_weight / 8,
    )
    assert np.array_equal(solve(other, seed=3).cohort, solve(problem, seed=3).cohort)


def test_a_constant_added_to_all_counts_changes_nothing() -> None:
    problem = problem_of("paper graph", 30, 5)
    other = SelectionProblem(
        problem.distance, problem.balance_penalty + 1024.0, problem.cohort_size, problem.pair_weight
    )
    assert np.array_equal(solve(other, seed=3).cohort, solve(problem, seed=3).cohort)


def test_no_weight_takes_the_smallest_penalties() -> None:
    problem = SelectionProblem(
        np.ones((5, 5)) - np.eye(5), np.array([3.0, 1.0, 2.0, 9.0, 0.0]), 3, 0.0
    )
    solution = solve(problem)
    assert solution.cohort.tolist() == [1, 2, 4]
    assert solution.status == "optimal"


@pytest.mark.parametrize(
    ("size", "weight"), [(1, 1.0), (2, 0.0), (3, 1.0)], ids=["one", "no diversity", "all equal"]
)
def test_ties_are_decided_by_the_seed_not_by_the_client(size: int, weight: float) -> None:
    # Six equal clients, 600 seeds: each is chosen 100·size times; 6 standard deviations of a
    # binomial are 6·sqrt(600/4) < 74.
    problem = SelectionProblem(1.0 - np.eye(6), np.zeros(6), size, weight)
    times = np.zeros(6)
    for seed in range(600):
        times[solve(problem, seed=seed).cohort] += 1
    assert np.abs(times - 100 * size).max() < 74


def test_ties_of_twins_behind_a_search_favour_nobody() -> None:
    # Twenty places with three twins each, choose 12 of 60: by symmetry every twin of a place is as
    # likely as the other two.
    rng = np.random.default_rng(0)
    points = np.repeat(rng.uniform(0, 1, (20, 2)), 3, axis=0)
    matrix = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2))
    problem = SelectionProblem(MatrixDistances(matrix), np.zeros(60), 12, 1.0)
    times = np.zeros(60)
    for seed in range(150):
        times[solve(problem, seed=seed, effort="fast").cohort] += 1
    # 600 each if it is fair; all of the first twin if it were not.
    totals = times.reshape(20, 3).sum(axis=0)
    assert np.abs(totals - 600).max() < 90


@pytest.mark.parametrize("effort", ["fast", "default"])
def test_ties_between_cohorts_that_no_single_exchange_joins_favour_nobody(effort: Any) -> None:
    # Fifteen pairs far apart, choose two: each pair is chosen 20 times of 300, standard deviation
    # 4.3.
    pairs = np.where(np.arange(30)[:, None] // 2 == np.arange(30) // 2, 1.0, 0.6)
    np.fill_diagonal(pairs, 0.0)
    times = times_chosen(
        SelectionProblem(MatrixDistances(pairs), np.zeros(30), 2, 1.0), 300, effort=effort
    )
    assert np.array_equal(times[::2], times[1::2])
    assert np.abs(times - 20).max() < 6 * 4.3
    # A ring of 40, choose two: any two opposite each other; each client 15 times of 300, standard
    # deviation 3.8.
    apart = np.abs(np.subtract.outer(np.arange(40), np.arange(40)))
    ring = np.minimum(apart, 40 - apart).astype(float)
    times = times_chosen(
        SelectionProblem(MatrixDistances(ring), np.zeros(40), 2, 1.0), 300, effort=effort
    )
    assert np.abs(times - 15).max() < 6 * 3.8


def test_same_seed_same_cohort() -> None:
    problem = problem_of("euclidean", 60, 1, alpha=50.0)
    assert np.array_equal(solve(problem, seed=4).cohort, solve(problem, seed=4).cohort)
    assert np.array_equal(
        solve(problem, seed=4).cohort,
        solve(problem, seed=np.random.Generator(_stream_bits(4))).cohort,
    )


def _stream_bits(seed: int) -> np.random.BitGenerator:
    from fedgs.rng import stream

    return stream(seed, "select").bit_generator


@pytest.mark.parametrize("effort", ["default", "thorough"])
def test_outer_stop_returns_a_feasible_cohort_and_says_so(effort: Any) -> None:
    rng = np.random.default_rng(0)
    # Prices that differ say with whom the greedy choice begins, in whatever order the clients are
    # taken.
    problem = SelectionProblem(
        MatrixDistances(distance_of("uniform", 300, rng)), rng.permutation(300) / 300, 30, 1.0
    )
    for seed in range(3):
        solution = solve(problem, effort=effort, time_limit=1e-9, seed=seed)
        assert_feasible(problem, solution)
        assert solution.status == "time_limit"
        assert solution.objective >= greedy_value(problem) - unit(problem)


@pytest.mark.parametrize(("kind", "count"), [("uniform", 60), ("integer", 60), ("integer", 1200)])
def test_an_outer_stop_that_does_not_fire_changes_nothing(kind: str, count: int) -> None:
    problem = SelectionProblem(
        MatrixDistances(distance_of(kind, count, np.random.default_rng(1))), np.zeros(count), 6, 1.0
    )
    for seed in range(3):
        limited, free = solve(problem, time_limit=1000.0, seed=seed), solve(problem, seed=seed)
        assert np.array_equal(limited.cohort, free.cohort)
        assert (limited.status, limited.upper_bound) == (free.status, free.upper_bound)


@pytest.mark.parametrize("numba", [True, False])
def test_nearly_all_of_many_are_proven_by_who_is_left_out(
    numba: bool, request: pytest.FixtureRequest
) -> None:
    if not numba:
        request.getfixturevalue("without_numba")
    rng = np.random.default_rng(0)
    for count, size in ((14, 12), (310, 309), (310, 308), (200, 199)):
        matrix, penalty = distance_of("uniform", count, rng), rng.uniform(0, 50, count)
        solution = solve(SelectionProblem(matrix, penalty, size, 1.0), effort="thorough")
        worth = matrix.sum(axis=1) - penalty  # what a client adds to all the others
        pairs = worth[:, None] + worth - matrix
        np.fill_diagonal(pairs, np.inf)
        lost = worth.min() if count - size == 1 else pairs.min()
        assert solution.objective == pytest.approx(
            matrix.sum() / 2 - penalty.sum() - lost, rel=1e-12
        )
        assert solution.status == "optimal"


def test_most_of_a_large_pool_is_no_endless_proof() -> None:
    matrix = distance_of("uniform", 1500, np.random.default_rng(0))
    problem = SelectionProblem(MatrixDistances(matrix), np.zeros(1500), 1499, 1.0)
    assert_feasible(problem, solve(problem, effort="thorough", time_limit=1e-3))


def test_the_trivial_bound_is_never_below_the_value_and_proves_what_meets_it() -> None:
    rng = np.random.default_rng(0)
    group = rng.integers(0, 4, 400)
    matrix = np.triu(np.where(group[:, None] == group, 0.5 * rng.random((400, 400)), 1.0), 1)
    problem = SelectionProblem(
        MatrixDistances(matrix + matrix.T), rng.integers(0, 3, 400) * 0.1, 2, 1.0
    )
    solution = solve(problem, effort="fast")
    assert_feasible(problem, solution)
    assert solution.status == "optimal"


@pytest.mark.parametrize(
    ("kind", "scale"),
    [
        ("paper graph", "paper"),
        ("paper graph", "cohort"),
        ("euclidean", "paper"),
        ("uniform", "paper"),
    ],
)
def test_certificates_beyond_enumeration_agree_with_highs(kind: str, scale: str) -> None:
    rng = np.random.default_rng(7)
    matrix = distance_of(kind, 60, rng)
    penalty = 2.0 * rng.integers(0, 3, 60) / (1 if scale == "paper" else 59)
    problem = SelectionProblem(
        matrix, penalty, 5, (2 / 60 if scale == "paper" else 0.1) / matrix.max()
    )
    solution = solve(problem, effort="thorough")
    assert solution.status == "optimal"
    _, reached, proven = milp_cohort(problem, time_limit=20.0)
    assert solution.objective >= reached - unit(problem)
    if proven:
        assert solution.objective == pytest.approx(reached, abs=1e-5)


@pytest.mark.parametrize("count", [50, 80])
def test_distances_by_rows_equal_the_matrix(count: int) -> None:
    matrix = distance_of("paper graph", count, np.random.default_rng(1))

    class ByRows:
        maximum, tree = float(matrix.max()), MatrixDistances(matrix).tree

        def __len__(self) -> int:
            return len(matrix)

        def rows(self, clients: np.ndarray) -> np.ndarray:
            return matrix[clients]

    penalty = np.random.default_rng(2).integers(0, 3, count) / (count - 1)
    given_matrix = solve(SelectionProblem(matrix, penalty, 7, 0.1), seed=5)
    by_rows = solve(SelectionProblem(ByRows(), penalty, 7, 0.1), seed=5)
    assert np.array_equal(by_rows.cohort, given_matrix.cohort)
    # A few clients of a matrix are put in another order, and the bonuses that draw between equals
    # are part of the bound.
    bonuses = 1e-10 * 0.1 * ByRows.maximum if count <= 64 else 0.0
    assert abs(by_rows.upper_bound - given_matrix.upper_bound) <= bonuses


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"effort": "hard"}, "solver.effort must be 'fast', 'default' or 'thorough', got 'hard'"),
        ({"time_limit": 0.0}, "solver.time_limit must be > 0 seconds or None, got 0.0"),
        ({"time_limit": float("nan")}, "solver.time_limit must be > 0 seconds or None, got nan"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        solve(problem_of("line", 5, 0), **options)
