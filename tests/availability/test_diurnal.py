"""Day and night: exact rates, the measured numbers, and the memory between rounds."""

import math
import re

import numpy as np
import pytest

from fedgs import Clients
from fedgs.availability import Diurnal, activity
from fedgs.errors import ConfigError
from fedgs.registry import build

DAY = 144  # rounds of 600 s


def clients_of(count: int) -> Clients:
    return Clients(tuple(range(count)), np.ones(count, dtype=np.int64))


def diurnal(rate: object, **settings: object) -> Diurnal:
    return Diurnal(base={"name": "bernoulli", "rate": rate}, **settings)


def test_rates_follow_the_hour() -> None:
    mode = diurnal([0.4, 0.1], ratio=4, round_seconds=1800, start_hour=30, peak_hour=5)
    for t in range(100):
        wave = 1 + 0.6 * math.cos(2 * math.pi * (t / 2 + 30 - 5) / 24)  # (4 - 1)/(4 + 1) = .6
        np.testing.assert_allclose(mode.rates(t, clients_of(2)), [0.4 * wave, 0.1 * wave])


def test_highest_and_lowest_rate_of_a_day_have_the_ratio() -> None:
    rates = np.array([diurnal(0.25).rates(t, clients_of(1))[0] for t in range(DAY)])
    assert rates.max() / rates.min() == pytest.approx(1.7)
    assert rates.argmax() * 600 == 3 * 3600 and rates.argmin() * 600 == 15 * 3600


def test_rates_that_would_exceed_one_vary_less_about_the_same_mean() -> None:
    clients = clients_of(3)
    rates = np.array([diurnal([0.9, 1.0, 0.0]).rates(t, clients) for t in range(DAY)])
    np.testing.assert_allclose(rates.mean(axis=0), [0.9, 1.0, 0.0])
    assert 0.98 < rates[:, 0].max() <= 1 and 0 < rates[:, 0].min() < 0.85
    assert np.all(rates[:, 1] == 1) and np.all(rates[:, 2] == 0)


def test_daily_means_have_the_measured_distribution() -> None:
    clients = clients_of(20_000)
    means = np.mean([Diurnal().rates(t, clients) for t in range(0, DAY, 36)], axis=0)
    # Beta(2.4, 7.4): mean 2.4/9.8 = .2449, variance .2449 · .7551/10.8 = .01712. Standard errors
    # .00093 and, for a kurtosis of about 3, .00017; six of them: odds 2e-9 each.
    assert means.mean() == pytest.approx(2.4 / 9.8, abs=0.0056)
    assert means.var() == pytest.approx(0.01712, abs=0.00103)


@pytest.mark.parametrize("round", [0, 1, 18, 90, 200])
@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_the_share_of_available_clients_is_the_rate(round: int, correlation: float) -> None:
    mode = diurnal((0.3, 0.8), ratio=4, correlation=correlation)
    clients = clients_of(40_000)
    available, rates = mode.available(round, clients), mode.rates(round, clients)
    for part in (slice(0, None, 2), slice(1, None, 2)):
        # 20,000 independent clients: standard error at most .0036; six of them, 20 cases: 4e-8.
        assert available[part].mean() == pytest.approx(rates[part][0], abs=0.0213)


@pytest.mark.parametrize(("round_seconds", "kept"), [(600, 0.9), (1200, 0.81), (300, 0.9**0.5)])
def test_correlation_is_that_of_states_600_seconds_apart(round_seconds: float, kept: float) -> None:
    mode, clients = diurnal(0.5, ratio=1, round_seconds=round_seconds), clients_of(20_000)
    first = mode.available(40, clients)
    for distance in (1, 4):
        measured = np.corrcoef(first, mode.available(40 + distance, clients))[0, 1]
        # Standard error at most 1/sqrt(20,000) = .0071; six of them: odds 2e-9 each.
        assert measured == pytest.approx(kept**distance, abs=0.043)


def test_correlation_holds_while_rates_vary() -> None:
    mode, clients = diurnal(0.5, ratio=4, round_seconds=3600), clients_of(20_000)
    first, second = mode.available(8, clients), mode.available(9, clients)
    p, q = mode.rates(8, clients)[0], mode.rates(9, clients)[0]
    # The covariance of t and t + 1 is lambda times the variance of t, with lambda = .9^6.
    expected = 0.9**6 * math.sqrt(p * (1 - p) / (q * (1 - q)))
    assert np.corrcoef(first, second)[0, 1] == pytest.approx(expected, abs=0.043)


def test_the_defaults_give_the_measured_numbers() -> None:
    on = activity(Diurnal(), clients_of(3_000), 6 * DAY)
    by_hour = on.reshape(3_000, 6, 24, 6).mean(axis=(0, 1, 3))
    # Effectively 6 · 3,000 / 2 independent states an hour: standard error .0046, 2 % of the rates.
    # Beside it the hours' own means, in which the cosine loses less than .3 %.
    assert by_hour.max() / by_hour.min() == pytest.approx(1.7, abs=0.25)
    assert by_hour.argmax() in (1, 2, 3, 4, 5) and by_hour.argmin() in (13, 14, 15, 16, 17)
    before, after = on[:, :-1], on[:, 1:]
    # Measured: P(off | on) = .0725, P(on | off) = .0243. By the model (1 - lambda)(1 - pi) and
    # (1 - lambda) pi, with pi weighted by pi and by 1 - pi: E[pi(1 - pi)]/E[pi] and /E[1 - pi].
    mean, variance = 2.4 / 9.8, 2.4 * 7.4 / (9.8**2 * 10.8)
    spread = mean * (1 - mean) - variance  # E[pi (1 - pi)] at ratio 1; the sine changes it by 1 %
    leaves = (before & ~after).sum() / before.sum()
    comes = (~before & after).sum() / (~before).sum()
    assert leaves == pytest.approx(0.1 * spread / mean, rel=0.05)
    assert comes == pytest.approx(0.1 * spread / (1 - mean), rel=0.05)


def test_zones_shift_the_hours_of_clients() -> None:
    mode, clients = Diurnal(ratio=4, spread_hours=24), clients_of(5_000)
    peaks = np.argmax([mode.rates(t, clients) for t in range(0, DAY, 6)], axis=0)
    # Uniform over 24 hours: 208 expected, standard deviation 14.1; six of them: odds 5e-8.
    np.testing.assert_allclose(np.bincount(peaks, minlength=24), 5_000 / 24, atol=85)
    near = Diurnal(ratio=4, spread_hours=2)
    peaks = np.argmax([near.rates(t, clients) for t in range(0, DAY, 6)], axis=0)
    hours = (peaks - 3 + 12) % 24 - 12
    # Normal with sd 2, in whole hours: standard errors of mean .028 and of sd .020.
    assert hours.mean() == pytest.approx(0, abs=0.17) and hours.std() == pytest.approx(2, abs=0.16)


def test_a_ratio_of_one_has_no_time_of_day() -> None:
    mode = Diurnal(ratio=1)
    np.testing.assert_array_equal(mode.rates(0, clients_of(9)), mode.rates(77, clients_of(9)))


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("round_seconds", [60, 600, 7200, 86_400])
def test_ratios_up_to_the_limit_give_probabilities_at_every_renewal(
    correlation: float, round_seconds: float
) -> None:
    settings = {"correlation": correlation, "round_seconds": round_seconds}
    ratio = 1e6
    try:
        diurnal(0.5, ratio=ratio, **settings)
    except ConfigError as error:
        found = re.search(r"at most ([\d.e+]+) for", str(error))
        assert found is not None
        ratio = 0.999 * float(found[1])
    mode, clients = diurnal([0.05, 0.5, 0.95], ratio=ratio, **settings), clients_of(3)
    kept = correlation ** (round_seconds / 600)
    for t in range(1, 200):
        renewed = mode.rates(t, clients) - kept * mode.rates(t - 1, clients)
        assert np.all(renewed > -1e-9) and np.all(renewed < 1 - kept + 1e-9)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shape": [2.4]}, "availability.shape must be two numbers > 0, got [2.4]"),
        ({"shape": [2.4, 0]}, "availability.shape must be two numbers > 0, got [2.4, 0]"),
        (
            {"shape": [1, 1], "base": "LN"},
            "availability.shape has no effect beside availability.base; leave one out",
        ),
        (
            {"couple": "data_size", "base": "LN"},
            "availability.couple has no effect beside availability.base; leave one out",
        ),
        (
            {"coupling": 0.5},
            "availability.coupling has no effect without availability.couple, which must be "
            "'data_size' for 'diurnal'",
        ),
        ({"couple": "label"}, "availability.couple should be 'none' or 'data_size', got 'label'"),
        ({"base": "SLN"}, "availability.base must be a mode whose rates are the same in every"),
        ({"ratio": 0.5}, "availability.ratio should be greater than or equal to 1, got 0.5"),
        (
            # With w = 2 pi/144: |1 - .99 e^(-iw)|/.01 = 4.455, and 5.455/3.455 = 1.579.
            {"ratio": 4, "correlation": 0.99},
            "availability.ratio must be at most 1.579 for availability.correlation 0.99, whose "
            "states cannot change faster, got 4",
        ),
        ({"correlation": 1.0}, "availability.correlation should be less than 1, got 1.0"),
        ({"peak_hour": 24}, "availability.peak_hour should be less than 24, got 24"),
        ({"empty_round": "redraw"}, "availability.empty_round must be 'skip' for 'diurnal'"),
    ],
)
def test_bad_settings_are_refused_with_one_sentence(
    settings: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        build("availability", {"name": "diurnal", **settings})


def sized(count: int) -> Clients:
    return Clients(tuple(range(count)), np.random.default_rng(3).permutation(count) + 1)


@pytest.mark.parametrize("coupling", [1, -1, 0.8, 0])
def test_means_are_those_without_coupling_in_the_order_of_a_copula(coupling: float) -> None:
    clients = sized(4_000)
    mode = Diurnal(couple="data_size", coupling=coupling, ratio=1)
    rates = mode.rates(5, clients)
    np.testing.assert_allclose(np.sort(rates), np.sort(Diurnal(ratio=1).rates(5, clients)))
    ranks = np.argsort(np.argsort(rates))
    # (6/pi) asin(rho/2) in expectation; the standard error is at most 1/sqrt(4,000) = .016.
    expected = 6 / math.pi * math.asin(coupling / 2)
    assert np.corrcoef(ranks, clients.data_sizes)[0, 1] == pytest.approx(expected, abs=0.09)


def test_clients_of_another_object_and_seed_have_a_coupling_of_their_own() -> None:
    first, second = sized(50), Clients(tuple(range(50)), np.arange(50, 0, -1))
    mode = Diurnal(couple="data_size", coupling=1, ratio=1)
    for clients in (first, second, first):
        by_size = mode.rates(0, clients)[np.argsort(clients.data_sizes)]
        assert (np.diff(by_size) > 0).all()
    other = Diurnal(couple="data_size", coupling=1, ratio=1, seed=1)
    assert not np.allclose(other.rates(0, first), mode.rates(0, first))


def test_lines_tell_the_coupling_and_its_default_leaves_the_identity_as_it_was() -> None:
    mode = Diurnal(couple="data_size", coupling=1)
    assert mode.lines(sized(40)) == [
        "coupling        rank correlation of data size and availability 1.000 "
        "(availability.coupling 1)"
    ]
    assert Diurnal().lines(sized(40)) == []
    assert {"couple", "coupling"}.isdisjoint(Diurnal().model_dump())
    assert mode.model_dump()["coupling"] == 1
