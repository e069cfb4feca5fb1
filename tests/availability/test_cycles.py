"""Cycles: who is available in a period, exactly, and the shifts, statistically."""

import re

import numpy as np
import pytest

from fedgs import Clients
from fedgs.arrays import BoolArray
from fedgs.availability import Availability, Cyclic, Groups, activity
from fedgs.errors import ConfigError
from fedgs.registry import build


def clients_of(count: int) -> Clients:
    return Clients(tuple(range(count)), np.ones(count, dtype=np.int64))


def cyclic(rate: object, **settings: object) -> Cyclic:
    return Cyclic(base={"name": "bernoulli", "rate": rate}, **settings)


def starts(on: BoolArray) -> list[int]:
    """Of each client, how often it becomes available in a matrix that is one period."""
    return (on & ~np.roll(on, 1, axis=1)).sum(axis=1).tolist()


def test_every_client_is_available_once_a_period_for_its_share() -> None:
    rates = [0.02, 0.1, 0.554, 0.99, 0.001, 1.0, 0.0]
    on = activity(cyclic(rates), clients_of(7), 300)
    np.testing.assert_array_equal(on[:, :100], on[:, 100:200])
    np.testing.assert_array_equal(on[:, :100], on[:, 200:])
    # max(1, round(100 p)), and 0 for a rate of 0
    assert on[:, :100].sum(axis=1).tolist() == [2, 10, 55, 99, 1, 100, 0]
    assert starts(on[:, :100]) == [1, 1, 1, 1, 1, 0, 0]


def test_rates_of_a_cycle_are_its_shares() -> None:
    mode, clients = cyclic([0.5, 0.1, 1.0, 0.0], period=7), clients_of(4)
    # rint(3.5) = 4, max(1, rint(.7)) = 1
    assert mode.rates(3, clients).tolist() == [4 / 7, 1 / 7, 1.0, 0.0]
    np.testing.assert_allclose(activity(mode, clients, 70).mean(axis=1), mode.rates(0, clients))


def test_shifts_of_a_cycle_are_uniform() -> None:
    count, period = 20_000, 10
    on = activity(cyclic(0.1, period=period), clients_of(count), period)
    # Each client is available in one of ten rounds: 2,000 expected, standard deviation 42.4; six of
    # them, ten rounds: odds 2e-8.
    np.testing.assert_allclose(on.sum(axis=0), 2_000, atol=255)


@pytest.mark.parametrize("length", [20, 50])
def test_autocorrelation_of_a_cycle_is_that_of_a_block(length: int) -> None:
    period = 100
    on = activity(cyclic(length / period), clients_of(6), period)
    rate = length / period
    for distance in (1, 5, 15):
        both = (on & np.roll(on, -distance, axis=1)).mean(axis=1)
        # A block of L of T rounds overlaps with itself, moved by d <= min(L, T - L), in L - d.
        expected = (length - distance) / period
        np.testing.assert_allclose(both, expected)
        correlation = (expected - rate**2) / (rate * (1 - rate))
        assert correlation == pytest.approx(1 - distance / period / (rate * (1 - rate)))


@pytest.mark.parametrize(("count", "groups", "period"), [(10, 5, 20), (7, 3, 3), (7, 3, 7)])
def test_one_group_is_available_in_each_round(count: int, groups: int, period: int) -> None:
    mode, clients = Groups(groups=groups, period=period, seed=3), clients_of(count)
    on = activity(mode, clients, 2 * period)
    group = np.array([k * groups // count for k in range(count)])
    for column in on.T:
        (present,) = set(group[column].tolist())
        np.testing.assert_array_equal(column, group == present)
    np.testing.assert_array_equal(on[:, :period], on[:, period:])
    np.testing.assert_allclose(on.mean(axis=1), mode.rates(0, clients))
    assert set(starts(on[:, :period])) == {1}


def test_each_of_the_five_groups_has_four_of_twenty_rounds() -> None:
    on = activity(Groups(), clients_of(250), 40)
    assert on.sum(axis=0).tolist() == [50] * 40
    assert set(on.sum(axis=1).tolist()) == {8}
    changes = np.flatnonzero(np.any(on[:, 1:] != on[:, :-1], axis=0))
    assert set(np.diff(changes).tolist()) == {4}


def test_groups_follow_each_other_in_order() -> None:
    on = activity(Groups(groups=3, period=6), clients_of(3), 12)
    turns = on.argmax(axis=0)
    assert set((turns[2:] - turns[:-2]) % 3) == {1}


def test_the_common_shift_is_uniform_over_the_period() -> None:
    first = [int(Groups(seed=s).available(0, clients_of(5)).argmax()) for s in range(2_000)]
    # 400 expected for each group, standard deviation 17.9; six of them, five groups: odds 1e-8.
    np.testing.assert_allclose(np.bincount(first, minlength=5), 400, atol=108)


def test_turns_of_groups_without_clients_are_empty_rounds() -> None:
    on = activity(Groups(groups=4, period=4), clients_of(1), 8)
    assert on.sum() == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"name": "groups", "groups": 5, "period": 4},
            "availability.period must be at least availability.groups, 5, so that each group has a "
            "turn, got 4",
        ),
        ({"name": "groups", "groups": 0}, "availability.groups should be greater than or equal"),
        ({"name": "cyclic", "period": 0}, "availability.period should be greater than or equal"),
        (
            {"name": "cyclic", "base": "SLN"},
            "availability.base must be a mode whose rates are the same in every round, as MDF, "
            "LDF, YMF and LN, got 'SLN'",
        ),
        ({"name": "cyclic", "empty_round": "redraw"}, "must be 'skip' for 'cyclic'"),
    ],
)
def test_bad_settings_are_refused_with_one_sentence(
    settings: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        build("availability", settings)


def test_a_cycle_of_rates_of_zero_is_refused() -> None:
    mode = cyclic(0.0)
    assert isinstance(mode, Availability)
    with pytest.raises(ConfigError, match="all 3 clients have rate 0 in all 5 rounds"):
        mode.check(clients_of(3), 5)
