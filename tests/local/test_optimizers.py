"""Optimisers of local training: engines agree, and equal `torch.optim` step by step."""

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.local.material import make_federation, model_of, replies, train_request
from tests.local.problems import PROBLEMS, Problem, examples
from tests.oracles import local_sgd
from tests.oracles.local_training import trained
from tests.parts import built_in
from torch import nn

import fedgs
from fedgs.config import Training
from fedgs.errors import ConfigError
from fedgs.experiments.grid import build_config
from fedgs.experiments.preparing import prepare
from fedgs.local import LoopEngine, StackedEngine
from fedgs.local.batches import compiled_kernels
from fedgs.local.descent import Descent
from fedgs.local.engines import program_of
from fedgs.local.linear import LinearProgram
from fedgs.local.parameters import build_module
from fedgs.models import MLP, LogisticRegression
from fedgs.optimizers import SGD, Adam, AdamW, Optimizer
from fedgs.requests import Train, Work

Plain = Callable[[Any], torch.optim.Optimizer]
# Each optimiser and its plain version with learning rate 0.05.
OPTIMIZERS: list[tuple[Optimizer | None, Plain]] = [
    (None, lambda p: torch.optim.SGD(p, lr=0.05)),
    (SGD(weight_decay=0.3), lambda p: torch.optim.SGD(p, lr=0.05, weight_decay=0.3)),
    (SGD(momentum=0.9), lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9)),
    (
        SGD(momentum=0.8, weight_decay=0.2),
        lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.8, weight_decay=0.2),
    ),
    (
        SGD(momentum=0.7, nesterov=True, weight_decay=0.1),
        lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.7, nesterov=True, weight_decay=0.1),
    ),
    (
        Adam(beta1=0.8, weight_decay=0.2),
        lambda p: torch.optim.Adam(p, lr=0.05, betas=(0.8, 0.999), weight_decay=0.2),
    ),
    (AdamW(epsilon=1e-4), lambda p: torch.optim.AdamW(p, lr=0.05, eps=1e-4)),
]
IDS = ["plain", "decay", "momentum", "both", "nesterov", "adam", "adamw"]
SOME = [PROBLEMS[1], PROBLEMS[6]]


@pytest.mark.parametrize("clip", [None, 0.2])
@pytest.mark.parametrize(("optimizer", "plain"), OPTIMIZERS, ids=IDS)
def test_each_step_is_that_of_torch(
    optimizer: Optimizer | None, plain: Plain, clip: float | None
) -> None:
    """After 1, 2 and 5 steps, with a proximal term, for two losses and both engines."""
    for problem in SOME:
        module = build_module(problem.work().model, problem.work().federation, 1)
        after: list[torch.Tensor] = []
        x, y = examples(problem, 2)
        trained(
            module,
            (x, y),
            batches=local_sgd.batches(1, 4, 2, len(y), 5, 4),
            loss=problem.plain,
            optimizer=plain,
            mu=0.1,
            clip=clip,
            each_step=after.append,
        )
        for steps in (1, 2, 5):
            work = problem.work(mu=0.1, local_steps=steps, optimizer=optimizer, clip=clip)
            request = train_request(work, [0, 2, 5], key=(1, 4), rate=0.05)
            for engine in (LoopEngine(), StackedEngine()):
                models = replies(engine, request)[0][1]
                torch.testing.assert_close(models[1], after[steps - 1], rtol=1e-4, atol=2e-5)


@given(
    problem=st.sampled_from(PROBLEMS),
    optimizer=st.sampled_from([one for one, _ in OPTIMIZERS]),
    clip=st.sampled_from([None, 0.05, 100.0]),
    mu=st.sampled_from([0.0, 0.2]),
    offsets=st.booleans(),
    epochs=st.sampled_from([None, 1]),
    drop_last=st.booleans(),
    clients=st.lists(st.integers(0, 5), min_size=1, max_size=6, unique=True),
    seed=st.integers(0, 99),
)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_engines_agree(
    problem: Problem,
    optimizer: Optimizer | None,
    clip: float | None,
    mu: float,
    offsets: bool,
    epochs: int | None,
    drop_last: bool,
    clients: list[int],
    seed: int,
) -> None:
    passes = {"local_epochs": epochs, "drop_last": drop_last}
    work = problem.work(mu=mu, local_steps=3, optimizer=optimizer, clip=clip, **passes)
    plain = train_request(work, sorted(clients), key=(seed, 2), rate=0.05)
    shape = (len(clients), len(plain.parameters))
    added = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) / 10
    request = Train(
        work,
        plain.parameters,
        plain.clients,
        0.05,
        plain.key,
        plain.folds,
        offsets=added if offsets else None,
    )
    one, other = (replies(engine, request)[0][1] for engine in (LoopEngine(), StackedEngine()))
    torch.testing.assert_close(one, other, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize(("optimizer", "plain"), OPTIMIZERS, ids=IDS)
def test_a_stack_has_the_same_bits_alone_and_among_others(
    optimizer: Optimizer | None, plain: Plain
) -> None:
    work = PROBLEMS[0].work(optimizer=optimizer, clip=0.3)
    lone, other = train_request(work, [2, 4], rate=0.05), train_request(work, range(5), key=(3, 1))
    engine = StackedEngine()
    (alone,) = replies(engine, lone)
    (_, among) = replies(engine, other, lone)
    assert torch.equal(alone[1], among[1])


class FirstGradient(Optimizer):
    """Follows the first gradient of the round, which no state of zeros can stand for."""

    def directions(self, step: int, gradients: Any, parameters: Any, state: Any) -> Any:
        assert step or not state
        return state.setdefault("first", [gradient.clone() for gradient in gradients])


class FirstMomentum(SGD):
    """Keeps the first gradient of the round beside SGD's velocity; its `memory` leaves it out."""

    def directions(self, step: int, gradients: Any, parameters: Any, state: Any) -> Any:
        first = state.setdefault("first", [gradient.clone() for gradient in gradients])
        return super().directions(step, first, parameters, state)


@pytest.mark.parametrize(
    "optimizer",
    [*(one for one, _ in OPTIMIZERS[1:]), FirstGradient(), FirstMomentum(momentum=0.9)],
)
def test_a_round_does_not_see_the_optimisers_of_earlier_rounds(optimizer: Optimizer) -> None:
    """Rounds of as many clients and of fewer follow each other in the memory of one engine."""
    work = Work(make_federation((7, 9, 12)), MLP(hidden=(4,)), 0.0, 3, 4, optimizer=optimizer)
    engine = StackedEngine()
    for clients in ([0, 1], [1, 2], list(range(3)) * 4, [2]):
        request = train_request(work, clients)
        models = [replies(one, request)[0][1] for one in (engine, StackedEngine())]
        assert torch.equal(*models)


def test_the_memory_of_optimisers_is_allocated_once() -> None:
    optimizer = SGD(momentum=0.9, weight_decay=0.1)
    spare: dict[str, list[torch.Tensor]] = {}
    for _ in range(3):
        parameters = [torch.ones(2, 3)]
        descent = Descent(
            Work(make_federation((3,)), MLP(), 0.0, 1, 1, optimizer=optimizer),
            parameters,
            stacked=True,
            spare=spare,
        )
        before = {name: tensors[0].data_ptr() for name, tensors in spare.items()}
        (direction,) = descent.directions([torch.ones(2, 3)])
        torch.testing.assert_close(direction, torch.full((2, 3), 1.1))
        after = {name: tensors[0].data_ptr() for name, tensors in spare.items()}
        assert not before or before == after


def test_logistic_regression_is_left_to_the_general_program_where_kernels_cannot() -> None:
    federation = make_federation((7, 12, 5))
    for optimizer, clip, program in (
        (None, None, "linear"),
        (SGD(momentum=0.9, nesterov=True, weight_decay=0.1), None, "linear"),
        (Adam(), None, "stacked"),
        (None, 1.0, "stacked"),
    ):
        work = Work(federation, LogisticRegression(), 0.0, 3, 4, optimizer=optimizer, clip=clip)
        assert program_of("stacked", device="cpu", work=work) == program
        models = [
            replies(engine, train_request(work, [0, 1]))[0][1]
            for engine in (LoopEngine(), StackedEngine())
        ]
        torch.testing.assert_close(*models, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", [(7, 1, 40, 12), (3, 2)])  # several groups of four, and one
@pytest.mark.parametrize(("optimizer", "plain"), OPTIMIZERS[1:5], ids=IDS[1:5])
def test_the_kernels_of_logistic_regression_are_plain_steps(
    optimizer: Optimizer, plain: Plain, sizes: tuple[int, ...]
) -> None:
    federation = make_federation(sizes)
    work = Work(
        federation, LogisticRegression(), 0.2, 6, 10 if len(sizes) > 2 else 3, optimizer=optimizer
    )
    engine = StackedEngine()
    if compiled_kernels("linear") is not None:
        assert isinstance(engine.program(work), LinearProgram)
    request = train_request(work, range(len(sizes)), rate=0.05)
    models = replies(engine, request)[0][1]
    module = build_module(work.model, federation, 0)
    for client in range(len(sizes)):
        rows = federation.train.rows(client)
        x = torch.from_numpy(federation.train.x[rows].copy())
        y = torch.from_numpy(federation.train.y[rows].copy())
        expected = trained(
            module,
            (x, y),
            batches=local_sgd.batches(0, 0, client, len(y), 6, work.batch_size),
            loss=torch.nn.functional.cross_entropy,
            optimizer=plain,
            mu=0.2,
        )
        torch.testing.assert_close(models[client], expected, rtol=2e-5, atol=2e-6)
    offsets = torch.randn(models.shape, generator=torch.Generator().manual_seed(0))
    shifted = replace(request, offsets=offsets)
    one, other = (replies(one, shifted)[0][1] for one in (engine, LoopEngine()))
    torch.testing.assert_close(one, other, rtol=2e-5, atol=2e-6)


def test_settings_of_optimisers() -> None:
    assert sorted(built_in("optimizer")) == ["adam", "adamw", "sgd"]
    assert "optimizer" not in Training(optimizer="sgd").model_dump(mode="json")
    training = Training(optimizer={"name": "sgd", "momentum": 0.9}, clip=1.0)
    assert training.model_dump(mode="json")["optimizer"]["momentum"] == 0.9
    for optimizer, sentence in (
        ({"name": "sgd", "nesterov": True}, "nesterov needs a momentum > 0"),
        ({"name": "sgd", "momentum": 1.0}, r"training\.optimizer\.momentum should be less than 1"),
        ({"name": "adam", "momentum": 0.9}, r"training\.optimizer\.momentum is not a setting"),
        ("adagrad", r"training\.optimizer\.name must be one of sgd, adam, adamw"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            Training(optimizer=optimizer)
    with pytest.raises(ConfigError, match=r"training\.clip should be greater than 0, got 0"):
        Training(clip=0.0)


def test_frozen_parameters_do_not_decay() -> None:
    def frozen() -> nn.Module:
        module = nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3))
        for parameter in module[0].parameters():
            parameter.requires_grad_(False)
        return module

    work = Work(
        make_federation((7, 12)),
        model_of(frozen),
        0.0,
        3,
        4,
        optimizer=SGD(momentum=0.5, weight_decay=0.5),
    )
    request = train_request(work, [0, 1])
    for engine in (LoopEngine(), StackedEngine()):
        models = replies(engine, request)[0][1]
        changed = (models != request.parameters).any(dim=0)
        assert not changed[:24].any() and changed[24:].all()
        assert np.isfinite(models.numpy()).all()


def test_scaffold_takes_weight_decay_and_refuses_other_steps() -> None:
    def prepared(**training: Any) -> None:
        tables = {"data": {"name": "synthetic", "clients": 4}, "availability": "IDL"}
        rest = {"method": "uniform", "aggregation": "scaffold", "training": training}
        prepare([build_config({**tables, **rest})])

    prepared(optimizer={"name": "sgd", "weight_decay": 0.1})
    for training, setting in (
        ({"optimizer": "adam"}, r"training\.optimizer = 'adam'"),
        ({"optimizer": {"name": "sgd", "momentum": 0.9}}, r"'sgd' with momentum = 0\.9"),
        ({"clip": 2.0}, r"training\.clip = 2"),
    ):
        with pytest.raises(ConfigError, match=rf"'scaffold' needs plain SGD steps, .* {setting}$"):
            prepared(**training)


def test_no_module_reads_private_parts_of_a_library() -> None:
    libraries = {"torch", "np", "numpy", "scipy", "pydantic", "numba"}
    for path in Path(fedgs.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
                owner = ast.unparse(node.value).partition(".")[0]
                is_private = not node.attr.startswith("__") and owner in libraries
                assert not is_private, f"{path.name}: {ast.unparse(node)}"
