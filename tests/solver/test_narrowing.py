"""Which clients the landmark metric leaves: without loss, and with ties at random."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.graph.test_landmarks import metrics

from fedgs.errors import SelectionError
from fedgs.graph import Graph, LandmarkDistances, landmark_distances
from fedgs.solver import SelectionProblem, limits, objective, select, solve
from fedgs.solver.narrowing import can_be_narrowed, longest, narrowed


@given(
    metrics(),
    st.integers(2, 4),
    st.sampled_from([0.02, 1.0, 50.0]),
    st.integers(0, 10**6),
)
@settings(max_examples=150)
def test_no_better_cohort_is_lost(
    metric: LandmarkDistances, size: int, weight: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    pool = np.sort(rng.choice(len(metric), rng.integers(1, len(metric) + 1), replace=False))
    problem = SelectionProblem(
        metric, rng.integers(0, 3, len(metric)) * 2.0, min(size, len(pool)), weight, pool
    )
    best = max(
        objective(problem, np.array(cohort))
        for cohort in combinations(pool.tolist(), problem.cohort_size)
    )
    if can_be_narrowed(problem):
        part, clients = narrowed(problem, rng)
        again = max(
            objective(part, np.array(cohort))
            for cohort in combinations(part.pool.tolist(), part.cohort_size)
        )
        assert np.isin(clients[part.pool], pool).all()
        assert again == pytest.approx(best, rel=1e-12, abs=1e-12)
    solution = solve(problem, effort="thorough", seed=seed)
    assert solution.objective == pytest.approx(objective(problem, solution.cohort))
    assert solution.upper_bound >= best - 1e-9 * max(1.0, abs(best))
    assert np.isin(solution.cohort, pool).all()
    if solution.status == "optimal":
        assert solution.objective == pytest.approx(best, rel=1e-9, abs=1e-9)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=30),
    st.integers(1, 4),
)
def test_the_longest_of_each_group_are_kept(pairs: list[tuple[int, int]], size: int) -> None:
    groups, worth = (np.array(column) for column in zip(*pairs, strict=True))
    kept = longest(groups, worth.astype(float), size)
    expected = [
        place
        for group in range(4)
        for place in sorted(
            (place for place in range(len(pairs)) if groups[place] == group),
            key=lambda place: (-worth[place], place),
        )[:size]
    ]
    assert sorted(kept.tolist()) == sorted(expected)


def test_only_the_longest_edges_of_each_landmark_are_left() -> None:
    # Four clients at landmark 0 with edges 1, 2, 3, 4 and equal counts: of a cohort of two, only
    # the two longest can be members. The landmark itself is the vertex through which they hang.
    metric = LandmarkDistances(
        np.array([0]), np.zeros(5, dtype=int), np.array([0.0, 1, 2, 3, 4]), np.zeros((1, 1))
    )
    problem = SelectionProblem(metric, np.zeros(5), 2, 1.0)
    part, clients = narrowed(problem, np.random.default_rng(0))
    assert clients.tolist() == [0, 3, 4]
    assert clients[part.pool].tolist() == [3, 4]
    assert solve(problem).cohort.tolist() == [3, 4]
    # A penalty of 9 for client 4 outweighs its edge: 4 + 3 - 9 < 2 + 3.
    dear = SelectionProblem(metric, np.array([0.0, 0, 0, 0, 9]), 2, 1.0)
    assert solve(dear).cohort.tolist() == [2, 3]


def test_equal_edges_are_chosen_at_random() -> None:
    # Twelve equal clients, three are chosen, 400 times: each 100 times, standard deviation 8.7.
    pendant = np.append(0.0, np.ones(12))
    metric = LandmarkDistances(np.array([0]), np.zeros(13, dtype=int), pendant, np.zeros((1, 1)))
    problem = SelectionProblem(metric, np.zeros(13), 3, 1.0, np.arange(1, 13))
    times = np.zeros(13)
    for seed in range(400):
        times[solve(problem, seed=seed).cohort] += 1
    assert (np.abs(times[1:] - 100) < 45).all()


def test_large_pools_are_searched_without_a_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    features = np.random.default_rng(0).dirichlet(np.full(5, 0.3), 600)
    metric = landmark_distances(features, Graph(landmarks=60))
    penalty = np.random.default_rng(1).integers(0, 2, 600) / 599.0
    problem = SelectionProblem(metric, penalty, 30, 2 / 30 / 29)
    held = solve(problem, effort="thorough")
    monkeypatch.setattr(limits, "MAX_CLIENTS_HELD", 10)
    by_rows = solve(problem)
    assert by_rows.objective >= held.objective - 1e-3 * abs(held.objective)
    assert by_rows.upper_bound >= held.objective


def test_select_takes_landmarks_in_place_of_a_matrix() -> None:
    features = np.random.default_rng(0).dirichlet(np.full(5, 0.3), 300)
    metric = landmark_distances(features, Graph(landmarks=40))
    counts = np.zeros(300, dtype=int)
    counts[:100] = 1
    cohort = select(metric, counts, np.arange(0, 300, 2), 20)
    assert len(cohort) == 20
    assert (cohort >= 100).all() and (cohort % 2 == 0).all()
    assert select(metric, counts, np.arange(5), 20).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(SelectionError, match=r"sampling_counts must have shape \(300,\)"):
        select(metric, counts[:5], np.arange(5), 2)
