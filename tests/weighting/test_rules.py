"""The weightings without a memory, by their values."""

from typing import Any

import numpy as np
import pytest
import torch

from fedgs.aggregation import WeightedMean
from fedgs.arrays import FloatArray
from fedgs.clients import Clients, Selection, View
from fedgs.errors import ConfigError, UpdateError
from fedgs.weighting import Weighting, as_weighting, checked_weights

CLIENTS = Clients(("a", "b", "c"), np.array([1, 3, 4]))


def weights_of(
    weighting: Any, *, draws: Any = None, counts: Any = (0, 0, 0), round: int = 0, **fields: Any
) -> FloatArray:
    """The weights of clients "a" and "b", with 1 and 3 of 8 examples."""
    view = View(round, CLIENTS, np.array([0, 1]), np.array(counts), cohort_limit=2, **fields)
    draws = None if draws is None else np.array(draws)
    return checked_weights(as_weighting(weighting), view, Selection(np.array([0, 1]), draws), {})


@pytest.mark.parametrize(
    ("weighting", "draws", "counts", "expected"),
    [
        ("data_size", None, [0, 0, 0], 3.0),  # (1·0 + 3·4) / 4
        ("equal", None, [0, 0, 0], 2.0),  # (0 + 4) / 2
        ("draws", [3, 1], [0, 0, 0], 1.0),  # (3·0 + 1·4) / 4
        ("draws", None, [0, 0, 0], 2.0),  # once each
        ("inverse_participation", None, [0, 2, 0], 2.0),  # weights 1/1 and 3/3
        ("inverse_participation", None, [1, 0, 0], 24 / 7),  # weights 1/2 and 3: 3·4 / 3.5
    ],
)
def test_each_normalised_rule_gives_its_value_on_parameters_0_and_4(
    weighting: str, draws: Any, counts: Any, expected: float
) -> None:
    weights = weights_of(weighting, draws=draws, counts=counts)
    assert weights.sum() == pytest.approx(1, abs=1e-15)
    fold = WeightedMean(weights)
    average = fold.finish(fold.add(fold.start(), np.array([0, 1]), torch.tensor([[0.0], [4.0]])))
    assert float(average[0]) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("weighting", "fields", "expected"),
    [
        ("all", {}, [1 / 8, 3 / 8]),
        ("all", {"objective": "equal"}, [1 / 3, 1 / 3]),
        (
            {"name": "inverse_participation", "normalise": False},
            {"counts": [0, 2, 5], "round": 5},  # p_k·6/1 and p_k·6/3
            [6 / 8, 6 / 8],
        ),
        (
            {"name": "inverse_participation", "normalise": False, "cutoff": 4},
            {"counts": [0, 2, 5], "round": 5},
            [4 / 8, 6 / 8],
        ),
        (
            {"name": "inverse_participation", "normalise": False, "counts": "answered"},
            {"counts": [9, 9, 9], "answers": np.array([0, 2, 5]), "round": 5},
            [6 / 8, 6 / 8],
        ),
        ("known", {"rates": np.array([0.5, 0.25, 1.0])}, [1 / 4, 3 / 2]),
    ],
)
def test_each_unnormalised_rule_gives_its_value(
    weighting: Any, fields: dict[str, Any], expected: list[float]
) -> None:
    np.testing.assert_allclose(weights_of(weighting, **fields), expected, rtol=1e-15)


def test_known_rates_count_the_cohorts_share_of_the_available_clients() -> None:
    view = View(
        0, CLIENTS, np.arange(3), np.zeros(3, dtype=np.int64), 2, rates=np.array([0.5, 0.5, 1.0])
    )
    weights = checked_weights(as_weighting("known"), view, Selection(np.array([0, 2])), {})
    np.testing.assert_allclose(weights, [1 / 8 / (0.5 * 2 / 3), 4 / 8 / (2 / 3)], rtol=1e-15)


def test_draws_in_proportion_to_size_are_unbiased() -> None:
    # Two draws a round, client 1 with probability 3/4: E = 3. 10^5 rounds of variance 16·(3/16)/2 =
    # 1.5: sd of the mean .0039; five sd: odds of a false alarm below 1 : 1,000,000.
    values = []
    frequency = np.bincount(np.random.default_rng(0).binomial(2, 0.75, size=100_000))
    for twice in range(3):
        draws = np.array([2 - twice, twice])
        chosen = np.flatnonzero(draws)  # a client drawn twice trains once
        view = View(0, CLIENTS, chosen, np.zeros(3, dtype=np.int64), cohort_limit=2)
        selection = Selection(chosen, draws[chosen])
        weights = checked_weights(as_weighting("draws"), view, selection, {})
        values.append(weights @ np.array([0.0, 4.0])[chosen])
    assert abs(np.average(values, weights=frequency) - 3) < 0.02


class Given(Weighting):
    """Gives the weights of the setting."""

    values: list[float]

    def weights(self, view: View, selection: Selection, memory: Any) -> FloatArray:
        return np.array(self.values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0.0, 0.0], r"aggregation weights \(Given\) must not all be 0, got \[0.0, 0.0\]"),
        ([1.0, np.nan], r"aggregation weights \(Given\) must be finite and >= 0, got \[1.0, nan\]"),
        ([1.0, np.inf], "must be finite and >= 0"),
        ([1.0, -1.0], "must be finite and >= 0"),
        ([1.0], r"aggregation weights \(Given\) must have shape \(2,\), got \(1,\)"),
    ],
)
def test_unusable_weights_are_a_named_error(values: list[float], message: str) -> None:
    with pytest.raises(UpdateError, match=message):
        weights_of(Given(values=values))


def test_a_cutoff_beside_normalised_weights_is_refused() -> None:
    with pytest.raises(ConfigError, match="cutoff has no effect with normalise = true"):
        as_weighting({"name": "inverse_participation", "cutoff": 4})
