"""Losses: their settings, what they refuse, and their terms by hand."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from tests.local.material import make_federation
from tests.local.problems import federation
from tests.parts import built_in
from torch import nn
from torch.nn import functional

from fedgs.config import Training
from fedgs.data.federation import Federation
from fedgs.data.targets import Task
from fedgs.errors import ConfigError
from fedgs.local.check import check_training
from fedgs.losses import (
    BinaryCrossEntropy,
    CrossEntropy,
    FunctionLoss,
    Loss,
    MeanSquaredError,
    loss,
    loss_of,
)
from fedgs.models import LogisticRegression
from fedgs.registry import build, table
from fedgs.requests import Work


def test_the_losses_of_the_package() -> None:
    names = ["cross_entropy", "binary_cross_entropy", "mean_squared_error", "huber"]
    assert sorted(built_in("loss")) == sorted(names)
    assert all(isinstance(build("loss", name), Loss) for name in names)


def test_masked_places_count_neither_as_loss_nor_as_weight() -> None:
    # p is 1/2 everywhere, so each of the three places that count has loss log 2.
    logits = torch.zeros(2, 2, 2)
    sums, weights = CrossEntropy().terms(logits, torch.tensor([[0, -1], [1, 0]]))
    assert weights is not None
    assert weights.tolist() == [1.0, 2.0]
    np.testing.assert_allclose(sums, np.log(2) * np.array([1, 2]), rtol=1e-6)


def test_a_batch_without_a_place_that_counts_has_loss_zero() -> None:
    logits = torch.zeros(1, 2, 3, requires_grad=True)
    value = CrossEntropy().mean(logits, torch.full((1, 2), -1))
    value.backward()
    assert value.item() == 0 and logits.grad is not None and not logits.grad.any()


def test_a_model_with_one_output_answers_a_vector_of_targets() -> None:
    """(b, 1) outputs and (b,) targets are not spread over (b, b) pairs."""
    outputs, targets = torch.tensor([[1.0], [2.0]]), torch.tensor([1.0, 0.0])
    assert float(MeanSquaredError().mean(outputs, targets)) == 2.0  # (0 + 4) / 2


def test_class_weights_come_from_lists_and_arrays() -> None:
    assert CrossEntropy(class_weights=[1, 2]) == CrossEntropy(class_weights=np.array([1.0, 2.0]))
    training = Training(loss={"name": "cross_entropy", "class_weights": [1, 2]})
    assert training.model_dump(mode="json")["loss"] == {
        "name": "cross_entropy",
        "class_weights": [1.0, 2.0],
        "label_smoothing": 0.0,
    }


@pytest.mark.parametrize(
    ("given", "got"),
    [
        ([], r"\[\]"),
        ("1", "'1'"),
        (3, "3"),
        ([1, 0], "0 for class 1"),
        ([-1, 2], "-1 for class 0"),
        ([float("nan"), 1], "nan for class 0"),
        ([1, float("inf")], "inf for class 1"),
        ([True, 1], "True for class 0"),
        ([1, "2"], "'2' for class 1"),
        ([1, 1e39], r"1e\+39 for class 1"),  # float32 ends at 3.4e38
        ([1, 1e-46], "1e-46 for class 1"),  # float32's smallest number above 0 is 1.4e-45
        ([1, 10**400], "for class 1"),  # beyond float64
    ],
)
def test_other_class_weights_are_refused(given: object, got: str) -> None:
    allowed = "class_weights must be a list of numbers > 0 within float32's range, one for each"
    with pytest.raises(ConfigError, match=f"{allowed} class, got .*{got}"):
        CrossEntropy(class_weights=given)


def test_class_weights_go_to_the_ends_of_float32() -> None:
    assert CrossEntropy(class_weights=[1e-45, 3.4e38]).class_weights == (1e-45, 3.4e38)


def test_class_weights_of_another_number_than_the_classes_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"class_weights must have 3 entries.* got 2"):
        CrossEntropy(class_weights=[1, 2]).check(make_federation((4, 5)))


def test_training_names_a_loss_and_leaves_out_none() -> None:
    assert "loss" not in Training().model_dump(mode="json")
    assert Training(loss="huber").model_dump(mode="json")["loss"] == {"name": "huber", "delta": 1.0}
    with pytest.raises(
        ConfigError, match=r"training\.loss\.name must be one of .*did you mean 'hub"
    ):
        Training(loss="hubr")
    with pytest.raises(ConfigError, match=r"training\.loss\.delta should be greater than 0, got 0"):
        Training(loss={"name": "huber", "delta": 0.0})
    with pytest.raises(ConfigError, match="training.loss must be a name, a table"):
        Training(loss=3)


def test_a_function_and_a_module_are_losses_without_a_name() -> None:
    for given in (torch.nn.functional.l1_loss, nn.SmoothL1Loss()):
        chosen = Training(loss=given).loss
        assert isinstance(chosen, FunctionLoss)
        assert float(chosen.mean(torch.tensor([3.0]), torch.zeros(1))) >= 2.5
    assert "l1_loss" in str(table(FunctionLoss(function=torch.nn.functional.l1_loss)))


@pytest.mark.parametrize(
    "given",
    [
        functional.l1_loss,
        functional.mse_loss,
        partial(functional.smooth_l1_loss, beta=0.5),
        nn.HuberLoss(delta=0.5),
        nn.BCEWithLogitsLoss(),
    ],
    ids=lambda given: getattr(given, "__name__", type(given).__name__),
)
@pytest.mark.parametrize("columns", [(), (1,), (3,)], ids=["numbers", "one column", "vectors"])
def test_losses_of_pytorch_pair_outputs_and_targets(
    given: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], columns: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 4)).astype(np.float32), rng.random((12, *columns))
    task: Task = "regression"
    federation = Federation.from_arrays(x, y, client=[0, 1] * 6, test=(x, y), task=task)
    chosen = FunctionLoss(function=given)
    check_training(Work(federation, LogisticRegression(), 0.0, 2, 5, loss=chosen))
    outputs, targets = torch.randn(12, *(columns or (1,))), torch.tensor(y).float()
    expected = given(outputs.reshape(targets.shape), targets)
    assert torch.equal(chosen.mean(outputs, targets), expected)
    sums, weights = chosen.terms(outputs, targets)
    assert weights is None
    torch.testing.assert_close(sums.mean(), expected)


def test_a_function_of_a_user_gets_outputs_as_they_are_and_the_message_says_what_to_do() -> None:
    x, y = np.eye(6, dtype=np.float32), np.linspace(0, 1, 6)
    federation = Federation.from_arrays(x, y, client=[0, 1] * 3, test=(x, y), task="regression")
    work = Work(federation, LogisticRegression(), 0.0, 2, 3)

    def column(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return (outputs[:, 0] - targets).abs().mean()

    def all_pairs(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return (outputs - targets).abs().mean()

    check_training(replace(work, loss=FunctionLoss(function=column)))
    with pytest.raises(ConfigError, match=r"shape \(3, 1\) and targets \(3,\), outputs.reshape"):
        check_training(replace(work, loss=FunctionLoss(function=all_pairs)))


def test_a_loss_of_another_task_is_refused_with_the_default_of_the_task() -> None:
    with pytest.raises(
        ConfigError,
        match=r"training\.loss 'huber' needs a federation of task 'regression', got 'arrays' of "
        r"task 'classes'; its default is 'cross_entropy'",
    ):
        build("loss", "huber").check(make_federation((4, 5)))  # type: ignore[attr-defined]


def test_the_default_loss_follows_the_task() -> None:
    names = [
        loss_of(Work(federation(task), LogisticRegression(), 0.0, 1, 1)).name
        for task in ("classes", "regression", "multilabel", "sequence")
    ]
    assert names == [
        "cross_entropy",
        "mean_squared_error",
        "binary_cross_entropy",
        "cross_entropy",
    ]


def test_binary_cross_entropy_refuses_targets_outside_of_0_and_1() -> None:
    with pytest.raises(ConfigError, match=r"needs targets in \[0, 1\], got -?\d"):
        BinaryCrossEntropy().check(federation("regression"))
    x, inside, beyond = np.eye(4, dtype=np.float32), np.linspace(0, 1, 4), np.full(4, 1.5)
    for outside in ("training", "validation", "test"):
        ys = {part: beyond if part == outside else inside for part in ("training", "test")}
        held = beyond if outside == "validation" else inside
        made = Federation.from_arrays(
            x,
            ys["training"],
            client=[0, 1] * 2,
            test=(x, ys["test"]),
            validation=(x, held, [0, 1] * 2),
            task="regression",
        )
        with pytest.raises(ConfigError, match=f"got 1.5 in the {outside} part of 'arrays'"):
            BinaryCrossEntropy().check(made)


def test_a_registered_function_has_a_name_and_no_settings() -> None:
    @loss("absolute-of-a-test")
    def absolute(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return (outputs - targets).abs().mean()

    assert table(build("loss", "absolute-of-a-test")) == {"name": "absolute-of-a-test"}
    assert table(build("loss", absolute)) == {"name": "absolute-of-a-test"}
    for wrong in (None, ""):
        with pytest.raises(ConfigError, match=r"fedgs\.losses\.loss needs a name"):
            loss(wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"takes a function \(outputs, targets\) .* got"):
        loss("not-a-function-of-a-test")(nn.Linear)  # type: ignore[type-var]
