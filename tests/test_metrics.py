import numpy as np
import pytest

from fedgs.metrics import mean_losses, weighted_metrics


def test_mean_losses_are_nan_where_there_is_no_example() -> None:
    result = mean_losses(np.array([6.0, 0.0]), np.array([3, 0]))
    assert result[0] == 2.0
    assert np.isnan(result[1])


def test_weighted_metrics_leave_out_clients_without_examples() -> None:
    result = weighted_metrics(
        np.array([4.0, 0.0, 3.0]), np.array([2, 0, 0]), np.array([4, 0, 1]), np.array([1, 100, 3])
    )
    assert result.loss == pytest.approx((1 * 1 + 3 * 3) / 4)
    assert result.accuracy == pytest.approx((1 * 0.5 + 3 * 0) / 4)


def test_weighted_metrics_of_nobody_are_nan() -> None:
    result = weighted_metrics(np.zeros(2), np.zeros(2), np.zeros(2, dtype=np.int64), np.ones(2))
    assert np.isnan(result.loss)
    assert np.isnan(result.accuracy)
