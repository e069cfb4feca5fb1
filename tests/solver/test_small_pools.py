"""The compiled steps for pools of a few clients against what they stand in for."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from tests.solver.conftest import KINDS, distance_of, problem_of

from fedgs.compiling import load_kernels
from fedgs.graph import MatrixDistances
from fedgs.solver import SelectionProblem, limits, objective, plain, solve
from fedgs.solver.reduction import reduced
from fedgs.solver.small_pools import small_pool_steps


@pytest.fixture
def kernels() -> Any:
    return load_kernels("fedgs.solver.kernels.small") or pytest.skip("numba is not installed")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_the_reduction_decides_the_same(kind: str, alpha: float, kernels: Any) -> None:
    rng, decided, met = np.random.default_rng(3), 0, 0
    for seed in range(12):
        problem = problem_of(kind, int(rng.integers(10, 65)), seed, alpha=alpha, spread=seed % 5)
        problem = replace(problem, pair_weight=problem.pair_weight / problem.distances.maximum)
        steps = small_pool_steps(problem)
        if steps is None:
            continue
        order, state = problem.pool.copy(), np.array([rng.integers(2**63)], dtype=np.uint64)
        others = steps.reduced(problem, state.copy())
        chance = plain.Xorshift(state)
        for last in range(len(order) - 1, 0, -1):
            drawn = chance.below(last + 1)
            order[last], order[drawn] = order[drawn], order[last]
        forced, clients, gains, left = reduced(problem, order)
        assert set(others[0].tolist()) == set(forced.tolist()) and others[3] == left
        assert others[1].tolist() == clients.tolist()
        if left not in (0, len(clients)):  # nothing is asked of gains that nobody needs
            np.testing.assert_allclose(
                others[2], gains, rtol=1e-12, atol=1e-12 * problem.distances.maximum
            )
        decided, met = decided + (len(clients) < len(order)), met + 1
    assert met >= 6 and (decided > 0 or alpha > 1)


@pytest.mark.parametrize("seed", range(10))
def test_bound_and_trials_are_the_same(seed: int, kernels: Any) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(4, 12))
    size = int(rng.integers(2, count))
    H, ids = distance_of("integer", 20, rng), rng.permutation(20)[:count]
    gains, W = rng.integers(-5, 6, count).astype(float), H[np.ix_(ids, ids)]
    chosen = np.empty(size, dtype=np.int64)
    ints, reals = np.empty((1, 12), dtype=np.int64), np.empty((2, 12))
    bound = kernels.row_bound(H, ids, gains, size, reals, np.empty((12, 12)))
    assert bound == plain.row_bound([W.copy()], gains, size)
    reached = kernels.try_all(H, ids, gains, chosen, 1e-12, ints, reals)
    assert reached == plain.value(W, gains, chosen)
    assert chosen.tolist() == plain.enumerate_all(W, gains, size).tolist()


def test_trials_do_not_let_rounding_decide_between_equals(kernels: Any) -> None:
    # Sums of three tenths differ in their last bits by the order of their terms; the first choice
    # counts.
    H = np.full((9, 9), 0.1) + np.random.default_rng(0).choice([-1e-17, 1e-17], (9, 9))
    chosen = np.empty(4, dtype=np.int64)
    ints, reals = np.empty((1, 4), dtype=np.int64), np.empty((1, 4))
    kernels.try_all(H, np.arange(9), np.full(9, 0.3), chosen, 1e-12, ints, reals)
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
    expected = objective(SelectionProblem(MatrixDistances(H), penalty, len(cohort), 2.5), cohort)
    # The size of what is added and subtracted:
    largest = 2.5 * H[np.ix_(cohort, cohort)].sum() / 2 + np.abs(penalty[cohort]).sum()
    assert abs(reached - expected) <= 1e-14 * largest


def test_the_order_favours_nobody(kernels: Any) -> None:
    # Six clients put in order 6000 times: each comes first 1000 times, standard deviation 29; 6 of
    # them are 173.
    state, first = np.array([99], dtype=np.uint64), np.zeros(6)
    for _ in range(6000):
        clients, gains = np.arange(6), np.empty(6)
        assert not kernels.begin(clients, np.zeros(6), 1.0, 0.0, state, gains)
        assert sorted(clients.tolist()) == list(range(6))
        first[clients[0]] += 1
    assert np.abs(first - 1000).max() < 173


def test_numbers_in_any_form_are_the_same_numbers(kernels: Any) -> None:
    problem = replace(problem_of("uniform", 30, 1), cohort_size=6, pair_weight=1.0)
    whole = np.round(problem.balance_penalty).astype(np.int64)
    expected = solve(replace(problem, balance_penalty=whole.astype(np.float64)))
    locked = whole.astype(np.float64)
    locked.setflags(write=False)
    called = (kernels.begin, kernels.conclude, kernels.row_bound)
    before = [len(kernel.signatures) for kernel in called]
    strided = np.repeat(whole.astype(np.float64), 2)[::2]
    for penalty in (whole, whole.astype(np.float32), whole.tolist(), locked, strided):
        answer = solve(replace(problem, balance_penalty=penalty))
        assert (answer.cohort.tolist(), answer.objective) == (
            expected.cohort.tolist(),
            expected.objective,
        )
    for size in (np.int8(6), np.uint8(6), np.int32(6), np.int64(6)):
        answer = solve(replace(problem, balance_penalty=whole, cohort_size=size, pair_weight=1))
        assert (answer.cohort.tolist(), answer.upper_bound) == (
            expected.cohort.tolist(),
            expected.upper_bound,
        )
    assert [len(kernel.signatures) for kernel in called] == before


@pytest.mark.parametrize("count", [30, 100])
@pytest.mark.parametrize("numba", [True, False])
def test_a_client_that_nobody_wants_changes_nothing_for_the_others(
    count: int, numba: bool, request: pytest.FixtureRequest
) -> None:
    if not numba:
        request.getfixturevalue("without_numba")
    H = distance_of("uniform", count, np.random.default_rng(0)) / 10
    # The gaps of 10 between the others are larger than five pairs, so all is decided.
    penalty = np.arange(float(count)) * 10
    for price in (penalty[-1], 1e17, 1e100):
        penalty[-1] = price
        answer = solve(SelectionProblem(H, penalty, 6, 1.0))
        assert (answer.cohort.tolist(), answer.status) == ([0, 1, 2, 3, 4, 5], "optimal")


@pytest.mark.parametrize("kind", KINDS)
def test_few_and_many_clients_are_decided_alike(
    kind: str, monkeypatch: pytest.MonkeyPatch, kernels: Any
) -> None:
    for seed in range(6):
        problem = problem_of(kind, 20, seed, scale="cohort" if seed % 2 else "paper")
        with_kernels = solve(problem, effort="thorough")
        with monkeypatch.context() as patched:
            patched.setattr(limits, "MAX_CLIENTS_SMALL_POOL", 0)
            assert small_pool_steps(problem) is None
            without = solve(problem, effort="thorough")
        close = 1e-9 * problem.pair_weight * problem.distances.maximum
        assert with_kernels.objective == pytest.approx(without.objective, rel=1e-12, abs=close)
        assert with_kernels.status == without.status == "optimal"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("effort", ["fast", "default"])
def test_the_direct_way_is_the_same_search(
    kind: str, effort: Literal["fast", "default"], monkeypatch: pytest.MonkeyPatch, kernels: Any
) -> None:
    problems = [
        problem_of(kind, 12 + 10 * seed, seed, scale="cohort" if seed % 2 else "paper")
        for seed in range(6)
    ]
    direct = [solve(problem, effort=effort, seed=7) for problem in problems]
    monkeypatch.setattr("fedgs.solver.small_pools.SmallPoolSteps.searched", None)
    monkeypatch.setattr(limits, "MAX_CLIENTS_COPIED", 0)
    for problem, expected in zip(problems, direct, strict=True):
        answer = solve(problem, effort=effort, seed=7)
        assert answer.cohort.tolist() == expected.cohort.tolist()
        assert (answer.objective, answer.upper_bound, answer.status) == (
            expected.objective, expected.upper_bound, expected.status
        )  # fmt: skip


def test_threads_do_not_share_what_kernels_work_in(kernels: Any) -> None:
    # Kernels let other threads run: what two of them wrote into the same arrays would be neither's.
    problems = [problem_of("euclidean", 20 + seed % 40, seed, scale="cohort") for seed in range(60)]
    expected = [solve(problem).cohort.tolist() for problem in problems]
    with ThreadPoolExecutor(4) as threads:
        for _ in range(10):
            assert [answer.cohort.tolist() for answer in threads.map(solve, problems)] == expected
