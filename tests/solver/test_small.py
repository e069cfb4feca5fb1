"""The compiled steps for pools of a few clients against what they stand in for."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.solver.conftest import KINDS, distance_of, problem_of

from fedgs.compiling import load_kernels
from fedgs.graph import MatrixDistances
from fedgs.solver import SelectionProblem, objective, plain, solve
from fedgs.solver.reduction import few_of, reduced, reduced_few


@pytest.fixture
def kernels() -> Any:
    return load_kernels("fedgs.solver.small_kernels") or pytest.skip("numba is not installed")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_the_reduction_decides_the_same(kind: str, alpha: float, kernels: Any) -> None:
    rng, decided = np.random.default_rng(3), 0
    for seed in range(12):
        problem = problem_of(kind, int(rng.integers(10, 65)), seed, alpha=alpha, spread=seed % 5)
        problem = replace(problem, pair_weight=problem.pair_weight / problem.distances.maximum)
        few = few_of(problem)
        if few is None:
            continue
        order, state = problem.pool.copy(), np.array([rng.integers(2**63)], dtype=np.uint64)
        others = reduced_few(problem, few, state.copy())
        chance = plain.Xorshift(state)
        for last in range(len(order) - 1, 0, -1):
            drawn = chance.below(last + 1)
            order[last], order[drawn] = order[drawn], order[last]
        forced, clients, gains, left = reduced(problem, order)
        assert set(others[0].tolist()) == set(forced.tolist()) and others[3] == left
        assert others[1].tolist() == clients.tolist()
        if left not in (0, len(clients)):  # nothing is asked of gains that nobody needs
            np.testing.assert_allclose(others[2], gains, rtol=1e-12, atol=1e-12 * problem.distances.maximum)
        decided += len(clients) < len(order)
    assert decided > 0 or alpha > 1


@pytest.mark.parametrize("seed", range(10))
def test_bound_and_trials_are_the_same(seed: int, kernels: Any) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(4, 12))
    size = int(rng.integers(2, count))
    H, ids = distance_of("integer", 20, rng), rng.permutation(20)[:count]
    gains, W, chosen = rng.integers(-5, 6, count).astype(float), H[np.ix_(ids, ids)], np.empty(size, dtype=np.int64)
    assert kernels.row_bound(H, ids, gains, size) == plain.row_bound([W.copy()], gains, size)
    assert kernels.try_all(H, ids, gains, chosen, 1e-12) == plain.value(W, gains, chosen)
    assert chosen.tolist() == plain.enumerate_all(W, gains, size).tolist()


def test_trials_do_not_let_rounding_decide_between_equals(kernels: Any) -> None:
    # Sums of three tenths differ in their last bits by the order of their terms; the first choice counts.
    H = np.full((9, 9), 0.1) + np.random.default_rng(0).choice([-1e-17, 1e-17], (9, 9))
    chosen = np.empty(4, dtype=np.int64)
    kernels.try_all(H, np.arange(9), np.full(9, 0.3), chosen, 1e-12)
    assert chosen.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("seed", range(5))
def test_the_objective_is_that_of_the_cohort_in_any_order(seed: int, kernels: Any) -> None:
    rng = np.random.default_rng(seed)
    H, penalty = distance_of("euclidean", 30, rng), rng.normal(size=30)
    cohort = rng.permutation(30)[: int(rng.integers(1, 30))]
    other = rng.permutation(cohort)
    reached = kernels.conclude(H, penalty, 2.5, cohort)
    assert (np.diff(cohort) > 0).all()
    assert kernels.conclude(H, penalty, 2.5, other) == reached
    assert reached == pytest.approx(objective(SelectionProblem(MatrixDistances(H), penalty, len(cohort), 2.5), cohort), rel=1e-13)


def test_the_order_favours_nobody(kernels: Any) -> None:
    # Six clients put in order 6000 times: each comes first 1000 times, standard deviation 29; 6 of them are 173.
    state, first = np.array([99], dtype=np.uint64), np.zeros(6)
    for _ in range(6000):
        clients, gains = np.arange(6), np.empty(6)
        assert not kernels.begin(clients, np.zeros(6), 1.0, 0.0, state, gains)
        assert sorted(clients.tolist()) == list(range(6))
        first[clients[0]] += 1
    assert np.abs(first - 1000).max() < 173


def test_penalties_in_any_form_are_taken_as_they_are(kernels: Any) -> None:
    problem = problem_of("euclidean", 20, 1)
    whole = np.round(problem.balance_penalty).astype(np.int64)
    expected = solve(replace(problem, balance_penalty=whole.astype(np.float64))).cohort.tolist()
    locked, compiled_for = whole.astype(np.float64), len(kernels.conclude.signatures)
    locked.setflags(write=False)
    for penalty in (whole, locked, np.repeat(whole.astype(np.float64), 2)[::2]):
        assert solve(replace(problem, balance_penalty=penalty)).cohort.tolist() == expected
    assert len(kernels.conclude.signatures) == compiled_for


@pytest.mark.parametrize("kind", KINDS)
def test_few_and_many_clients_are_decided_alike(kind: str, monkeypatch: pytest.MonkeyPatch, kernels: Any) -> None:
    for seed in range(6):
        problem = problem_of(kind, 20, seed, scale="cohort" if seed % 2 else "paper")
        with_kernels = solve(problem, effort="thorough")
        with monkeypatch.context() as patched:
            patched.setattr("fedgs.solver.residual.FEW", 0)
            patched.setattr("fedgs.solver.reduction.FEW", 0)
            assert few_of(problem) is None
            without = solve(problem, effort="thorough")
        close = 1e-9 * problem.pair_weight * problem.distances.maximum
        assert with_kernels.objective == pytest.approx(without.objective, rel=1e-12, abs=close)
        assert with_kernels.status == without.status == "optimal"
