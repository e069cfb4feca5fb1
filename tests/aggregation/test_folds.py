import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgs.aggregation import WeightedMean, WeightedSum, is_finite
from fedgs.arrays import FloatArray, IntArray
from fedgs.errors import UpdateError


def shares(sizes: IntArray) -> FloatArray:
    return sizes / sizes.sum()


@given(st.integers(1, 12), st.integers(1, 40), st.integers(0, 10**6), st.data())
@settings(max_examples=60, deadline=None)
def test_average_does_not_depend_on_the_blocks(
    count: int, size: int, seed: int, data: st.DataObject
) -> None:
    rng = np.random.default_rng(seed)
    models = torch.from_numpy(rng.standard_normal((count, size)).astype(np.float32))
    weights = shares(rng.integers(1, 50, count))
    fold, clients = WeightedMean(weights), np.arange(count)
    whole = fold.finish(fold.add(fold.start(), clients, models))
    inner = data.draw(st.sets(st.integers(1, count - 1))) if count > 1 else set()
    cuts = [0, *sorted(inner), count]
    accumulator = fold.start()
    for a, b in itertools.pairwise(cuts):
        accumulator = fold.add(accumulator, clients[a:b], models[a:b])
    assert torch.equal(fold.finish(accumulator), whole)
    torch.testing.assert_close(
        whole, torch.from_numpy(weights @ models.double().numpy()).float(), rtol=1e-6, atol=1e-7
    )


@given(st.integers(1, 10), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_identical_local_models_give_exactly_themselves(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = torch.from_numpy(
        (rng.standard_normal(20) * 10.0 ** rng.integers(-8, 8)).astype(np.float32)
    )
    fold = WeightedMean(shares(rng.integers(1, 1000, count)))
    assert torch.equal(
        fold.finish(fold.add(fold.start(), np.arange(count), model.repeat(count, 1))), model
    )


def test_average_that_is_not_finite_is_a_named_error() -> None:
    for value in (float("nan"), float("inf")):
        fold = WeightedMean(np.array([0.5, 0.5]))
        accumulator = fold.add(fold.start(), np.arange(2), torch.tensor([[1.0], [value]]))
        with pytest.raises(
            UpdateError, match=r"the average of the local models is not finite \(NaN or inf\)"
        ):
            fold.finish(accumulator)


def test_missing_local_model_is_a_named_error() -> None:
    fold = WeightedMean(np.array([0.5, 0.5]))
    with pytest.raises(UpdateError, match="the average needs 2 local models, got 0"):
        fold.finish(fold.start())
    with pytest.raises(UpdateError, match="the average needs 2 local models, got 1"):
        fold.finish(fold.add(fold.start(), np.arange(1), torch.ones(1, 3)))


def test_large_models_are_averaged_in_pieces_to_the_same_bits() -> None:
    models = torch.randn(3, 150_001, generator=torch.Generator().manual_seed(0))
    weights = np.array([0.2, 0.3, 0.5])
    fold = WeightedMean(weights)
    accumulator = fold.add(fold.start(), np.arange(3), models)
    first = models[0].double()
    plain = sum((models[k] - first) * weights[k] for k in range(3))  # float64
    assert torch.equal(fold.finish(accumulator), (first + plain).float())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("wrong", [[np.inf, 1.0], [np.inf, -np.inf], [np.nan, 0.0]])
def test_what_is_not_finite_is_found_without_a_warning(wrong: list[float]) -> None:
    assert not is_finite(torch.tensor(wrong))


@given(st.integers(1, 10), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_a_weighted_sum_adds_the_weighted_updates(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    theta = torch.from_numpy(rng.standard_normal(7).astype(np.float32))
    models = torch.from_numpy(rng.standard_normal((count, 7)).astype(np.float32))
    weights = rng.uniform(0, 3, count)
    fold = WeightedSum(weights, theta)
    result = fold.finish(fold.add(fold.start(), np.arange(count), models))
    expected = theta.double() + torch.from_numpy(weights) @ (models.double() - theta.double())
    torch.testing.assert_close(result, expected.float(), rtol=1e-6, atol=1e-7)
    half = fold.add(fold.start(), np.arange(count // 2), models[: count // 2])
    rest = fold.add(half, np.arange(count // 2, count), models[count // 2 :])
    assert torch.equal(fold.finish(rest), result)


def test_weights_of_0_leave_the_parameters_as_they_are() -> None:
    theta = torch.tensor([0.1, -2.0])
    fold = WeightedSum(np.zeros(2), theta)
    models = torch.tensor([[3.0, 1.0], [1e38, 2.0]])
    assert torch.equal(fold.finish(fold.add(fold.start(), np.arange(2), models)), theta)
