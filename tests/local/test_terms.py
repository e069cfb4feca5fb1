"""Own starts, offsets, reports, and losses on mini-batches, in all engines."""

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.local.material import make_federation, mlp, model_of, replies, train_request
from tests.local.test_engines import cohort, works
from tests.local.test_loop import dropout, poisoned
from tests.oracles import local_sgd
from torch import nn
from torch.nn import functional

from fedgs.errors import ConfigError, DataError
from fedgs.local import LoopEngine, StackedEngine, initial_parameters
from fedgs.models import LogisticRegression
from fedgs.requests import Failure, Losses, Train, Work

REPORTS = ("update_norm", "rms_loss", "mean_loss")
LOGISTIC, PERCEPTRON = LogisticRegression(), mlp(5, [4], 3)
# The loop, the compiled program where numba is installed, and the stacked program.
ENGINES = [(LoopEngine, LOGISTIC), (StackedEngine, LOGISTIC), (StackedEngine, PERCEPTRON)]
each_engine = pytest.mark.parametrize(("engine", "model"), ENGINES)


def with_terms(request: Train, seed: int = 0) -> Train:
    """The request with random starts and offsets, and all reports."""
    generator = torch.Generator().manual_seed(seed)
    shape = (len(request.clients), len(request.parameters))
    starts = request.parameters + torch.randn(shape, generator=generator)
    offsets = torch.randn(shape, generator=generator)
    return replace(request, starts=starts, offsets=offsets, reports=REPORTS)


def work_of(model: Any, *, mu: float = 0.1, local_steps: int = 3, batch_size: int = 4) -> Work:
    federation = make_federation((7, 1, 40, 12, 3, 20))
    return Work(federation, model, mu, local_steps, batch_size)


def agree(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found[1], expected[1], rtol=1e-4, atol=1e-5)
    assert list(found[2]) == list(expected[2]) == list(REPORTS)
    for name in REPORTS:
        assert found[2][name].dtype == np.float64
        np.testing.assert_allclose(found[2][name], expected[2][name], rtol=2e-4, atol=1e-5)


@given(works(), st.data())
@settings(max_examples=15, deadline=None)
def test_stacked_agrees_with_loop(work: Work, data: st.DataObject) -> None:
    requests = [
        with_terms(train_request(work, cohort(data, work), key=(run, 3)), run) for run in range(3)
    ]
    requests.append(train_request(work, cohort(data, work), key=(9, 3)))
    loop, stacked = replies(LoopEngine(), *requests), replies(StackedEngine(), *requests)
    for expected, found in zip(loop[:3], stacked[:3], strict=True):
        agree(found, expected)
    assert len(loop[3]) == len(stacked[3]) == 2


@given(works(), st.data())
@settings(max_examples=10, deadline=None)
def test_replies_have_the_bits_they_have_alone(work: Work, data: st.DataObject) -> None:
    requests = [
        with_terms(train_request(work, cohort(data, work), key=(run, 3)), run) for run in range(3)
    ]
    for request, among in zip(requests, replies(StackedEngine(), *requests), strict=True):
        (alone,) = replies(StackedEngine(), request)
        assert torch.equal(alone[1], among[1])
        for name in REPORTS:
            np.testing.assert_array_equal(alone[2][name], among[2][name])


@given(works(), st.data(), st.sampled_from([LoopEngine, StackedEngine]))
@settings(max_examples=15, deadline=None)
def test_terms_of_no_effect_change_no_bit(work: Work, data: st.DataObject, engine: type) -> None:
    plain = train_request(work, cohort(data, work))
    starts = plain.parameters.repeat(len(plain.clients), 1)
    neutral = replace(plain, starts=starts, offsets=torch.zeros_like(starts))
    (expected,) = replies(engine(), plain)
    for request in (neutral, replace(plain, reports=REPORTS), replace(neutral, reports=REPORTS)):
        (found,) = replies(engine(), request)
        assert torch.equal(found[0], expected[0])
        assert torch.equal(found[1], expected[1])


def test_dropout_draws_the_same_numbers_with_terms() -> None:
    plain = train_request(work_of(model_of(dropout)), [0, 2])
    starts = plain.parameters.repeat(2, 1)
    neutral = replace(plain, starts=starts, offsets=torch.zeros_like(starts), reports=REPORTS)
    (expected,), (found,) = replies(LoopEngine(), plain), replies(LoopEngine(), neutral)
    assert torch.equal(found[1], expected[1])


def by_hand(request: Train) -> tuple[torch.Tensor, dict[str, list[float]]]:
    """The logistic local models and the reports, step by step in float64."""
    work, (seed, round) = request.work, request.key
    part, models = work.federation.train, []
    reports: dict[str, list[float]] = {name: [] for name in REPORTS}
    for row, client in enumerate(request.clients.tolist()):
        first = request.parameters if request.starts is None else request.starts[row]
        start = first.double()
        offset = torch.zeros_like(start)
        if request.offsets is not None:
            offset = request.offsets[row].double()
        x = torch.from_numpy(part.x[part.rows(client)]).double()
        y = torch.from_numpy(part.y[part.rows(client)])
        theta, means, squares = start.clone(), [], []
        for batch in local_sgd.batches(
            seed, round, client, len(y), work.local_steps, work.batch_size
        ):
            theta.requires_grad_()
            logits = x[batch] @ theta[:15].view(3, 5).T + theta[15:]
            losses = functional.cross_entropy(logits, y[batch], reduction="none")
            (gradient,) = torch.autograd.grad(losses.mean(), theta)
            means.append(float(losses.detach().mean()))
            squares += losses.detach().square().tolist()
            theta = theta.detach()
            step = gradient + offset + work.mu * (theta - start)
            theta = theta - request.learning_rate * step
        models.append(theta)
        reports["mean_loss"].append(float(np.mean(means)))
        reports["rms_loss"].append(float(np.sqrt(np.mean(squares))))
        reports["update_norm"].append(float((theta - start).norm()))
    return torch.stack(models), reports


@pytest.mark.parametrize("engine", [LoopEngine, StackedEngine])
@pytest.mark.parametrize(("local_steps", "mu"), [(1, 0.0), (1, 0.3), (6, 0.0), (6, 0.3)])
def test_steps_and_reports_are_those_by_hand(engine: type, local_steps: int, mu: float) -> None:
    work = work_of(LOGISTIC, mu=mu, local_steps=local_steps)
    request = with_terms(train_request(work, [0, 1, 2, 4], key=(3, 2)))
    models, reports = by_hand(request)
    (found,) = replies(engine(), request)
    torch.testing.assert_close(found[1].double(), models, rtol=1e-5, atol=2e-6)
    for name in REPORTS:
        np.testing.assert_allclose(found[2][name], reports[name], rtol=2e-5)


@each_engine
def test_the_proximal_term_pulls_to_the_own_start(engine: type, model: Any) -> None:
    # With a large mu a step of rate 1/mu leads back to the start, wherever that is.
    work = work_of(model, mu=1e4, local_steps=4)
    request = with_terms(train_request(work, [0, 2, 5], rate=1e-4))
    (found,) = replies(engine(), replace(request, offsets=None))
    assert request.starts is not None
    assert float((found[1] - request.starts).abs().max()) < 1e-2
    assert float((found[1] - request.parameters).abs().max()) > 0.5


@each_engine
def test_update_norm_is_the_norm_of_the_update(engine: type, model: Any) -> None:
    request = with_terms(train_request(work_of(model), [0, 2, 5]))
    for given_request, starts in (
        (request, request.starts),
        (replace(request, starts=None), request.parameters[None]),
    ):
        (found,) = replies(engine(), given_request)
        assert starts is not None
        expected = (found[1].double() - starts.double()).norm(dim=1).numpy()
        np.testing.assert_allclose(found[2]["update_norm"], expected, rtol=1e-12)


@each_engine
def test_frozen_parameters_and_buffers_have_no_offset(engine: type, model: Any) -> None:
    def build() -> nn.Module:
        module = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
        module[0].weight.requires_grad_(False)
        module.register_buffer("scale", torch.ones(2))
        return module

    request = with_terms(train_request(work_of(model_of(build)), [0, 2]))
    (found,) = replies(engine(), request)
    assert request.starts is not None
    assert torch.equal(found[1][:, :20], request.starts[:, :20])
    assert torch.equal(found[1][:, -2:], request.starts[:, -2:])
    assert not torch.equal(found[1][:, 20:-2], request.starts[:, 20:-2])


@pytest.mark.parametrize("engine", [LoopEngine, StackedEngine])
def test_a_client_that_is_not_finite_is_named(engine: type) -> None:
    plain = train_request(Work(poisoned(1e30), LOGISTIC, 0.0, 3, 2), [0, 1])
    failed, fine = replies(
        engine(), replace(plain, reports=REPORTS), with_terms(train_request(plain.work, [0, 2]))
    )
    assert isinstance(failed, Failure) and failed.client == 1
    assert np.isfinite(fine[2]["mean_loss"]).all()
    offsets = torch.zeros(2, len(plain.parameters))
    offsets[0, 3] = torch.nan
    (failed,) = replies(engine(), replace(plain, clients=np.array([0, 2]), offsets=offsets))
    assert isinstance(failed, Failure) and failed.client == 0
    assert "client 'a' is not finite" in str(failed.exception)


def test_requests_that_are_cut_keep_their_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    from fedgs.local.stacking import PERIOD

    many = make_federation([3, 9, 1, 5] * 6)
    for model in (LOGISTIC, mlp(5, [7], 3)):
        work = Work(many, model, 0.1, 3, 5)
        requests = [
            with_terms(train_request(work, range(1 + run, 20), key=(run, 0)), run)
            for run in range(3)
        ]
        averaged = [replace(request, folds=request.folds[:1]) for request in requests]
        whole = replies(StackedEngine(), *requests)
        alone = replies(StackedEngine(), *averaged)
        monkeypatch.setattr(StackedEngine, "_limit", lambda self, request: PERIOD)
        cut = replies(StackedEngine(), *requests)
        monkeypatch.undo()
        for a, b, c in zip(whole, cut, alone, strict=True):
            assert torch.equal(a[0], b[0]) and torch.equal(a[0], c[0]) and torch.equal(a[1], b[1])
            for name in REPORTS:
                np.testing.assert_array_equal(a[2][name], b[2][name])
                np.testing.assert_array_equal(a[2][name], c[1][name])


@pytest.mark.parametrize("name", ["starts", "offsets"])
def test_terms_of_another_shape_or_type_are_refused(name: str) -> None:
    plain = train_request(work_of(LOGISTIC), [0, 2])
    for wrong in (
        torch.zeros(2, 17),
        torch.zeros(3, 18),
        torch.zeros(18),
        torch.zeros(2, 18, dtype=torch.float64),
    ):
        with pytest.raises(DataError, match=rf"^{name} must be float32 of shape \(2, 18\)"):
            replace(plain, **{name: wrong})


def test_reports_and_batches_that_do_not_exist_are_refused() -> None:
    plain = train_request(work_of(LOGISTIC), [0, 2])
    with pytest.raises(ConfigError, match=r"^a report must be 'mean_loss', .* got 'loss'$"):
        replace(plain, reports=("loss",))
    with pytest.raises(ConfigError, match=r"^reports must be distinct"):
        replace(plain, reports=("mean_loss", "mean_loss"))
    for batch in (0, -1, 2.5, True, "4"):
        with pytest.raises(ConfigError, match=r"^batch must be an integer >= 1 or None, got "):
            Losses(plain.work, plain.parameters, plain.clients, "train", batch=batch)  # type: ignore[arg-type]


def losses_of(engine: Any, work: Work, **options: Any) -> np.ndarray:
    theta = initial_parameters(work.model, work.federation, 0)
    clients, split = np.arange(6), options.pop("split", "train")
    (found,) = replies(engine, Losses(work, theta, clients, split, **options))
    assert isinstance(found, np.ndarray)
    return found


@each_engine
@pytest.mark.parametrize("split", ["train", "validation"])
def test_a_batch_of_all_examples_gives_the_bits_of_the_whole_part(
    engine: type, model: Any, split: str
) -> None:
    work = work_of(model)
    whole = losses_of(engine(), work, split=split)
    for batch in (40, 10**12):
        np.testing.assert_array_equal(losses_of(engine(), work, split=split, batch=batch), whole)


@each_engine
def test_a_mini_batch_is_drawn_by_seed_round_and_client(engine: type, model: Any) -> None:
    work = work_of(model)
    first = losses_of(engine(), work, key=(1, 2), batch=3)
    np.testing.assert_array_equal(losses_of(engine(), work, key=(1, 2), batch=3), first)
    np.testing.assert_allclose(losses_of(LoopEngine(), work, key=(1, 2), batch=3), first, rtol=1e-5)
    whole = losses_of(engine(), work)
    np.testing.assert_allclose(first[[1, 4]], whole[[1, 4]], rtol=1e-6)  # 1 and 3 examples
    for key in ((1, 3), (2, 2)):
        assert (
            losses_of(engine(), work, key=key, batch=3)[[0, 2, 3, 5]] != first[[0, 2, 3, 5]]
        ).all()
    theta = initial_parameters(model, work.federation, 0)
    some, one = replies(
        engine(),
        Losses(work, theta, np.array([2, 5]), "train", (1, 2), 3),
        Losses(work, theta, np.array([0]), "train", (1, 2), 3),
    )
    # The loop computes blocks of many clients, whose last bits depend on their size.
    np.testing.assert_allclose([*one, *some], first[[0, 2, 5]], rtol=1e-6)


def test_a_mini_batch_of_one_is_every_example_equally_often() -> None:
    work = Work(make_federation((4,)), LOGISTIC, 0.0, 1, 4)
    theta = initial_parameters(LOGISTIC, work.federation, 0)
    draws = replies(
        LoopEngine(),
        *[Losses(work, theta, np.array([0]), "train", (0, t), 1) for t in range(1200)],
    )
    values, counts = np.unique(np.concatenate(draws), return_counts=True)
    assert len(values) == 4
    # Probability 1/4, standard error .0125; six of them, four values: odds below 1e-8.
    np.testing.assert_allclose(counts / 1200, 0.25, atol=0.075)


@pytest.mark.long
def test_without_numba_the_general_program_serves_them() -> None:
    code = """
import sys
sys.modules["numba"] = None
from fedgs.local.linear import LinearProgram
from tests.local.test_terms import *
work = work_of(LOGISTIC)
requests = [with_terms(train_request(work, [0, 1, 2, 4]))]
(expected,), (found,) = replies(LoopEngine(), *requests), replies(StackedEngine(), *requests)
assert not isinstance(StackedEngine().program(work), LinearProgram)
agree(found, expected)
np.testing.assert_allclose(
    losses_of(StackedEngine(), work, batch=3), losses_of(LoopEngine(), work, batch=3), rtol=1e-5
)
print("done")
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.stdout == "done\n", done.stderr
