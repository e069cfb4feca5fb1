"""Metrics of collected outputs, against their definitions."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.parts import built_in

from fedgs.config import Evaluation
from fedgs.errors import ConfigError, UpdateError
from fedgs.metrics import (
    AUC,
    Accuracy,
    FunctionMetric,
    MacroF1,
    MeanAbsoluteError,
    Metric,
    directions,
    metric,
    metric_key,
    metric_value,
)
from fedgs.registry import build


def test_the_metrics_of_the_package() -> None:
    names = ["accuracy", "auc", "macro_f1", "mean_absolute_error"]
    metrics = [build("metric", name) for name in names]
    assert sorted(built_in("metric")) == names
    assert directions([one for one in metrics if isinstance(one, Metric)]) == {
        "accuracy": "higher",
        "auc": "higher",
        "macro_f1": "higher",
        "mean_absolute_error": "lower",
    }


def test_macro_f1_by_hand() -> None:
    # Answers 0 1 1 2, labels 0 0 1 1: F1 of class 0 is 2·1/(1 + 2), of class 1 2·1/(2 + 2); class 2
    # has no example in the test set.
    logits = np.eye(3)[[0, 1, 1, 2]]
    assert MacroF1().value(logits, np.array([0, 0, 1, 1])) == pytest.approx((2 / 3 + 1 / 2) / 2)


def test_macro_f1_of_several_labels_by_hand() -> None:
    # Label 0: one of two found, nothing else; label 1: found, and once too often; label 2: in none.
    logits = np.array([[1.0, 1.0, 1.0], [-1.0, 1.0, -1.0]])
    targets = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    assert MacroF1().value(logits, targets) == pytest.approx((2 / 3 + 2 / 3) / 2)


def _share_of_ordered_pairs(scores: np.ndarray, right: np.ndarray) -> float:
    pairs = list(itertools.product(scores[right], scores[~right]))
    return float(np.mean([(a > b) + (a == b) / 2 for a, b in pairs]))


@given(st.integers(0, 2**32 - 1), st.integers(2, 4))
@settings(max_examples=30, deadline=None)
def test_the_auc_is_the_share_of_pairs_in_order(seed: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((12, classes))
    labels = rng.integers(classes, size=12)
    labels[:2] = [0, 1]
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    areas = [_share_of_ordered_pairs(shares[:, c], labels == c) for c in np.unique(labels)]
    assert AUC().value(logits, labels) == pytest.approx(np.mean(areas), abs=1e-12)


def test_equal_scores_count_one_half() -> None:
    # Pairs of positive (1, 2) and negative (1, 0): equal, right, right, right.
    logits = np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 1.0], [0.0, 0.0]])
    assert AUC().value(logits, np.array([1, 1, 0, 0])) == 3.5 / 4


def test_the_auc_tells_scores_apart_whose_probabilities_round_to_one() -> None:
    logits = np.array([[0.0, 60.0], [0.0, 90.0], [0.0, 70.0]], dtype=np.float32)
    assert AUC().value(logits, np.array([0, 1, 1])) == 1.0
    assert AUC().value(logits, np.array([1, 0, 1])) == 0.0


def test_the_auc_of_several_labels_leaves_out_labels_without_both_values() -> None:
    logits = np.array([[2.0, 0.0], [1.0, 5.0]])
    assert AUC().value(logits, np.array([[1.0, 1.0], [0.0, 1.0]])) == 1.0


def test_accuracy_and_error_by_hand() -> None:
    assert Accuracy().value(np.array([[1.0, -1.0], [1.0, 1.0]]), np.array([[1, 0], [0, 1]])) == 0.75
    error = MeanAbsoluteError().value(np.array([[1.0, 2.0]]), np.array([[0.0, 4.0]]))
    assert error == 1.5


def test_a_list_of_metrics_is_written_by_names() -> None:
    assert "metrics" not in Evaluation().model_dump(mode="json")
    assert Evaluation(metrics=["auc", MacroF1]).model_dump(mode="json")["metrics"] == [
        "auc",
        "macro_f1",
    ]
    assert Evaluation(metrics=" auc,macro_f1").metrics == (AUC(), MacroF1())


def test_a_function_is_a_metric_of_its_name_and_higher_is_better() -> None:
    def largest(outputs: np.ndarray, targets: np.ndarray) -> float:
        return float(outputs.max())

    (one,) = Evaluation(metrics=[largest]).metrics
    assert isinstance(one, FunctionMetric)
    assert (metric_key(one), one.better, one.value(np.arange(3.0), np.zeros(3))) == (
        "largest",
        "higher",
        2.0,
    )


@pytest.mark.parametrize(
    "number",
    [0.5, np.float32(0.5), np.array(0.5), np.array([0.5]), torch.tensor(0.5), torch.tensor([0.5])],
    ids=["Python", "NumPy", "array", "array of one", "tensor", "tensor of one"],
)
def test_a_number_of_every_library_is_the_value_of_a_metric(number: object) -> None:
    one = FunctionMetric(function=lambda outputs, targets: number)
    assert metric_value(one, np.zeros(2), np.zeros(2)) == 0.5


@pytest.mark.parametrize("wrong", [torch.zeros(2), np.zeros(2), "0.5", True, None])
def test_what_is_no_number_is_not_the_value_of_a_metric(wrong: object) -> None:
    one = FunctionMetric(function=lambda outputs, targets: wrong)
    with pytest.raises(UpdateError, match="must return a number"):
        metric_value(one, np.zeros(2), np.zeros(2))


def test_functions_of_torchmetrics_are_metrics() -> None:
    torchmetrics = pytest.importorskip("torchmetrics")

    def macro(outputs: np.ndarray, labels: np.ndarray) -> torch.Tensor:
        score: torch.Tensor = torchmetrics.functional.classification.multiclass_f1_score(
            torch.tensor(outputs), torch.tensor(labels), num_classes=3
        )
        return score

    rng = np.random.default_rng(0)
    outputs, labels = rng.normal(size=(30, 3)).astype(np.float32), np.arange(30) % 3
    value = metric_value(FunctionMetric(function=macro), outputs, labels)
    assert value == pytest.approx(MacroF1().value(outputs, labels))


def test_a_registered_metric_has_a_direction() -> None:
    @metric("largest-of-a-test", better="lower")
    def largest(outputs: np.ndarray, targets: np.ndarray) -> float:
        return float(outputs.max())

    (one,) = Evaluation(metrics=["largest-of-a-test"]).metrics
    assert isinstance(one, Metric)
    assert directions([one]) == {"largest-of-a-test": "lower"}
    with pytest.raises(ConfigError, match="must be 'higher' or 'lower', got 'up'"):
        metric("another-of-a-test", better="up")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="takes a function"):
        metric("another-of-a-test")(Metric)
