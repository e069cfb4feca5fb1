"""The contract of engines: each agrees with the loop, and a reply depends on its request alone."""

import copy
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.local.material import make_federation, mlp, model_of, replies, train_request
from tests.local.test_loop import Picky, dropout, poisoned
from torch import nn

from fedgs.aggregation import WeightedMean
from fedgs.config import Execution
from fedgs.data.federation import Federation
from fedgs.errors import ClientError, ConfigError, UpdateError
from fedgs.experiments.compare import compare
from fedgs.local import LoopEngine, StackedEngine, checked_device, initial_parameters
from fedgs.local import stacked as stacked_module
from fedgs.local.engines import make_engine
from fedgs.local.evaluation import RequestedRows
from fedgs.local.linear import LinearProgram, is_linear
from fedgs.local.stacked import _stacks
from fedgs.local.stacking import PERIOD, StackedProgram
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


def test_general_program_agrees_with_loop_on_convolutions() -> None:
    images = make_federation((9, 5, 1), example_shape=(1, 8, 8), pixels=True)
    work = Work(images, FashionCNN(), 0.1, 2, 4)
    request = train_request(work, [0, 1, 2])
    ((_, expected),) = replies(LoopEngine(), request)
    ((_, found),) = replies(StackedEngine(), request)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)


def test_stacked_evaluation_of_the_general_program_agrees_with_loop(federation: Federation) -> None:
    # The path that CUDA takes, on the CPU.
    work = Work(federation, mlp(5, [8], 3), 0.0, 1, 4)
    requests = [
        Losses(work, initial_parameters(work.model, federation, seed), clients, "validation")
        for seed, clients in ((0, np.array([0, 3])), (1, np.array([5, 2, 1])))
    ]
    engine = StackedEngine()
    rows = [RequestedRows.of(request) for request in requests]
    found = stacked_module._measure_stacked(engine.program(work), requests, rows)
    for a, b in zip(found, replies(LoopEngine(), *requests), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_large_requests_are_cut_without_changing_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    many = make_federation([3, 9, 1, 5] * 6)
    for model in (LogisticRegression(), mlp(5, [7], 3)):
        work = Work(many, model, 0.0, 3, 4)
        requests = [train_request(work, range(1 + run, 20), key=(run, 0)) for run in range(3)]
        whole = replies(StackedEngine(), *requests)
        monkeypatch.setattr(StackedEngine, "_limit", lambda self, work: PERIOD)
        cut = replies(StackedEngine(), *requests)
        monkeypatch.undo()
        assert all(torch.equal(a[i], b[i]) for a, b in zip(whole, cut, strict=True) for i in (0, 1))


@given(st.lists(st.integers(0, 70), max_size=6), st.integers(1, 5))
def test_stacks_hold_every_client_once_and_in_order(lengths: list[int], limit: int) -> None:
    limit *= PERIOD
    found = list(_stacks(lengths, limit))
    assert all(piece.start % PERIOD == 0 for stack in found for piece in stack)
    assert all(0 <= sum(piece.stop - piece.start for piece in stack) <= limit for stack in found)
    pieces = [piece for stack in found for piece in stack]
    for request, length in enumerate(lengths):
        clients = [
            client
            for piece in pieces
            if piece.request == request
            for client in range(piece.start, piece.stop)
        ]
        assert clients == list(range(length))


def test_failing_client_in_a_stack_is_found_and_the_others_go_on() -> None:
    work = Work(poisoned(99.0), model_of(Picky), 0.0, 2, 2)
    for engine in (LoopEngine(), StackedEngine()):
        failed, fine = replies(engine, train_request(work, [0, 1, 2]), train_request(work, [0, 2]))
        assert isinstance(failed, Failure)
        assert failed.client == 1
        assert isinstance(failed.exception, ClientError)
        assert isinstance(failed.exception.__cause__, ValueError)
        assert torch.isfinite(fine[0]).all()


def relu() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))


@pytest.mark.parametrize("model", [LogisticRegression(), model_of(relu)], ids=["logistic", "relu"])
def test_local_model_that_is_not_finite_is_found_in_a_stack(model: Model) -> None:
    work = Work(poisoned(1e30), model, 0.0, 3, 2)
    failed, fine = replies(
        StackedEngine(), train_request(work, [0, 1]), train_request(work, [0, 2])
    )
    assert failed.client == 1
    assert isinstance(failed.exception, UpdateError)
    assert (
        str(failed.exception)
        == "the local model of client 'b' is not finite (NaN or inf) after 3 steps"
    )
    assert torch.isfinite(fine[0]).all()


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


def test_engine_holds_no_thread_after_an_answer(federation: Federation) -> None:
    import threading

    work = Work(federation, LogisticRegression(), 0.0, 10, 10)
    torch.set_num_threads(2)
    before = threading.active_count()
    replies(StackedEngine(), *[train_request(work, [0, 2, 5], key=(run, 0)) for run in range(300)])
    assert threading.active_count() == before


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


def test_devices_that_do_not_exist_are_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"execution.device must be 'cpu', 'cuda' or 'cuda:<number>', got 'gpu'"
    ):
        checked_device("gpu")
    with pytest.raises(
        ConfigError, match=r"execution.device is 'cuda:99', but PyTorch finds \d+ CUDA devices here"
    ):
        checked_device("cuda:99")


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


def test_requests_are_left_as_they_came(federation: Federation) -> None:
    work = Work(federation, mlp(5, [4], 3), 0.1, 2, 4)
    for engine in (LoopEngine(), StackedEngine()):
        request = train_request(work, [0, 2])
        before = copy.deepcopy((request.parameters, request.clients))
        first = replies(engine, request)[0][0].clone()
        assert torch.equal(request.parameters, before[0])
        assert np.array_equal(request.clients, before[1])
        assert torch.equal(replies(engine, request)[0][0], first)


def test_weighted_means_of_a_stack_are_those_of_the_folds(federation: Federation) -> None:
    work = Work(federation, LogisticRegression(), 0.0, 3, 4)
    both = [
        train_request(work, clients, key=(run, 0))
        for run, clients in enumerate(([0, 2], [1, 4, 5], [0, 3], [5]))
    ]
    means = [
        Train(r.work, r.parameters, r.clients, r.learning_rate, r.key, r.folds[:1]) for r in both
    ]
    for expected, found in zip(
        replies(StackedEngine(), *both), replies(StackedEngine(), *means), strict=True
    ):
        assert len(found) == 1
        assert torch.equal(found[0], expected[0])


def test_request_whose_weighted_mean_is_not_finite_fails_alone() -> None:
    work = Work(poisoned(1e30), LogisticRegression(), 0.0, 3, 2)
    requests = [train_request(work, clients) for clients in ([0, 1], [0, 2])]
    means = [
        Train(r.work, r.parameters, r.clients, r.learning_rate, r.key, r.folds[:1])
        for r in requests
    ]
    failed, fine = replies(StackedEngine(), *means)
    assert isinstance(failed, Failure)
    assert failed.client == 1
    assert torch.isfinite(fine[0]).all()


def test_stack_that_fails_through_nobodys_fault_is_not_passed_over_in_silence(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(self: StackedEngine, *_: Any) -> Any:
        raise RuntimeError("out of order")

    monkeypatch.setattr(StackedEngine, "_models", broken)
    request = train_request(Work(federation, LogisticRegression(), 0.0, 3, 4), [0, 2])
    ((found, _),) = replies(StackedEngine(), request)
    ((expected, _),) = replies(LoopEngine(), request)
    assert torch.equal(found, expected)
    assert (
        "failed (RuntimeError('out of order')) and was answered by the loop engine instead"
        in caplog.text
    )
    caplog.clear()


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


def test_cut_request_that_fails_in_its_first_stack_says_nothing_of_the_others(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Refuses(WeightedMean):
        def add(self, accumulator: Any, clients: Any, models: torch.Tensor) -> Any:
            raise ValueError("not these")

    monkeypatch.setattr(StackedEngine, "_limit", lambda self, work: PERIOD)
    wide = make_federation((3,) * (2 * PERIOD + 2))
    request = train_request(Work(wide, LogisticRegression(), 0.0, 2, 4), range(2 * PERIOD + 2))
    folds = (Refuses(np.full(2 * PERIOD + 2, 1 / (2 * PERIOD + 2))),)
    (found,) = replies(
        StackedEngine(),
        Train(request.work, request.parameters, request.clients, 0.1, (0, 0), folds),
    )
    assert isinstance(found, Failure) and "not these" in str(found.exception)
    assert caplog.text == ""


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
