"""A user's loss or metric that cannot be used is refused by name before round 0."""

import numpy as np
import pytest
import torch
from tests.local.material import make_federation

import fedgs
from fedgs.errors import ConfigError
from fedgs.losses import Loss
from fedgs.metrics import Metric


def vector(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(outputs, labels, reduction="none")


def summed(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(outputs, labels, reduction="sum")


def number(outputs: torch.Tensor, labels: torch.Tensor) -> float:
    return 1.0


def raising(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    raise ValueError("no such label\nand more")


class OneSum(Loss):
    def terms(self, outputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, None]:
        return outputs.sum().reshape(1), None


def compared(**settings: object) -> object:
    return fedgs.compare(
        make_federation((6, 9, 4)),
        methods=["uniform"],
        training={"rounds": 1, **({"loss": settings["loss"]} if "loss" in settings else {})},
        evaluation={"metrics": settings.get("metrics", ())},
    )


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [
        (vector, r"training\.loss 'vector' must return a scalar tensor, the mean .* shape \(4,\)"),
        (number, r"training\.loss 'number' must return a scalar tensor.* got float"),
        (summed, r"training\.loss 'summed' must be the mean over the examples of a batch: for \d"),
        (raising, r"training\.loss 'raising' cannot be .*: ValueError: no such label$"),
        (OneSum(), r"training\.loss 'OneSum' must give a number for each of \d+ examples, got sum"),
        ("huber", r"training\.loss 'huber' needs a federation of task 'regression'"),
    ],
    ids=["vector", "number", "sum", "raising", "one sum", "other task"],
)
def test_losses_that_cannot_be_used_are_refused(loss: object, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        compared(loss=loss)


class Unbounded(Metric):
    def value(self, outputs: np.ndarray, targets: np.ndarray) -> float:
        return float("nan")


def text(outputs: np.ndarray, targets: np.ndarray) -> str:
    return "high"


def broken(outputs: np.ndarray, targets: np.ndarray) -> float:
    return outputs.no_such_name  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize(
    ("metrics", "sentence"),
    [
        ([Unbounded()], r"metrics 'Unbounded' must be a finite number on the test set.* got nan"),
        ([text], r"'text' cannot be computed on .*: UpdateError: metric 'text' must return a num"),
        ([broken], r"'broken' cannot be computed on the test set of 'arrays': AttributeError"),
        (["auc", "auc"], r"must have distinct names besides accuracy and loss; 'auc' occurs twice"),
        (["mean_absolute_error"], r"'mean_absolute_error' needs a federation of task 'regression'"),
        (["acc"], r"evaluation\.metrics\.name must be one of .* got 'acc'"),
        ([3], r"evaluation\.metrics must be a name, a table with `name` or a variant object"),
        (3, r"evaluation\.metrics must be a list of metrics, got 3"),
    ],
    ids=["nan", "text", "raising", "twice", "other task", "unknown", "number", "no list"],
)
def test_metrics_that_cannot_be_used_are_refused(metrics: object, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        compared(metrics=metrics)


def test_the_auc_of_one_class_is_refused_by_name() -> None:
    x = np.eye(4, dtype=np.float32)
    federation = fedgs.Federation.from_arrays(
        x, np.array([0, 1, 0, 1]), client=np.array([0, 0, 1, 1]), test=(x, np.ones(4, dtype=int))
    )
    with pytest.raises(ConfigError, match="'auc' is not defined on one class: every example"):
        fedgs.compare(federation, methods=["md"], evaluation={"metrics": ["auc"]})
