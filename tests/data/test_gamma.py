"""The bias of the average over a uniform cohort."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgs.data import expected_weights, gamma
from fedgs.errors import DataError


def enumerated(sizes: np.ndarray, cohort: int) -> np.ndarray:
    """The slow plain version: the mean over all cohorts."""
    weights = np.zeros(len(sizes))
    cohorts = [list(members) for members in combinations(range(len(sizes)), cohort)]
    for members in cohorts:
        weights[members] += sizes[members] / sizes[members].sum() / len(cohorts)
    return weights


@st.composite
def sizes_and_cohort(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    sizes = draw(st.lists(st.integers(1, 20_000), min_size=1, max_size=9))
    return np.array(sizes), draw(st.integers(1, len(sizes)))


@settings(max_examples=60, deadline=None)
@given(case=sizes_and_cohort())
def test_expected_weights_equal_enumeration(case: tuple[np.ndarray, int]) -> None:
    sizes, cohort = case
    assert expected_weights(sizes, cohort) == pytest.approx(enumerated(sizes, cohort), abs=1e-12)


def test_large_federations_sum_to_one_and_agree_with_sampling() -> None:
    sizes = np.maximum(1, np.random.default_rng(0).lognormal(5, 1, 200)).astype(np.int64)
    exact = expected_weights(sizes, 20)
    sampled = expected_weights(sizes, 20, method="monte_carlo", draws=4000)
    assert exact.sum() == pytest.approx(1, abs=1e-10)
    assert sampled.sum() == pytest.approx(1)
    # One draw of a weight has an sd below its largest value (about .5); 4000 draws: .008. Five of
    # these: 1 in 10⁶ a client.
    assert np.abs(sampled - exact).max() < 5 * 0.5 / np.sqrt(4000)


@settings(max_examples=30, deadline=None)
@given(case=sizes_and_cohort(), factor=st.integers(2, 50))
def test_gamma_is_scale_free_and_falls_with_size(case: tuple[np.ndarray, int], factor: int) -> None:
    sizes, cohort = case
    factors = gamma(sizes, cohort)
    assert gamma(sizes * factor, cohort) == pytest.approx(factors)
    order = np.argsort(sizes, kind="stable")
    assert (np.diff(factors[order]) <= 1e-12).all()


def test_equal_sizes_and_full_participation_are_unbiased() -> None:
    assert gamma(np.full(7, 5), 3) == pytest.approx(np.ones(7))
    sizes = np.array([1, 10, 100])
    assert gamma(sizes, 3) == pytest.approx(np.ones(3))
    assert expected_weights(sizes, 3) == pytest.approx(sizes / 111)
    # a cohort of one has weight 1
    assert expected_weights(sizes, 1) == pytest.approx(np.full(3, 1 / 3))


@pytest.mark.parametrize("cohort", [0, 4])
def test_a_cohort_that_is_not_possible_is_refused(cohort: int) -> None:
    for function in (gamma, expected_weights):
        with pytest.raises(
            DataError,
            match=rf"the cohort size must be in 1..3, the number of clients; got {cohort}",
        ):
            function(np.array([1, 2, 3]), cohort)
