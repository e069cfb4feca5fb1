"""Label counts with discrete Laplace noise."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Context, RecordDict
from flwr.serverapp.strategy import FedAvg
from scipy import stats

from fedgs.errors import ConfigError
from fedgs.flower import SampledStrategy
from fedgs.flower.noise import discrete_laplace, expected_error, noisy_counts


def context() -> Context:
    return Context(1, 1, {}, RecordDict(), {})


@pytest.mark.parametrize("scale", [Fraction(2), Fraction(1, 2), Fraction(20, 3)])
def test_the_noise_has_the_stated_distribution(scale: Fraction) -> None:
    draws = np.array([discrete_laplace(scale) for _ in range(3000)])
    values = np.arange(-60, 61)
    q = np.exp(-1 / float(scale))
    # P(z) = (1 - q) / (1 + q) q^|z|, as `dlaplace` has it with a = 1 / b.
    probability = (1 - q) / (1 + q) * q ** np.abs(values)
    np.testing.assert_allclose(probability, stats.dlaplace(1 / float(scale)).pmf(values))
    common = probability * len(draws) >= 8
    observed = np.array([(draws == value).sum() for value in values[common]])
    observed = np.append(observed, len(draws) - observed.sum())
    expected = probability[common] * len(draws)
    expected = np.append(expected, len(draws) - expected.sum())
    # The source is the system's and has no seed: a false alarm has odds of 1e-9.
    assert stats.chisquare(observed, expected).pvalue > 1e-9


def test_one_example_moves_every_report_by_at_most_epsilon() -> None:
    """The guarantee, from the probabilities: counts (3, 1) and (2, 2) differ in one example."""
    epsilon = 0.7
    noise = stats.dlaplace(epsilon / 2)
    grid = np.arange(-40, 45)
    first = noise.logpmf(grid - 3)[:, None] + noise.logpmf(grid - 1)
    second = noise.logpmf(grid - 2)[:, None] + noise.logpmf(grid - 2)
    assert np.abs(first - second).max() == pytest.approx(epsilon)


def test_the_expected_error_is_that_of_the_distribution() -> None:
    for epsilon in (0.1, 1.0, 5.0):
        z = np.arange(1, 2000)
        assert expected_error(epsilon) == pytest.approx(
            2 * (z * stats.dlaplace(epsilon / 2).pmf(z)).sum(), rel=1e-6
        )


def test_noise_is_drawn_once_for_a_run() -> None:
    asked = []
    report = noisy_counts(lambda context: asked.append(1) or [1000, 0, 5], epsilon=0.01)
    one = context()
    first = report(one)
    assert [report(one) for _ in range(5)] == [first] * 5
    assert len(asked) == 1
    assert min(first) >= 0
    assert len({tuple(report(context())) for _ in range(5)}) > 1


def test_no_count_left_gives_equal_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedgs.flower.noise.discrete_laplace", lambda scale: -50)
    assert noisy_counts(lambda context: [3, 4], epsilon=1.0)(context()) == [1, 1]


def test_a_deployment_gets_the_noisy_proportions(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flwr.clientapp import ClientApp

    from fedgs.flower import describe

    monkeypatch.setattr("fedgs.flower.noise.discrete_laplace", lambda scale: 1)
    app = ClientApp()
    describe(app, label_counts=noisy_counts(lambda context: [2, 0], epsilon=1.0))
    grid = world(["site-0", "site-1"], app=app)
    strategy = SampledStrategy(
        FedAvg(fraction_evaluate=0.0), "fedgs", cohort_limit=1, reply_timeout=0.1, min_connected=1
    )
    strategy.start(grid, world.model(), num_rounds=1)
    features = strategy._selector.roster.features
    np.testing.assert_allclose([features[0], features[1]], [[0.75, 0.25]] * 2)


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), 1e-9])
def test_a_bad_epsilon_is_refused(epsilon: float) -> None:
    with pytest.raises(ConfigError, match=r"epsilon must be in \[0.0001, 10000\], got"):
        noisy_counts(lambda context: [1], epsilon=epsilon)


@pytest.mark.parametrize("counts", [[], [0.5, 1], [-1, 2], [float("nan")]])
def test_counts_that_are_no_whole_numbers_are_refused(counts: list[float]) -> None:
    with pytest.raises(ConfigError, match="label_counts must be whole numbers >= 0"):
        noisy_counts(lambda context: counts, epsilon=1.0)(context())
