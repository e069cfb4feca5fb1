import numpy as np
import pytest
from hypothesis import given, settings
from tests.oracles.selection import brute_force
from tests.solver.conftest import problems

from fedgs.solver import SelectionProblem, limits
from fedgs.solver.reduction import reduce


@given(problems(max_clients=9))
@settings(max_examples=60, deadline=None)
def test_every_best_cohort_agrees_with_the_reduction(problem: SelectionProblem) -> None:
    pool, size = problem.pool, problem.cohort_size
    if size == len(pool):
        return
    always, opened = reduce(
        -problem.balance_penalty[pool], size, problem.pair_weight * problem.distances.maximum
    )
    _, best = brute_force(problem)
    for cohort in best:
        assert set(pool[always].tolist()) <= set(cohort)
        assert set(cohort) <= set(pool[always].tolist()) | set(pool[opened].tolist())


def test_small_alpha_leaves_only_the_threshold_class() -> None:
    # alpha (m-1)/N < 1: Δ < 2, one step of the count. Two at count 0 are in, one of the three at 1
    # is open, 2 is out.
    counts = np.array([0, 1, 2, 1, 0, 1])
    always, opened = reduce(-2.0 * counts, 3, 2 * 1.0 / 6)
    assert always.tolist() == [0, 4]
    assert opened.tolist() == [1, 3, 5]


def test_sorting_and_partition_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    for _ in range(20):
        gains, size, largest = (
            rng.integers(-6, 7, 40).astype(float),
            int(rng.integers(1, 40)),
            float(rng.uniform(0, 1)),
        )
        monkeypatch.setattr(limits, "MAX_CLIENTS_SORTED", 500)
        by_sorting = reduce(gains, size, largest)
        monkeypatch.setattr(limits, "MAX_CLIENTS_SORTED", 0)
        always, opened = reduce(gains, size, largest)
        assert (always.tolist(), opened.tolist()) == (
            by_sorting[0].tolist(),
            by_sorting[1].tolist(),
        )
