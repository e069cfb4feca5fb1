"""Rates times a factor of the round, value by value."""

import math
import re

import numpy as np
import pytest

from fedgs import Clients
from fedgs.availability import (
    Availability,
    Interleaved,
    LabelUniform,
    Sine,
    SineLogNormal,
    Staircase,
    activity,
)
from fedgs.errors import ConfigError
from fedgs.registry import build

BASE = {"name": "bernoulli", "rate": [0.9, 0.3, 0.1]}
RATES = (0.9, 0.3, 0.1)
CLIENTS = Clients(("a", "b", "c"), np.array([1, 1, 1]))


def test_a_staircase_reduces_the_rates_in_the_second_half_of_a_period() -> None:
    mode = Staircase(base=BASE)
    for t in range(60):
        factor = 1.0 if (t // 10) % 2 == 0 else 0.4
        np.testing.assert_allclose(mode.rates(t, CLIENTS), np.multiply(RATES, factor))


def test_the_longer_half_of_an_odd_period_is_the_first() -> None:
    mode = Staircase(base=BASE, period=3, reduced=0.0)
    assert [float(mode.rates(t, CLIENTS)[0]) for t in range(6)] == [0.9, 0.9, 0, 0.9, 0.9, 0]


@pytest.mark.parametrize("amplitude", [0.0, 0.1, 0.3, 0.5])
def test_a_sine_multiplies_the_rates(amplitude: float) -> None:
    mode = Sine(base=BASE, amplitude=amplitude)
    for t in range(60):
        factor = amplitude * math.sin(2 * math.pi * t / 20) + 1 - amplitude
        np.testing.assert_allclose(mode.rates(t, CLIENTS), np.multiply(RATES, factor), atol=1e-15)


def test_interleaved_rates_below_the_threshold_are_zero() -> None:
    mode, wave = Interleaved(base=BASE, threshold=0.2), Sine(base=BASE)
    zero = np.zeros(3, dtype=int)
    for t in range(20):
        expected = [rate if rate >= 0.2 else 0.0 for rate in wave.rates(t, CLIENTS)]
        assert mode.rates(t, CLIENTS).tolist() == expected
        zero += np.equal(expected, 0)
    # .3 · (.3 sin + .7) >= .2 where sin >= -1/9, that is for t = 0..10 of 20: sin(pi/10) = .31.
    assert zero.tolist() == [0, 9, 20]


def test_measured_activity_is_the_mean_of_the_factor() -> None:
    clients = Clients(tuple(range(2_000)), np.ones(2_000, dtype=np.int64))
    base = {"name": "bernoulli", "rate": 0.5}
    for mode, mean in ((Staircase(base=base), 0.35), (Sine(base=base), 0.35)):
        # 80,000 independent draws: standard error at most .5/283 = .0018; six of them: odds 2e-9.
        assert activity(mode, clients, 40).mean() == pytest.approx(mean, abs=0.0106)


def test_a_base_without_a_seed_has_that_of_the_mode() -> None:
    labelled = Clients((0, 1), [2, 2], label_counts=np.array([[2, 0], [0, 2]]))
    first = Sine(seed=7).rates(5, labelled)
    np.testing.assert_array_equal(first, LabelUniform(seed=7).rates(5, labelled))
    own = Sine(seed=7, base=LabelUniform(seed=3)).rates(5, labelled)
    np.testing.assert_array_equal(own, LabelUniform(seed=3).rates(5, labelled))


def test_a_base_may_vary_by_rounds() -> None:
    base = SineLogNormal(beta=0.0, period=4)
    mode = Staircase(base=base, period=4)
    for t, factor in enumerate((1, 1, 0.4, 0.4)):
        np.testing.assert_allclose(mode.rates(t, CLIENTS), base.rates(t, CLIENTS) * factor)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"name": "staircase", "base": "markov"},
            "availability.base must be a mode with rates whose clients are drawn independently, "
            "as MDF, LDF, YMF and LN, got 'markov'",
        ),
        ({"name": "sine", "base": "often"}, "availability.base.name must be one of the"),
        (
            {"name": "sine", "amplitude": 0.6},
            "availability.amplitude should be less than or equal to 0.5, got 0.6",
        ),
        ({"name": "sine", "period": 0}, "availability.period should be greater than or equal to 1"),
        ({"name": "staircase", "reduced": -1}, "availability.reduced should be greater than or"),
        ({"name": "interleaved", "threshold": 2}, "availability.threshold should be less than or"),
    ],
)
def test_bad_settings_are_refused_with_one_sentence(
    settings: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        build("availability", settings)


@pytest.mark.parametrize("name", ["staircase", "sine", "interleaved", "cyclic"])
def test_the_base_must_be_able_to_serve_the_clients(name: str) -> None:
    mode = build("availability", {"name": name, "base": "YMF"})
    assert isinstance(mode, Availability)
    with pytest.raises(ConfigError, match="availability 'YMF' needs the clients' labels"):
        mode.check(CLIENTS, 3)
