import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgs.metrics import count_variance, coverage, jain_index, mean_losses, weighted_metrics

COUNTS = st.lists(st.integers(0, 1000), min_size=2, max_size=30)


@given(COUNTS)
def test_count_variance_is_the_sample_variance(counts: list[int]) -> None:
    assert count_variance(np.array(counts)) == pytest.approx(
        statistics.variance(counts), rel=1e-9, abs=1e-9
    )


def test_count_variance_of_one_client_is_zero() -> None:
    assert count_variance(np.array([7])) == 0.0


@given(COUNTS, st.integers(1, 9))
def test_jain_index_lies_between_one_over_n_and_one_and_ignores_scale(
    counts: list[int], scale: int
) -> None:
    values = np.array(counts)
    assert 1 / len(counts) - 1e-12 <= jain_index(values) <= 1 + 1e-12
    assert jain_index(scale * values) == pytest.approx(jain_index(values))


def test_jain_index_when_nobody_took_part_is_one() -> None:
    assert jain_index(np.zeros(4, dtype=np.int64)) == 1.0


def test_coverage_counts_clients_that_took_part() -> None:
    assert coverage(np.array([0, 2, 0, 1])) == 0.5


def test_mean_losses_are_nan_where_there_is_no_example() -> None:
    found = mean_losses(np.array([6.0, 0.0]), np.array([3, 0]))
    assert found[0] == 2.0
    assert np.isnan(found[1])


def test_weighted_metrics_leave_out_clients_without_examples() -> None:
    found = weighted_metrics(
        np.array([4.0, 0.0, 3.0]), np.array([2, 0, 0]), np.array([4, 0, 1]), np.array([1, 100, 3])
    )
    assert found.loss == pytest.approx((1 * 1 + 3 * 3) / 4)
    assert found.accuracy == pytest.approx((1 * 0.5 + 3 * 0) / 4)


def test_weighted_metrics_of_nobody_are_nan() -> None:
    found = weighted_metrics(np.zeros(2), np.zeros(2), np.zeros(2, dtype=np.int64), np.ones(2))
    assert np.isnan(found.loss)
    assert np.isnan(found.accuracy)
