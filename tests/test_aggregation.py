import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgs.aggregation import WeightedMean, is_finite
from fedgs.errors import UpdateError
from fedgs.weights import aggregation_weights

SIZES = np.array([1, 3])


@pytest.mark.parametrize(
    ("weighting", "draws", "counts", "expected"),
    [
        ("data_size", None, None, 3.0),  # (1·0 + 3·4) / 4
        ("equal", None, None, 2.0),  # (0 + 4) / 2
        ("draws", [3, 1], None, 1.0),  # (3·0 + 1·4) / 4
        ("draws", None, None, 2.0),  # once each
        ("inverse_participation", None, [0, 2], 2.0),  # weights 1/1 and 3/3
        ("inverse_participation", None, [1, 0], 24 / 7),  # weights 1/2 and 3: 3·4 / 3.5
    ],
)
def test_each_rule_gives_its_value_on_sizes_1_3_and_parameters_0_4(
    weighting, draws, counts, expected
) -> None:
    draws, counts = (None if values is None else np.array(values) for values in (draws, counts))
    weights = aggregation_weights(weighting, SIZES, draws, counts)
    assert weights.sum() == pytest.approx(1, abs=1e-15)
    fold = WeightedMean(weights)
    average = fold.finish(fold.add(fold.start(), np.array([0, 1]), torch.tensor([[0.0], [4.0]])))
    assert float(average[0]) == pytest.approx(expected, rel=1e-6)


def test_draws_in_proportion_to_size_are_unbiased() -> None:
    # Two draws a round, client 1 with probability 3/4: E = 3. 10^5 rounds of variance 16·(3/16)/2 =
    # 1.5: sd of the mean .0039; five sd: odds of a false alarm below 1 : 1,000,000.
    outcomes = []
    frequency = np.bincount(np.random.default_rng(0).binomial(2, 0.75, size=100_000))
    for twice in range(3):
        draws = np.array([2 - twice, twice])
        chosen = draws > 0  # a client drawn twice trains once
        outcomes.append(
            aggregation_weights("draws", SIZES[chosen], draws[chosen])
            @ np.array([0.0, 4.0])[chosen]
        )
    assert abs(np.average(outcomes, weights=frequency) - 3) < 0.02


@pytest.mark.parametrize(
    ("weighting", "sizes", "draws", "message"),
    [
        (
            "draws",
            [1, 3],
            [0, 0],
            r"aggregation weights \(draws\) must not all be 0, got \[0.0, 0.0\]",
        ),
        (
            "data_size",
            [1, np.nan],
            None,
            r"aggregation weights \(data_size\) must be finite and >= 0, got \[1.0, nan\]",
        ),
        ("data_size", [1, np.inf], None, "must be finite and >= 0"),
        ("data_size", [1, -1], None, "must be finite and >= 0"),
    ],
)
def test_unusable_weights_are_a_named_error(weighting, sizes, draws, message) -> None:
    with pytest.raises(UpdateError, match=message):
        aggregation_weights(weighting, np.array(sizes), None if draws is None else np.array(draws))


@given(st.integers(1, 12), st.integers(1, 40), st.integers(0, 10**6), st.data())
@settings(max_examples=60, deadline=None)
def test_average_does_not_depend_on_the_blocks(
    count: int, size: int, seed: int, data: st.DataObject
) -> None:
    rng = np.random.default_rng(seed)
    models = torch.from_numpy(rng.standard_normal((count, size)).astype(np.float32))
    weights = aggregation_weights("data_size", rng.integers(1, 50, count))
    fold, clients = WeightedMean(weights), np.arange(count)
    whole = fold.finish(fold.add(fold.start(), clients, models))
    inner = data.draw(st.sets(st.integers(1, count - 1))) if count > 1 else set()
    cuts = [0, *sorted(inner), count]
    kept = fold.start()
    for a, b in itertools.pairwise(cuts):
        kept = fold.add(kept, clients[a:b], models[a:b])
    assert torch.equal(fold.finish(kept), whole)
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
    fold = WeightedMean(aggregation_weights("data_size", rng.integers(1, 1000, count)))
    assert torch.equal(
        fold.finish(fold.add(fold.start(), np.arange(count), model.repeat(count, 1))), model
    )


def test_average_that_is_not_finite_is_a_named_error() -> None:
    for value in (float("nan"), float("inf")):
        fold = WeightedMean(np.array([0.5, 0.5]))
        kept = fold.add(fold.start(), np.arange(2), torch.tensor([[1.0], [value]]))
        with pytest.raises(
            UpdateError, match=r"the average of the local models is not finite \(NaN or inf\)"
        ):
            fold.finish(kept)


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
    kept = fold.add(fold.start(), np.arange(3), models)
    first = models[0].double()
    plain = sum((models[k] - first) * weights[k] for k in range(3))  # float64
    assert torch.equal(fold.finish(kept), (first + plain).float())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("wrong", [[np.inf, 1.0], [np.inf, -np.inf], [np.nan, 0.0]])
def test_what_is_not_finite_is_found_without_a_warning(wrong: list[float]) -> None:
    assert not is_finite(torch.tensor(wrong))
