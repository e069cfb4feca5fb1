"""What cannot be trained is found before round 0, and nothing else is refused."""

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.local.material import make_federation, model_of, replies, train_request
from torch import nn

from fedgs.errors import ConfigError
from fedgs.experiments.compare import compare
from fedgs.local import LoopEngine, check_training
from fedgs.local.batches import batch_extremes, client_keys, local_batches
from fedgs.requests import Failure, Work
from fedgs.rng import generator_states


@given(st.lists(st.integers(1, 60), min_size=1, max_size=5), st.integers(1, 8), st.integers(1, 12))
def test_clients_meet_their_smallest_and_their_largest_batch_and_no_other(
    sizes: list[int], steps: int, batch: int
) -> None:
    n = np.array(sizes)
    met = local_batches(
        client_keys((0, 0), np.arange(len(n))), n, local_steps=steps, batch_size=batch
    ).sizes
    extremes = batch_extremes(n, local_steps=steps, batch_size=batch)
    assert [set(row) for row in met.tolist()] == [set(row) for row in extremes.tolist()]
    assert np.all(extremes[:, 0] <= extremes[:, 1])


def normalised() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))


class Scaled(nn.Linear):
    """Divides by the batch's standard deviation, which is NaN for one example."""

    def __init__(self) -> None:
        super().__init__(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x / x.std(dim=0) if self.training else x)


class Paired(nn.Linear):
    """Looks at pairs of examples."""

    def __init__(self) -> None:
        super().__init__(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        return y.view(-1, 2, 3).flip(1).reshape(-1, 3) if self.training else y


SIZES = [(20, 20, 11), (20, 1, 20), (20, 31, 40), (20, 41, 40), (1, 1), (12, 7), (21, 22, 23)]


@pytest.mark.parametrize("build", [normalised, Scaled, Paired, lambda: nn.Linear(5, 3)])
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("batch", [1, 5, 10])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_the_check_refuses_just_what_some_client_cannot_train(
    sizes: tuple[int, ...], batch: int, steps: int, build: Callable[[], nn.Module]
) -> None:
    work = Work(make_federation(sizes), model_of(build), 0.0, steps, batch)
    # The slow way: every client trains.
    every = [
        replies(LoopEngine(), train_request(work, [client]))[0] for client in range(len(sizes))
    ]
    failing = [client for client, reply in enumerate(every) if isinstance(reply, Failure)]
    if not failing:
        check_training(work)
        return
    with pytest.raises(ConfigError) as error:
        check_training(work)
    message = str(error.value)
    largest = min(batch, max(sizes))
    if f"a batch of {largest} examples:" in message:
        assert {client for client in range(len(sizes)) if sizes[client] >= largest} <= set(failing)
        return
    named = [
        f"{client} ({'one example' if size == 1 else f'{size} examples'})"
        for client, size in enumerate(sizes)
    ]
    assert [client for client, words in enumerate(named) if words in message] == failing
    suggested = re.search(r"training\.batch_size = (\d+) works", message)
    assert suggested or "no batch size up to" in message
    if suggested:
        check_training(Work(work.federation, work.model, 0.0, steps, int(suggested[1])))


def test_a_batch_of_one_is_refused_with_the_client_before_anything_is_written(
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigError) as error:
        compare(
            make_federation((20, 20, 11)),
            methods=["uniform"],
            model=normalised,
            training={"rounds": 2, "batch_size": 10, "local_steps": 10},
            out=tmp_path / "out",
        )
    assert str(error.value) == (
        "model 'normalised' cannot be trained on a batch of one example, which client 2 "
        "(11 examples) would have with training.batch_size = 10: ValueError: Expected more than 1 "
        "value per channel when training, got input size torch.Size([1, 8]); "
        "training.batch_size = 9 works, and GroupNorm instead of BatchNorm works on single examples"
    )
    assert not (tmp_path / "out").exists()


def test_many_clients_are_named_by_three_of_them() -> None:
    with pytest.raises(
        ConfigError,
        match=r"clients 0 \(one example\), 1 \(11 examples\), 2 \(21 examples\) and 2 more would",
    ):
        check_training(
            Work(make_federation((1, 11, 21, 31, 41, 20)), model_of(normalised), 0.0, 10, 10)
        )


def test_batch_norm_over_places_takes_single_images() -> None:
    def images() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2 * 16, 3)
        )

    check_training(
        Work(make_federation((1, 4), example_shape=(1, 6, 6)), model_of(images), 0.0, 2, 4)
    )


class Training(nn.Module):
    """A linear model whose forward pass in training mode is given."""

    def __init__(self, forward: Callable[[nn.Module, torch.Tensor], Any]) -> None:
        super().__init__()
        self.linear, self.own, self.calls = nn.Linear(5, 3), np.random.default_rng(0), 0
        self.does = forward

    def forward(self, x: torch.Tensor) -> Any:
        return self.does(self, x) if self.training else self.linear(x)


def refuse(module: Any, x: torch.Tensor) -> torch.Tensor:
    raise RuntimeError("for inference only")


def count(module: Any, x: torch.Tensor) -> torch.Tensor:
    module.calls += 1
    return module.linear(x * module.calls)


FAULTS: dict[str, tuple[Callable[[Any, torch.Tensor], Any], str]] = {
    "evaluation only": (refuse, "RuntimeError: for inference only"),
    "auxiliary": (lambda m, x: (m.linear(x), m.linear(x)), "logits of shape (7, 3), got tuple"),
    "other labels": (lambda m, x: m.linear(x)[:, :2], "logits of shape (7, 3), got (7, 2)"),
    "detached": (
        lambda m, x: m.linear(x).detach(),
        "its loss does not depend on any parameter that is trained",
    ),
    "unused": (
        lambda m, x: x[:, :3].clone().requires_grad_(),
        "its loss does not depend on any parameter that is trained",
    ),
    "not finite": (lambda m, x: m.linear(x) / 0, "the loss or its gradient is not finite"),
    "own generator": (
        lambda m, x: m.linear(x + m.own.normal()),
        "differs when it is computed again",
    ),
    "fresh entropy": (
        lambda m, x: m.linear(x + random.SystemRandom().random()),
        "differs when it is computed again",
    ),
    "counter": (count, "differs when it is computed again"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_models_that_work_in_evaluation_alone_are_refused(kind: str) -> None:
    does, message = FAULTS[kind]
    with pytest.raises(
        ConfigError, match=r"^model '<lambda>' cannot be trained on a batch of 7 examples: "
    ) as error:
        check_training(Work(make_federation((7, 20)), model_of(lambda: Training(does)), 0.0, 2, 7))
    assert message in str(error.value)


@pytest.mark.parametrize(
    "draw",
    [lambda: float(torch.rand(())), random.random, np.random.random],
    ids=["torch", "random", "numpy"],
)
def test_the_check_changes_neither_statistics_nor_generators(draw: Callable[[], float]) -> None:
    shared = normalised()
    statistics = {name: value.clone() for name, value in shared.state_dict().items()}
    before = generator_states()
    check_training(Work(make_federation((20, 8)), model_of(lambda: shared), 0.0, 2, 4))
    drawing = model_of(lambda: Training(lambda module, x: module.linear(x + draw())))  # type: ignore[operator]
    check_training(Work(make_federation((20, 8)), drawing, 0.0, 2, 4))
    assert generator_states() == before
    assert all(torch.equal(value, statistics[name]) for name, value in shared.state_dict().items())
