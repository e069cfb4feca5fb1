"""Passes over the data instead of steps: engines agree, and equal plain PyTorch."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.local.material import make_federation, replies, train_request
from tests.local.problems import PROBLEMS, SIZES, examples
from tests.oracles import local_sgd
from tests.oracles.local_training import trained

from fedgs.config import Training
from fedgs.errors import ConfigError
from fedgs.experiments.grid import build_config
from fedgs.experiments.preparing import prepare
from fedgs.local import LoopEngine, StackedEngine
from fedgs.local.batches import compiled_kernels
from fedgs.local.linear import LinearProgram
from fedgs.local.parameters import build_module
from fedgs.models import LogisticRegression
from fedgs.optimizers import SGD, AdamW
from fedgs.requests import Train, Work


def steps(n: int, batch: int, passes: int, drop_last: bool) -> int:
    """Batches of so many passes, by hand: whole ones, and a short one unless it is left out."""
    return passes * (n // batch + (n % batch > 0 and not (drop_last and n > batch)))


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("engine", [LoopEngine(), StackedEngine()], ids=lambda one: one.name)
def test_each_client_makes_its_passes_of_plain_steps(engine: LoopEngine, drop_last: bool) -> None:
    for problem, optimizer in ((PROBLEMS[0], SGD(momentum=0.5)), (PROBLEMS[6], None)):
        work = problem.work(local_epochs=2, drop_last=drop_last, mu=0.1, optimizer=optimizer)
        models = replies(engine, train_request(work, range(6), key=(2, 3), rate=0.05))[0][1]
        module = build_module(work.model, work.federation, 2)
        momentum = 0.5 if optimizer else 0.0
        for client, n in enumerate(SIZES):
            count = steps(n, 4, 2, drop_last)
            expected = trained(
                module,
                examples(problem, client),
                batches=local_sgd.batches(2, 3, client, n, count, 4, drop_last),
                loss=problem.plain,
                optimizer=lambda p, m=momentum: torch.optim.SGD(p, lr=0.05, momentum=m),  # type: ignore[misc]
                mu=0.1,
            )
            torch.testing.assert_close(models[client], expected, rtol=1e-4, atol=1e-5)


@given(
    sizes=st.lists(st.integers(1, 30), min_size=2, max_size=6),
    epochs=st.integers(1, 3),
    drop_last=st.booleans(),
    optimizer=st.sampled_from([None, SGD(momentum=0.8, weight_decay=0.1), AdamW()]),
    mu=st.sampled_from([0.0, 0.3]),
    offsets=st.booleans(),
)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_engines_agree_on_logistic_regression(
    sizes: list[int],
    epochs: int,
    drop_last: bool,
    optimizer: Any,
    mu: float,
    offsets: bool,
) -> None:
    work = Work(
        make_federation(sizes),
        LogisticRegression(),
        mu,
        1,
        7,
        optimizer=optimizer,
        local_epochs=epochs,
        drop_last=drop_last,
    )
    engine = StackedEngine()
    kernels = compiled_kernels("linear") is not None and not isinstance(optimizer, AdamW)
    assert isinstance(engine.program(work), LinearProgram) == kernels
    request = train_request(work, range(len(sizes)), rate=0.05)
    shape = (len(sizes), len(request.parameters))
    added = torch.randn(shape, generator=torch.Generator().manual_seed(0)) / 5
    request = replace(request, offsets=added if offsets else None, reports=("mean_loss",))
    one, other = (replies(engine, request)[0] for engine in (LoopEngine(), engine))
    torch.testing.assert_close(one[1], other[1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(one[2]["mean_loss"], other[2]["mean_loss"], rtol=1e-4)


def test_a_reported_loss_is_the_mean_over_the_own_steps_of_a_client() -> None:
    """A client with fewer steps than others is not averaged over steps that it does not make."""
    work = PROBLEMS[0].work(local_epochs=1, batch_size=4)
    request = train_request(work, [1, 2])
    both = Train(work, request.parameters, request.clients, 0.1, (0, 0), (), reports=("mean_loss",))
    alone = replace(both, clients=np.array([1]))
    for engine in (LoopEngine(), StackedEngine()):
        ((of_both,), (of_one,)) = replies(engine, both, alone)
        assert of_both["mean_loss"][0] == of_one["mean_loss"][0]


def test_a_client_has_the_same_bits_beside_clients_with_more_steps() -> None:
    work = PROBLEMS[0].work(local_epochs=2, optimizer=SGD(momentum=0.9))
    for engine in (LoopEngine(), StackedEngine()):
        alone, among = replies(
            engine, train_request(work, [0, 1]), train_request(work, [0, 1, 2, 3])
        )
        assert torch.equal(alone[1], among[1][:2])


def test_one_epoch_of_full_batches_is_one_step() -> None:
    one, other = (
        PROBLEMS[0].work(batch_size=10**9, **settings)
        for settings in ({"local_epochs": 1}, {"local_steps": 1})
    )
    models = [replies(LoopEngine(), train_request(work, range(6)))[0][1] for work in (one, other)]
    assert torch.equal(*models)


def test_epochs_replace_steps_in_the_configuration() -> None:
    training = Training(local_epochs=2, drop_last=True).model_dump(mode="json")
    assert "local_steps" not in training
    assert (training["local_epochs"], training["drop_last"]) == (2, True)
    plain = Training().model_dump(mode="json")
    assert {"local_epochs", "drop_last", "schedule", "warmup"}.isdisjoint(plain)
    with pytest.raises(
        ConfigError, match=r"training\.local_steps has no effect beside training\.l"
    ):
        Training(local_epochs=2, local_steps=3)
    tables = {"data": "synthetic", "availability": "IDL", "method": "uniform"}
    config = build_config({**tables, "training": {"local_epochs": 2}})
    again = build_config({**tables, "training": config.tables()["training"]})
    assert again.training == config.training
    with pytest.raises(
        ConfigError, match=r"'scaffold' needs plain SGD .* training\.local_epochs = "
    ):
        prepare([config.model_copy(update={"aggregation": build_scaffold()})])


def build_scaffold() -> Any:
    from fedgs.aggregation import Scaffold

    return Scaffold()
