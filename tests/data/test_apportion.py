"""Whole numbers from proportions."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgs.data.apportion import apportion, fit_labels, largest_remainder


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    count=st.integers(1, 30),
    total=st.integers(0, 500),
    bounded=st.booleans(),
)
def test_parts_sum_to_the_total_within_their_bounds(
    seed: int, count: int, total: int, bounded: bool
) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.lognormal(0, 3, count) * rng.integers(0, 2, count)
    lower = rng.integers(0, total // count + 1, count) if bounded else np.zeros(count, dtype=int)
    upper = lower + rng.integers(0, total + 1, count) if bounded else np.full(count, total)
    upper[0] = max(upper[0], total)  # so that it is possible
    parts = apportion(total, weights, lower=lower, upper=upper)
    assert parts.sum() == total
    assert (lower <= parts).all()
    assert (parts <= upper).all()


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(1, 30), total=st.integers(0, 500))
def test_without_bounds_no_part_is_an_example_off_its_quota(
    seed: int, count: int, total: int
) -> None:
    weights = np.random.default_rng(seed).uniform(0.1, 5, count)
    quota = total * weights / weights.sum()
    assert (np.abs(apportion(total, weights) - quota) < 1).all()


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), clients=st.integers(1, 8), classes=st.integers(1, 6))
def test_fitted_labels_have_both_margins(seed: int, clients: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    wanted = rng.integers(0, 20, (clients, classes))  # any table gives margins that are possible
    proportions = rng.dirichlet(np.full(classes, 0.2), clients)
    counts = fit_labels(wanted.sum(axis=1), proportions, wanted.sum(axis=0))
    assert (counts >= 0).all()
    assert np.array_equal(counts.sum(axis=1), wanted.sum(axis=1))
    assert np.array_equal(counts.sum(axis=0), wanted.sum(axis=0))


def test_proportions_that_fit_are_kept() -> None:
    wanted = np.array([[3, 1, 0], [0, 4, 4]])
    sizes = wanted.sum(axis=1)
    assert np.array_equal(fit_labels(sizes, wanted / sizes[:, None], wanted.sum(axis=0)), wanted)


def test_largest_remainder_by_hand() -> None:
    # 10 x (.55, .25, .2) = 5.5, 2.5, 2: one left over, the first of the two largest remainders
    # takes it
    assert largest_remainder(np.array([[5.5, 2.5, 2.0]]), np.array([10])).tolist() == [[6, 2, 2]]
