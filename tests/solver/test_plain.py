"""The NumPy search against the properties that any search must have."""

import numpy as np
import pytest
from tests.solver.conftest import whole_number_problem

from fedgs.compiling import load_kernels
from fedgs.solver import plain


@pytest.mark.parametrize("seed", range(20))
def test_descent_is_a_local_optimum_not_below_greedy(seed: int) -> None:
    W, gains, size = whole_number_problem(seed)
    greedy = plain.greedy(W, gains, size)
    chosen, reached = plain.descend(W, gains, size, starts=[greedy], firsts=[], tolerance=1e-9)
    assert reached == plain.value(W, gains, chosen)
    assert reached >= plain.value(W, gains, greedy)
    for leave in chosen:
        for enter in set(range(len(gains))) - set(chosen.tolist()):
            swapped = np.array([enter if member == leave else member for member in chosen])
            assert plain.value(W, gains, swapped) <= reached


@pytest.mark.parametrize("seed", range(10))
def test_row_bound_is_never_below_the_best(seed: int) -> None:
    kernels = load_kernels("fedgs.solver.kernels.proof") or pytest.skip("numba is not installed")
    W, gains, size = whole_number_problem(seed)
    W, gains = W[:9, :9], gains[:9]
    size = min(size, len(gains) - 1)
    best = plain.value(W, gains, plain.enumerate_all(W, gains, size))
    bound = plain.row_bound([W.copy()], gains, size)
    assert bound >= best
    assert plain.row_bound([W[:2].copy(), W[2:].copy()], gains, size) == bound
    halves = np.empty((size, len(gains)))
    kernels.longest_pairs(W, halves)  # type: ignore[attr-defined]
    np.testing.assert_allclose(np.sort(gains + halves[-1])[-size:].sum(), bound, rtol=1e-12)
    others = np.sort(np.where(np.eye(len(gains)) > 0, -np.inf, W), axis=1)[:, ::-1]
    np.testing.assert_allclose(
        halves[1:], np.cumsum(others[:, : size - 1], axis=1).T / 2, rtol=1e-12, atol=1e-15
    )


def test_walks_do_not_exchange_twins() -> None:
    # Two twins at either end of a line and one in the middle, choose two: the best is one of each
    # end. From there, exchanges of twins change nothing; a walk of one move must take the middle
    # instead, which costs 1.
    points = np.array([0.0, 0.0, 1.0, 2.0, 2.0])
    W = np.abs(points[:, None] - points)
    for ins in (np.array([0, 3]), np.array([3, 0])):  # the order decides nothing
        assert plain.best_swap(
            W, W[ins].sum(axis=0), np.sort(ins), np.array([1, 2, 4]), tolerance=1e-9
        ) == (0, 2, -1.0)
