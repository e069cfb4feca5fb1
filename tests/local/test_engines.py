"""The contract of engines: each agrees with the loop, and a reply depends on its request alone."""

import copy
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.local.material import make_federation, mlp, model_of, replies, train_request
from tests.local.test_loop import dropout
from torch import nn

from fedgs.aggregation import WeightedMean
from fedgs.config import Execution
from fedgs.data.federation import Federation
from fedgs.errors import ConfigError
from fedgs.experiments.compare import compare
from fedgs.local import LoopEngine, StackedEngine, initial_parameters
from fedgs.local.engines import make_engine
from fedgs.models import CifarCNN, FashionCNN, LogisticRegression, Model
from fedgs.registry import load_plugin
from fedgs.requests import Engine, Evaluate, Failure, Losses, Train, Work


@st.composite
def works(draw: st.DrawFn) -> Work:
    """Any small work: logistic regression or a perceptron, B above and below n_k.

    Clients have 1 example or more.
    """
    sizes = draw(st.lists(st.integers(1, 30), min_size=1, max_size=7))
    inputs, labels = draw(st.integers(1, 40)), draw(st.integers(2, 6))
    federation = make_federation(
        sizes, example_shape=(inputs,), labels=labels, seed=draw(st.integers(0, 99))
    )
    model: Model = LogisticRegression()
    if draw(st.booleans()):
        model = mlp(inputs, draw(st.lists(st.integers(1, 12), min_size=1, max_size=2)), labels)
    return Work(
        federation,
        model,
        draw(st.sampled_from([0.0, 0.1])),
        draw(st.integers(1, 5)),
        draw(st.integers(1, 12)),
    )


def cohort(data: st.DataObject, work: Work) -> list[int]:
    return sorted(data.draw(st.sets(st.integers(0, len(work.federation) - 1), min_size=1)))


@given(works(), st.data())
@settings(max_examples=15, deadline=None)
def test_stacked_agrees_with_loop_after_one_round(work: Work, data: st.DataObject) -> None:
    requests = [
        train_request(work, cohort(data, work), key=(run, 3))
        for run in range(data.draw(st.integers(1, 4)))
    ]
    for expected, found in zip(
        replies(LoopEngine(), *requests), replies(StackedEngine(), *requests), strict=True
    ):
        torch.testing.assert_close(found[0], expected[0], rtol=1e-4, atol=2e-6)
        torch.testing.assert_close(found[1], expected[1], rtol=1e-4, atol=2e-6)


@given(works(), st.data())
@settings(max_examples=15, deadline=None)
def test_run_alone_has_the_bits_it_has_among_others(work: Work, data: st.DataObject) -> None:
    requests = [
        train_request(work, cohort(data, work), key=(run, 3))
        for run in range(data.draw(st.integers(2, 5)))
    ]
    engine = StackedEngine()
    together = replies(engine, *requests)
    for request, among in zip(requests, together, strict=True):
        (alone,) = replies(StackedEngine(), request)
        assert torch.equal(alone[0], among[0])
        assert torch.equal(alone[1], among[1])


@given(works(), st.data())
@settings(max_examples=10, deadline=None)
def test_evaluation_agrees_and_has_the_same_bits_alone(work: Work, data: st.DataObject) -> None:
    thetas = [initial_parameters(work.model, work.federation, seed) for seed in range(3)]
    clients = np.array(cohort(data, work))
    requests = [
        Evaluate(work, theta, split)
        for theta in thetas
        for split in ("test", "validation", "train")
    ]
    requests += [
        Losses(work, theta, clients, split) for theta in thetas for split in ("train", "validation")
    ]
    loop, together = replies(LoopEngine(), *requests), replies(StackedEngine(), *requests)
    for request, expected, found in zip(requests, loop, together, strict=True):
        (alone,) = replies(StackedEngine(), request)
        if isinstance(request, Evaluate):
            assert found.loss == pytest.approx(expected.loss, rel=1e-5, nan_ok=True)
            assert found.accuracy == pytest.approx(expected.accuracy, nan_ok=True)
            assert alone == found or np.isnan(found.loss)
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-5)
            np.testing.assert_array_equal(alone, found)


@pytest.mark.parametrize("model", [LogisticRegression(), mlp(5, [8], 3)], ids=["logistic", "mlp"])
@pytest.mark.parametrize("engine_class", [LoopEngine, StackedEngine])
def test_number_of_threads_changes_no_bit(
    model: Model, engine_class: type, federation: Federation
) -> None:
    work = Work(federation, model, 0.01, 3, 4)
    requests = [train_request(work, [0, 1, 2, 5], key=(run, 0)) for run in range(400)]
    one = replies(engine_class(), *requests[: 400 if engine_class is StackedEngine else 2])
    torch.set_num_threads(2)
    two = replies(engine_class(), *requests[: len(one)])
    assert all(torch.equal(a[1], b[1]) for a, b in zip(one, two, strict=True))


def test_general_program_agrees_with_loop_on_convolutions() -> None:
    images = make_federation((9, 5, 1), example_shape=(1, 8, 8), pixels=True)
    work = Work(images, FashionCNN(), 0.1, 2, 4)
    request = train_request(work, [0, 1, 2])
    ((_, expected),) = replies(LoopEngine(), request)
    ((_, found),) = replies(StackedEngine(), request)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)


def test_requests_of_different_work_are_answered_together(federation: Federation) -> None:
    works = [
        Work(federation, model, mu, 2, 4)
        for model in (LogisticRegression(), mlp(5, [4], 3))
        for mu in (0.0, 0.1)
    ]
    requests = [train_request(work, [0, 2, 4]) for work in works]
    requests += [
        Evaluate(work, request.parameters, "test")
        for work, request in zip(works, requests, strict=True)
    ]
    for expected, found in zip(
        replies(LoopEngine(), *requests), replies(StackedEngine(), *requests), strict=True
    ):
        a, b = (
            value[0] if isinstance(value, tuple) else torch.tensor(value.loss)
            for value in (expected, found)
        )
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


class BufferWriter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 3)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1.0
        return self.linear(x)


def batch_norm() -> nn.Module:
    return nn.Sequential(
        nn.Linear(5, 4), nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 3)
    )


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.linear(x)
        return z if float(z.sum()) > 0 else 2 * z


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (model_of(dropout), "it draws random numbers, such as dropout"),
        (model_of(batch_norm), "one example changes the output of another, such as batch norm"),
        (model_of(BufferWriter), "it changes its buffers while training, such as batch norm"),
        (model_of(Branching), "torch.func does not accept it"),
    ],
    ids=["dropout", "batch norm", "buffers", "branching"],
)
def test_model_that_cannot_be_stacked_gets_the_loop_and_a_reason(
    model: Model, why: str, federation: Federation
) -> None:
    work = Work(federation, model, 0.0, 2, 4)
    engine, sentence = make_engine("auto", "cpu", work)
    assert engine.name == "loop"
    assert sentence.startswith(f"loop: the model cannot be stacked: {why}")
    with pytest.raises(
        ConfigError, match=r"execution\.engine is 'stacked', but this model cannot be stacked: "
    ):
        make_engine("stacked", "cpu", work)


@pytest.mark.parametrize(
    ("name", "model", "shape", "expected"),
    [
        ("auto", LogisticRegression(), (5,), "stacked: a model that torch.func accepts, on cpu"),
        ("auto", mlp(5, [4], 3), (5,), "stacked: a model that torch.func accepts, on cpu"),
        ("auto", FashionCNN(), (1, 8, 8), "loop: a convolutional model on the CPU"),
        ("auto", CifarCNN(), (3, 16, 16), "loop: a convolutional model on the CPU"),
        ("loop", LogisticRegression(), (5,), "loop: execution.engine asks for it"),
        ("stacked", FashionCNN(), (1, 8, 8), "stacked: execution.engine asks for it"),
    ],
)
def test_choice_is_a_fixed_rule_of_model_and_device(
    name: str, model: Model, shape: tuple[int, ...], expected: str
) -> None:
    work = Work(make_federation((3, 2), example_shape=shape), model, 0.0, 2, 4)
    engine, sentence = make_engine(name, "cpu", work)
    assert sentence == expected
    assert engine.name == expected.split(":")[0]
    assert isinstance(engine, Engine)


def test_frozen_parameters_stay_as_they_are(federation: Federation) -> None:
    def frozen() -> nn.Module:
        module = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
        module[0].weight.requires_grad_(False)
        return module

    request = train_request(Work(federation, model_of(frozen), 0.1, 2, 4), [0, 2])
    for engine in (LoopEngine(), StackedEngine()):
        ((_, models),) = replies(engine, request)
        assert torch.equal(models[0, :20], request.parameters[:20])
        assert not torch.equal(models[0, 20:], request.parameters[20:])


def test_requests_are_left_as_they_came(federation: Federation) -> None:
    work = Work(federation, mlp(5, [4], 3), 0.1, 2, 4)
    for engine in (LoopEngine(), StackedEngine()):
        request = train_request(work, [0, 2])
        before = copy.deepcopy((request.parameters, request.clients))
        first = replies(engine, request)[0][0].clone()
        assert torch.equal(request.parameters, before[0])
        assert np.array_equal(request.clients, before[1])
        assert torch.equal(replies(engine, request)[0][0], first)


def test_mean_with_too_few_weights_fails_and_is_not_stretched(federation: Federation) -> None:
    request = train_request(Work(federation, LogisticRegression(), 0.0, 3, 4), [0, 1, 2])
    for weights in (np.ones(1), np.full(2, 0.5), np.full(4, 0.25)):
        short = Train(
            request.work,
            request.parameters,
            request.clients,
            request.learning_rate,
            request.key,
            (WeightedMean(weights),),
        )
        for engine in (LoopEngine(), StackedEngine()):
            assert isinstance(replies(engine, short)[0], Failure)


def test_a_plug_in_engine_can_be_named_and_says_what_it_cannot_do(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from fedgs.local import LoopEngine\n"
        "from fedgs.local.engines import EngineVariant\n"
        "from fedgs.registry import register\n"
        "class Slow(LoopEngine):\n"
        "    name = 'own-engine'\n"
        "@register('engine', 'own-engine')\n"
        "class Own(EngineVariant):\n"
        "    def can(self, work):\n"
        "        return 'is too large' if work.batch_size > 11 else None\n"
        "    def make(self, device):\n"
        "        return Slow(device)\n"
        "    def versions(self):\n"
        "        return {'own-engine': 7}\n"
    )
    with pytest.raises(
        ConfigError, match=r"^execution.engine should be 'auto', .*'loop'.* got 'own-engine'$"
    ):
        Execution(engine="own-engine")
    load_plugin(tmp_path / "own.py")
    execution = {"engine": "own-engine", "workers": 1}
    training = {"rounds": 2, "local_steps": 1}
    mixed = make_federation((3, 2, 4))
    results = compare(
        mixed, methods=["uniform"], training=training, execution=execution, out=tmp_path / "out"
    )
    about = results.runs[0].about
    assert (about["engine"], about["engine_reason"]) == (
        "own-engine",
        "own-engine: execution.engine asks for it",
    )
    assert about["numerics"] == {"own-engine": 7}
    loop = compare(mixed, methods=["uniform"], training=training, execution={"engine": "loop"})
    assert list(results.runs[0].records) == list(loop.runs[0].records)
    longer = compare(
        mixed, methods=["uniform"], training={**training, "rounds": 3}, out=tmp_path / "out"
    )
    # The run is resumed with the same engine.
    assert longer.runs[0].about["engine"] == "own-engine" and longer.runs[0].finished
    with pytest.raises(
        ConfigError,
        match=r"^execution.engine is 'own-engine', but this model is too large; use 'auto' or",
    ):
        compare(
            mixed, methods=["uniform"], training={**training, "batch_size": 12}, execution=execution
        )


@pytest.mark.parametrize("value", [3, None, ["loop"], "Loop"])
def test_what_names_no_engine_is_refused_with_the_known_ones(value: object) -> None:
    with pytest.raises(
        ConfigError,
        match=r"^execution.engine should be 'auto', 'loop'.* or '.*', got "
        + re.escape(repr(value)),
    ):
        Execution(engine=value)


def test_engines_are_named_without_torch() -> None:
    code = (
        "import sys; from fedgs.config import Execution; "
        "Execution(engine='stacked'); print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "False\n"
