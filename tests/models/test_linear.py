"""Logistic regression."""

import pytest

from fedgs.models import LogisticRegression

torch = pytest.importorskip("torch")
nn = torch.nn


def test_logistic_regression_starts_with_zero_bias_and_flattens_images() -> None:
    module = LogisticRegression().build((1, 4, 4), 3)
    assert module(torch.zeros(2, 1, 4, 4)).abs().max() == 0  # zero bias, zero input
    assert module[1].weight.abs().max() > 0
