"""Server steps by their equations."""

from typing import Any

import numpy as np
import pytest
import torch

from fedgs.aggregation import Adagrad, Adam, Amplified, Momentum, ServerStep, Sgd, Yogi
from fedgs.errors import ConfigError
from fedgs.registry import build

THETA = torch.tensor([1.0, -2.0, 0.5])
UPDATES = [
    torch.tensor(values) for values in ([0.5, 1.0, -1.0], [-0.25, 2.0, 0.0], [1.0, 1.0, 1.0])
]
STEPS = [
    Sgd(rate=0.5),
    Momentum(rate=0.5),
    Adagrad(rate=0.1),
    Adam(rate=0.1),
    Yogi(rate=0.1),
    Amplified(period=2, factor=3.0),
]


def moved(step: ServerStep, updates: list[torch.Tensor | None]) -> list[torch.Tensor]:
    """Parameters after each round; None is a round without a cohort."""
    theta, moments, path = THETA, step.start(THETA), []
    for round, update in enumerate(updates):
        target = None if update is None else theta + update
        theta, moments = step.step(round, theta, target, moments)
        path.append(theta)
    return path


def test_sgd_with_rate_1_gives_the_target_itself() -> None:
    target = torch.tensor([0.1, 1e-30, 3e30])
    assert Sgd().step(0, THETA, target, {})[0] is target


@pytest.mark.parametrize("step", [Momentum(beta=0.0), Amplified(period=3, factor=1.0)])
def test_neutral_settings_are_fedavg_by_the_general_path(step: ServerStep) -> None:
    for ours, plain in zip(moved(step, [*UPDATES]), moved(Sgd(), [*UPDATES]), strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-6, atol=0)


def test_amplified_with_period_1_is_sgd_with_its_factor_as_rate() -> None:
    ours = moved(Amplified(period=1, factor=3.0), [*UPDATES])
    for one, plain in zip(ours, moved(Sgd(rate=3.0), [*UPDATES]), strict=True):
        torch.testing.assert_close(one, plain, rtol=1e-6, atol=1e-7)


def test_amplified_multiplies_the_progress_of_a_period_and_counts_empty_rounds() -> None:
    first, second = UPDATES[:2]
    path = moved(Amplified(period=2, factor=3.0), [first, None, second, first])
    torch.testing.assert_close(path[0], THETA + first)
    torch.testing.assert_close(path[1], THETA + 3 * first)  # the period ends in the empty round
    torch.testing.assert_close(path[2], path[1] + second)
    torch.testing.assert_close(path[3], path[1] + 3 * (second + first))


@pytest.mark.parametrize("dampened", [False, True])
def test_momentum_is_the_recursion(dampened: bool) -> None:
    theta, velocity = THETA.double(), torch.zeros(3, dtype=torch.float64)
    step = Momentum(rate=0.5, beta=0.9, dampened=dampened)
    for ours, update in zip(moved(step, [*UPDATES]), UPDATES, strict=True):
        velocity = 0.9 * velocity + (0.1 if dampened else 1.0) * update
        theta = theta + 0.5 * velocity
        torch.testing.assert_close(ours, theta.float())


@pytest.mark.parametrize("kind", [Adagrad, Adam, Yogi])
def test_adaptive_steps_are_the_equations_of_the_paper(
    kind: type[Adagrad | Adam | Yogi],
) -> None:
    step = kind(rate=0.1, beta1=0.9)
    theta, first = THETA.numpy().astype(float), np.zeros(3)
    second = np.full(3, 1e-6)
    for ours, update in zip(moved(step, [*UPDATES]), UPDATES, strict=True):
        u = update.numpy().astype(float)
        first = 0.9 * first + 0.1 * u
        second = {
            Adagrad: second + u**2,
            Adam: 0.99 * second + 0.01 * u**2,
            Yogi: second - 0.01 * u**2 * np.sign(second - u**2),
        }[kind]
        theta = theta + 0.1 * first / (np.sqrt(second) + 1e-3)
        np.testing.assert_allclose(ours.numpy(), theta, rtol=1e-5)


def test_adam_with_a_constant_update_steps_by_the_rate_and_the_sign() -> None:
    update = torch.tensor([3.0, -0.5, 20.0])
    path = moved(Adam(rate=0.1), [update] * 800)
    torch.testing.assert_close(path[-1] - path[-2], 0.1 * torch.sign(update), rtol=5e-3, atol=0)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_round_without_a_cohort_is_as_if_it_had_not_been(step: ServerStep) -> None:
    if isinstance(step, Amplified):
        pytest.skip("its period counts rounds")
    with_gap = moved(step, [UPDATES[0], None, UPDATES[1]])
    without = moved(step, UPDATES[:2])
    assert torch.equal(with_gap[1], with_gap[0]) and torch.equal(with_gap[2], without[1])


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_no_tensor_that_came_in_is_written_to(step: ServerStep) -> None:
    theta, target = THETA.clone(), THETA + 1
    moments = dict(step.start(theta))
    before = {key: value.clone() for key, value in moments.items()}
    step.step(0, theta, target, moments)
    step.step(1, theta, target, moments)
    assert torch.equal(theta, THETA) and torch.equal(target, THETA + 1)
    assert all(torch.equal(moments[key], before[key]) for key in before)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_arrays_of_numpy_give_the_bits_of_tensors(step: ServerStep) -> None:
    rng = np.random.default_rng(0)
    theta = rng.normal(size=10_001).astype(np.float32)
    moments = step.start(theta)
    tensors = step.start(torch.from_numpy(theta))
    for round in range(7):
        update = (10.0 ** rng.integers(-5, 3) * rng.normal(size=len(theta))).astype(np.float32)
        target = None if round == 3 else theta + update
        given = None if target is None else torch.from_numpy(target)
        moved, tensors = step.step(round, torch.from_numpy(theta), given, tensors)
        theta, moments = step.step(round, theta, target, moments)
        assert isinstance(theta, np.ndarray) and theta.dtype == np.float32
        assert moved.numpy().tobytes() == theta.tobytes()
        for key, moment in moments.items():
            assert moment.tobytes() == tensors[key].numpy().tobytes()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "sgd", "rate": 1e39}, "rate must be within float32's range.* got 1e"),
        ({"name": "adam", "rate": 1e39}, "rate must be within float32's range"),
        ({"name": "adam", "rate": 0.1, "tau": 1e20}, r"tau must be in \[1e-19, 1e19\].* got 1e"),
        ({"name": "yogi", "rate": 0.1, "tau": 1e-20}, r"tau must be in \[1e-19, 1e19\]"),
        ({"name": "amplified", "period": 2, "factor": 1e39}, "factor must be within float32's"),
    ],
)
def test_settings_outside_of_the_range_of_float32_are_refused(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=f"^server.{message}"):
        build("server", settings)


@pytest.mark.parametrize("tau", [1e-19, 1e19])
def test_steps_are_finite_at_both_ends_of_tau(tau: float) -> None:
    zeros = torch.zeros(2)
    steps: list[ServerStep] = [kind(rate=0.1, tau=tau) for kind in (Adagrad, Adam, Yogi)]
    for step in steps:
        moved, _ = step.step(0, zeros, torch.tensor([0.0, 1.0]), step.start(zeros))
        assert torch.isfinite(moved).all() and moved[0] == 0
