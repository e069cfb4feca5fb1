import numpy as np
import pytest

from fedgs.metrics import mean_losses, weighted_metrics


def test_mean_losses_are_nan_where_there_is_no_example() -> None:
    result = mean_losses(np.array([6.0, 0.0]), np.array([3, 0]))
    assert result[0] == 2.0
    assert np.isnan(result[1])


def test_weighted_metrics_leave_out_clients_without_examples() -> None:
    sums = {"losses": np.array([4.0, 0.0, 3.0]), "correct": np.array([2, 0, 0])}
    result = weighted_metrics(sums, np.array([4, 0, 1]), np.array([1, 100, 3]))
    assert result.loss == pytest.approx((1 * 1 + 3 * 3) / 4)
    assert result.accuracy == pytest.approx((1 * 0.5 + 3 * 0) / 4)


def test_losses_and_answers_may_count_other_numbers_than_the_examples() -> None:
    sums = {
        "losses": np.array([6.0, 1.0]),
        "weights": np.array([3.0, 0.5]),
        "correct": np.array([2.0, 4.0]),
        "answers": np.array([8.0, 4.0]),
    }
    result = weighted_metrics(sums, np.array([2, 1]), np.array([1, 3]))
    assert result.loss == pytest.approx((1 * 2 + 3 * 2) / 4)
    assert result.accuracy == pytest.approx((1 * 0.25 + 3 * 1) / 4)


def test_accuracy_is_none_where_no_answer_is_right_or_wrong() -> None:
    result = weighted_metrics({"losses": np.array([6.0])}, np.array([3]), np.ones(1))
    assert (result.loss, result.accuracy) == (2.0, None)


def test_weighted_metrics_of_nobody_are_nan() -> None:
    sums = {"losses": np.zeros(2), "correct": np.zeros(2)}
    result = weighted_metrics(sums, np.zeros(2, dtype=np.int64), np.ones(2))
    assert np.isnan(result.loss)
    assert result.accuracy is not None and np.isnan(result.accuracy)
