"""Rates that are drawn once: their distributions, and their formulas client by client."""

import re

import numpy as np
import pytest

from fedgs import Clients
from fedgs.availability import (
    Availability,
    Bernoulli,
    LabelDirichlet,
    LabelUniform,
    LargeLabelsFirst,
)
from fedgs.errors import ConfigError
from fedgs.registry import build


def clients_of(labels: list[list[int]]) -> Clients:
    counts = np.array(labels)
    return Clients(tuple(range(len(counts))), counts.sum(axis=1), label_counts=counts)


def plain(count: int) -> Clients:
    return Clients(tuple(range(count)), np.ones(count, dtype=np.int64))


@pytest.mark.parametrize("lowest", [0.1, 0.6])
def test_rates_are_uniform_above_the_lowest(lowest: float) -> None:
    rates = Bernoulli(lowest=lowest).rates(0, plain(20_000))
    assert lowest <= rates.min() and rates.max() <= 1
    # The distance of Kolmogorov and Smirnov exceeds 3.5/sqrt(20,000) with odds of 5e-11.
    uniform = np.sort((rates - lowest) / (1 - lowest))
    assert np.abs(uniform - np.arange(20_000) / 20_000).max() < 0.025


def test_rates_of_the_first_clients_do_not_depend_on_later_ones() -> None:
    np.testing.assert_array_equal(
        Bernoulli().rates(0, plain(5)), Bernoulli().rates(3, plain(9))[:5]
    )
    assert Bernoulli(seed=1).rates(0, plain(5))[0] != Bernoulli(seed=2).rates(0, plain(5))[0]


def test_given_rates_are_taken_in_turn() -> None:
    assert Bernoulli(rate=[0.2, 0.7]).rates(0, plain(3)).tolist() == [0.2, 0.7, 0.2]


def test_the_rates_of_mifa_that_depend_on_labels_are_those_of_ymf() -> None:
    clients = clients_of([[1] + [0] * 9, [0] * 3 + [2] + [0] * 6, [0] * 9 + [5]])
    p_min = 0.2
    expected = [p_min + (1 - p_min) * smallest / 9 for smallest in (0, 3, 9)]
    np.testing.assert_allclose(LargeLabelsFirst(beta=1 - p_min).rates(0, clients), expected)


def label_weights(mode: Availability, labels: int) -> list[float]:
    """What each label counts: the rates of clients with one label each."""
    return mode.rates(0, clients_of(np.eye(labels, dtype=int).tolist())).tolist()


@pytest.mark.parametrize(
    "mode", [LabelUniform(seed=4), LabelDirichlet(concentration=5, mean=0.3, lowest=0.0, seed=4)]
)
def test_rates_are_weighted_by_the_shares_of_labels(mode: Availability) -> None:
    counts = [[3, 1, 0, 0], [0, 0, 5, 5], [1, 1, 1, 1]]
    weights = label_weights(mode, 4)
    expected = [sum(n * w for n, w in zip(row, weights, strict=True)) / sum(row) for row in counts]
    np.testing.assert_allclose(mode.rates(0, clients_of(counts)), expected)


def test_equal_shares_of_labels_have_the_mean_rate() -> None:
    clients = clients_of([[2] * 10])
    # sum_c q_c / C times C is 1, whatever q is.
    assert LabelDirichlet().rates(0, clients)[0] == pytest.approx(0.1)


def test_dirichlet_rates_stay_within_the_limits_and_reach_both() -> None:
    rates = np.array([label_weights(LabelDirichlet(mean=0.5, seed=s), 10) for s in range(50)])
    assert rates.min() == 0.02 and rates.max() == 1.0


def test_dirichlet_weights_have_the_variance_of_the_distribution() -> None:
    seeds, labels, concentration = 2_000, 4, 0.5
    mode = LabelDirichlet(mean=0.25, concentration=concentration, lowest=0.0)
    drawn = [label_weights(mode.model_copy(update={"seed": s}), labels)[0] for s in range(seeds)]
    # mean · C = 1, so these are q_0: Beta(.5, 1.5), mean .25, variance .25 · .75 / 3 = .0625.
    # The standard errors are .25/sqrt(2,000) = .0056, and with the kurtosis 2.6 of this
    # distribution .0625 · sqrt(1.6/2,000) = .0018; six of them: odds 4e-9.
    assert np.mean(drawn) == pytest.approx(0.25, abs=0.034)
    assert np.var(drawn) == pytest.approx(0.0625, abs=0.011)


def test_labels_of_the_second_half_have_the_lower_limit() -> None:
    seeds = 2_000
    drawn = np.array(
        [label_weights(LabelUniform(highest=(0.8, 0.5), seed=s), 5) for s in range(seeds)]
    )
    # The maximum of 2,000 uniforms is below .99 of the limit with odds of .99^2000 = 2e-9.
    assert np.all(drawn.max(axis=0) > 0.99 * np.array([0.8, 0.8, 0.8, 0.5, 0.5]))
    assert np.all(drawn.max(axis=0) <= np.array([0.8, 0.8, 0.8, 0.5, 0.5]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "bernoulli", "lowest": 1.1}, "availability.lowest should be less than or equal"),
        (
            {"name": "bernoulli", "rate": 0.5, "lowest": 0.3},
            "availability.lowest has no effect beside availability.rate; leave one out",
        ),
        ({"name": "bernoulli", "rate": [1.5]}, "availability.rate must be a number in [0, 1] or"),
        ({"name": "label_dirichlet", "mean": 0}, "availability.mean should be greater than 0"),
        (
            {"name": "label_dirichlet", "concentration": 0},
            "availability.concentration should be greater than 0, got 0",
        ),
        (
            {"name": "label_uniform", "highest": [1.0, 1.5]},
            "availability.highest must be two numbers in [0, 1], got [1.0, 1.5]",
        ),
        (
            {"name": "label_uniform", "highest": 0.5},
            "availability.highest must be two numbers in [0, 1], got 0.5",
        ),
    ],
)
def test_bad_settings_are_refused_with_one_sentence(
    settings: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        build("availability", settings)


@pytest.mark.parametrize("name", ["label_dirichlet", "label_uniform"])
def test_clients_without_labels_are_refused(name: str) -> None:
    mode = build("availability", name)
    assert isinstance(mode, Availability)
    with pytest.raises(ConfigError, match=f"availability '{name}' needs the clients' labels"):
        mode.check(plain(2), 3)
    with pytest.raises(ConfigError, match="needs at least one label a client; client 1 has none"):
        mode.check(Clients((0, 1), [1, 1], label_counts=np.array([[1, 0], [0, 0]])), 3)


def test_more_rates_than_clients_are_refused() -> None:
    with pytest.raises(ConfigError, match="availability.rate must have at most 2 values"):
        Bernoulli(rate=[0.1, 0.2, 0.3]).check(plain(2), 3)
