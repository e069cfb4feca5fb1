"""The rules of the aggregation weights."""

import numpy as np
import pytest
import torch

from fedgs.aggregation import WeightedMean
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
