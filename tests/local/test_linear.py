"""The program for linear models against the general program and the loop engine."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from tests.local.material import make_federation, replies, train_request
from torch import nn

from fedgs.data.federation import Federation
from fedgs.errors import MissingExtraError
from fedgs.local import LoopEngine, StackedEngine, initial_parameters, linear
from fedgs.local.linear import LinearProgram, is_linear
from fedgs.local.stacking import StackedProgram
from fedgs.models import LogisticRegression
from fedgs.requests import Evaluate, Work


def test_logistic_regression_has_the_same_result_compiled_and_through_torch_func(
    federation: Federation,
) -> None:
    pytest.importorskip("numba")
    work = Work(federation, LogisticRegression(), 0.01, 5, 4)
    engine = StackedEngine()
    assert isinstance(engine.program(work), LinearProgram)
    request = train_request(work, [0, 1, 2, 3, 4, 5])
    general = StackedEngine()
    general._programs = {
        key: StackedProgram(general.loop.workbench(work), work) for key in engine._programs
    }
    ((_, expected),), ((_, found),) = replies(general, request), replies(engine, request)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_logistic_regression_on_images_is_normalised(federation: Federation) -> None:
    images = make_federation((9, 5), example_shape=(2, 4, 4), pixels=True)
    work = Work(images, LogisticRegression(), 0.0, 3, 4)
    requests = [
        train_request(work, [0, 1]),
        Evaluate(work, initial_parameters(work.model, images, 0), "test"),
    ]
    expected, expected_metrics = replies(LoopEngine(), *requests)
    found, metrics = replies(StackedEngine(), *requests)
    torch.testing.assert_close(found[1], expected[1], rtol=1e-4, atol=1e-6)
    assert metrics.loss == pytest.approx(expected_metrics.loss, rel=1e-5)


def test_only_one_linear_layer_with_a_bias_is_linear() -> None:
    assert is_linear(nn.Sequential(nn.Flatten(), nn.Linear(3, 2)))
    frozen = nn.Linear(3, 2)
    frozen.bias.requires_grad_(False)
    for other in (
        nn.Linear(3, 2, bias=False),
        frozen,
        nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)),
        nn.Sequential(nn.Flatten()),
    ):
        assert not is_linear(other)


@pytest.mark.long
def test_without_numba_the_general_program_answers(federation: Federation) -> None:
    code = """
import sys
sys.modules["numba"] = None
import torch
from fedgs.local import StackedEngine
from fedgs.local.stacking import PERIOD, StackedProgram
from fedgs.models import LogisticRegression
from fedgs.requests import Work
from tests.local.material import make_federation, replies, train_request
work = Work(make_federation((7, 1, 40)), LogisticRegression(), 0.0, 2, 4)
engine = StackedEngine()
assert isinstance(engine.program(work), StackedProgram)
(found,) = replies(engine, train_request(work, [0, 1, 2]))
print(found[0].tolist())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    work = Work(make_federation((7, 1, 40)), LogisticRegression(), 0.0, 2, 4)
    ((expected, _),) = replies(StackedEngine(), train_request(work, [0, 1, 2]))
    np.testing.assert_allclose(np.array(eval(done.stdout)), expected.numpy(), rtol=1e-4, atol=1e-6)


def test_the_program_without_numba_names_the_extra(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "compiled_kernels", lambda part: None)
    with pytest.raises(MissingExtraError, match=r"^this needs 'numba'.*fedgs\[sim\]"):
        LinearProgram(Work(federation, LogisticRegression(), 0.0, 1, 4))
