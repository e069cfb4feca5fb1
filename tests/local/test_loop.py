import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.local.material import make_federation, mlp, model_of, replies, train_request
from tests.oracles import local_sgd
from torch import nn

from fedgs.data.federation import Federation
from fedgs.errors import ClientError, ConfigError, UpdateError
from fedgs.local import LoopEngine, initial_parameters
from fedgs.local.parameters import build_module
from fedgs.models import FashionCNN, LogisticRegression
from fedgs.requests import Evaluate, Failure, Losses, Metrics, Work


@given(
    st.sampled_from([LogisticRegression(), mlp(5, [4], 3), mlp(5, [6, 2], 3)]),
    st.sampled_from([0.0, 0.01, 0.5]),
    st.integers(1, 6),
    st.integers(1, 9),
    st.integers(0, 5),
)
@settings(max_examples=25, deadline=None)
def test_local_models_are_those_of_sgd_on_the_differentiated_objective(
    model: object, mu: float, local_steps: int, batch_size: int, round: int
) -> None:
    federation = make_federation((7, 1, 40, 12, 3, 20))
    work = Work(federation, model, mu, local_steps, batch_size)
    request = train_request(work, [0, 1, 2, 4], key=(3, round), rate=0.3)
    ((_, models),) = replies(LoopEngine(), request)
    for row, client in enumerate((0, 1, 2, 4)):
        module = build_module(model, federation, 3)
        expected = local_sgd.local_model(
            module,
            federation,
            client=client,
            key=(3, round),
            mu=mu,
            local_steps=local_steps,
            batch_size=batch_size,
            learning_rate=0.3,
        )
        torch.testing.assert_close(models[row], expected, rtol=1e-4, atol=1e-6)


def test_images_are_normalised_and_trained_like_the_plain_version() -> None:
    federation = make_federation((9, 5), example_shape=(1, 8, 8), pixels=True)
    work = Work(federation, FashionCNN(), 0.01, 2, 4)
    ((_, models),) = replies(LoopEngine(), train_request(work, [0, 1]))
    module = build_module(work.model, federation)
    for client in (0, 1):
        expected = local_sgd.local_model(
            module,
            federation,
            client=client,
            key=(0, 0),
            mu=0.01,
            local_steps=2,
            batch_size=4,
            learning_rate=0.1,
        )
        torch.testing.assert_close(models[client], expected, rtol=1e-4, atol=1e-6)


def test_order_of_requests_and_other_requests_change_nothing(federation: Federation) -> None:
    work = Work(federation, mlp(5, [4], 3), 0.0, 3, 4)
    a, b = train_request(work, [0, 2]), train_request(work, [1, 2, 5], key=(1, 4))
    engine = LoopEngine()
    first, second = replies(engine, a, b)
    again = replies(engine, b, a)
    assert torch.equal(first[0], again[1][0])
    assert torch.equal(second[0], again[0][0])


def dropout() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 16), nn.Dropout(0.5), nn.Linear(16, 3))


def test_dropout_depends_on_seed_round_and_client_and_leaves_the_global_generator(
    federation: Federation,
) -> None:
    work = Work(federation, model_of(dropout), 0.0, 3, 4)
    torch.manual_seed(5)
    ((_, together),) = replies(LoopEngine(), train_request(work, [0, 2, 5]))
    after = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(after, torch.rand(3))
    ((_, alone),) = replies(LoopEngine(), train_request(work, [2]))
    assert torch.equal(alone[0], together[1])
    ((_, later),) = replies(LoopEngine(), train_request(work, [2], key=(0, 1)))
    assert not torch.equal(later[0], alone[0])


def test_batch_norm_keeps_its_statistics_in_the_vector_and_no_client_sees_anothers(
    federation: Federation,
) -> None:
    work = Work(
        federation,
        model_of(lambda: nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))),
        0.0,
        2,
        7,
    )
    # 24 + 8 + 15 parameters, then running mean and variance.
    ((_, together),) = replies(LoopEngine(), train_request(work, [0, 2]))
    ((_, alone),) = replies(LoopEngine(), train_request(work, [2]))
    assert together.shape == (2, 47 + 8)
    assert torch.equal(together[1], alone[0])
    assert not torch.equal(together[0, 47:51], torch.zeros(4))


def test_losses_are_means_over_each_clients_part(federation: Federation) -> None:
    work = Work(federation, LogisticRegression(), 0.0, 1, 4)
    theta = initial_parameters(work.model, federation, 0)
    (found,) = replies(LoopEngine(), Losses(work, theta, np.array([0, 3, 5]), "validation"))
    part = federation.validation
    logits = part.x.astype(np.float64) @ theta[:15].double().numpy().reshape(3, 5).T
    losses = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(part.y)), part.y]
    assert found[0] == pytest.approx(losses[part.rows(0)].mean(), abs=1e-6)
    assert np.isnan(found[1])  # client 3 has no validation example
    assert found[2] == pytest.approx(losses[part.rows(5)].mean(), abs=1e-6)


def test_validation_weighs_clients_by_training_size_and_leaves_out_the_empty(
    federation: Federation,
) -> None:
    work = Work(federation, LogisticRegression(), 0.0, 1, 4)
    theta = initial_parameters(work.model, federation, 0)
    each, whole = replies(
        LoopEngine(),
        Losses(work, theta, np.arange(6), "validation"),
        Evaluate(work, theta, "validation"),
    )
    # training sizes 7, 1, 40, 12, 3, 20 without client 3's 12: 71 in all
    assert whole.loss == pytest.approx(np.nansum(each * [7, 1, 40, 0, 3, 20]) / 71, abs=1e-9)


def test_test_metrics_are_means_over_the_test_set() -> None:
    x = np.array([[0.0], [1.0], [2.0]], dtype=np.float32)
    federation = Federation.from_arrays(
        x, np.array([0, 1, 1]), client=np.array([0, 0, 1]), test=(x, np.array([0, 0, 1]))
    )
    # Logits (0, x - 1/2): x = 0 -> label 0; x = 1 -> 1; x = 2 -> 1.
    theta = torch.tensor([0.0, 1.0, 0.0, -0.5])
    work = Work(federation, LogisticRegression(), 0.0, 1, 1)
    (found,) = replies(LoopEngine(), Evaluate(work, theta, "test"))
    margins = np.array([0.5, -0.5, 1.5])  # of the right label over the other
    assert found == Metrics(
        pytest.approx(np.mean(np.log1p(np.exp(-margins))), abs=1e-7), pytest.approx(2 / 3)
    )


def test_missing_validation_part_is_named() -> None:
    x = np.eye(3, dtype=np.float32)
    federation = Federation.from_arrays(
        x, np.arange(3), client=np.arange(3), test=(x, np.arange(3))
    )
    work = Work(federation, LogisticRegression(), 0.0, 1, 1)
    (found,) = replies(
        LoopEngine(), Evaluate(work, initial_parameters(work.model, federation, 0), "validation")
    )
    assert isinstance(found.exception, ConfigError)
    assert str(found.exception) == (
        "the validation loss needs a validation part with examples; federation 'arrays' has none"
    )


class Picky(nn.Module):
    """Refuses inputs with a number above 50."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool((x > 50).any()):
            raise ValueError("too large for me")
        return self.linear(x)


def poisoned(value: float) -> Federation:
    x = np.ones((6, 2), dtype=np.float32)
    x[2:4] = value
    return Federation.from_arrays(
        x, np.array([0, 1] * 3), client=np.array(list("aabbcc")), test=(x[:2], np.array([0, 1]))
    )


def test_exception_in_a_model_fails_that_request_and_names_the_client() -> None:
    work = Work(poisoned(99.0), model_of(Picky), 0.0, 2, 2)
    failed, fine = replies(
        LoopEngine(), train_request(work, [0, 1, 2]), train_request(work, [0, 2])
    )
    assert isinstance(failed, Failure)
    assert failed.client == 1
    assert isinstance(failed.exception, ClientError)
    assert str(failed.exception) == "client 'b': ValueError: too large for me"
    assert isinstance(failed.exception.__cause__, ValueError)
    assert failed.exception.__cause__.__traceback__ is not None
    assert torch.isfinite(fine[0]).all()


def test_local_model_that_is_not_finite_is_named() -> None:
    work = Work(poisoned(1e30), LogisticRegression(), 0.0, 3, 2)
    failed, fine = replies(LoopEngine(), train_request(work, [0, 1]), train_request(work, [0, 2]))
    assert failed.client == 1
    assert isinstance(failed.exception, UpdateError)
    assert (
        str(failed.exception)
        == "the local model of client 'b' is not finite (NaN or inf) after 3 steps"
    )
    assert torch.isfinite(fine[0]).all()


def test_bf16_stays_near_float32(federation: Federation) -> None:
    exact, rough = (
        Work(federation, mlp(5, [8], 3), 0.0, 3, 4, precision) for precision in ("float32", "bf16")
    )
    (a, _), (b, _) = replies(
        LoopEngine(), train_request(exact, [0, 2]), train_request(rough, [0, 2])
    )
    assert b.dtype == torch.float32
    # bf16 keeps 8 bits: relative 2^-8 of steps of a few tenths.
    assert 0 < float((a - b).abs().max()) < 0.02
