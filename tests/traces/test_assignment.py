"""Devices and shifts of clients, and the coupling of ranks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles.traces import ranks

from fedgs.errors import ConfigError
from fedgs.traces import DAY, Traces
from fedgs.traces.assignment import (
    coupled_order,
    peak_hours,
    rank_correlation,
    slots,
    zone_shifts,
)
from fedgs.traces.timeline import Timeline

# Irregular days, so that no shift by whole days or hours gives the same record.
RNG = np.random.default_rng(0)
CUTS = [np.sort(RNG.choice(days * DAY, 40, replace=False)) for days in (1, 2, 3)]
THREE = Traces(
    np.concatenate([cuts[::2] for cuts in CUTS]),
    np.concatenate([cuts[1::2] for cuts in CUTS]),
    [0, 20, 40, 60],
    [0] * 3,
    [DAY, 2 * DAY, 3 * DAY],
    ["a", "b", "c"],
)


@pytest.mark.parametrize("unobserved", ["replay", "away"])
def test_no_two_clients_are_equal_up_to_the_most_copies(unobserved: str) -> None:
    timeline = Timeline(THREE, "days", "replay" if unobserved == "replay" else "away")
    most = 24 * (1 + 2 + 3 if unobserved == "replay" else 9)
    chosen = slots(timeline, np.arange(3), most, assign="random", seed=0)
    grid = np.arange(0, 3 * DAY, 60)
    rows = {
        timeline.is_on(np.full(len(grid), device), grid + shift).tobytes()
        for device, shift in zip(chosen.devices, chosen.shifts, strict=True)
    }
    assert len(rows) == most
    with pytest.raises(ConfigError, match=f"at most {most} clients.*got {most + 1} clients"):
        slots(timeline, np.arange(3), most + 1, assign="random", seed=0)


def test_each_device_is_used_once_before_any_twice() -> None:
    chosen = slots(Timeline(THREE), np.arange(3), 5, assign="random", seed=3)
    assert sorted(chosen.devices[:3]) == [0, 1, 2]
    assert chosen.shifts[:3].tolist() == [0, 0, 0]
    assert (chosen.shifts[3:] > 0).all()


def test_order_takes_the_devices_of_the_file_and_random_depends_on_the_seed() -> None:
    many = Traces([], [], [0] * 101, [0] * 100, [DAY] * 100, [str(d) for d in range(100)])
    of = {
        seed: slots(Timeline(many), np.arange(100), 50, assign="random", seed=seed).devices.tolist()
        for seed in (0, 1)
    }
    assert of[0] != of[1]
    assert len(set(of[0])) == 50
    in_order = slots(Timeline(many), np.arange(0, 100, 2), 50, assign="order", seed=0)
    assert in_order.devices.tolist() == list(range(0, 100, 2))


def test_copies_are_shifted_by_days_and_then_by_hours() -> None:
    chosen = slots(Timeline(THREE), np.array([2]), 5, assign="order", seed=0)
    assert chosen.shifts.tolist() == [0, DAY, 2 * DAY, 3600, 3600 + DAY]


def test_zones_are_normal_or_uniform() -> None:
    assert not zone_shifts(50, spread_hours=0, seed=0).any()
    normal = zone_shifts(4000, spread_hours=2, seed=0)
    # standard errors: 2 h / sqrt(4000) of the mean, 2 h / sqrt(8000) of the deviation
    assert abs(normal.mean()) < 5 * 7200 / 4000**0.5
    assert abs(normal.std() - 7200) < 5 * 7200 / 8000**0.5
    uniform = zone_shifts(4000, spread_hours=24, seed=0)
    assert uniform.min() >= 0 and uniform.max() < DAY
    counts = np.bincount(uniform * 4 // DAY, minlength=4)
    assert np.abs(counts - 1000).max() < 5 * (4000 * 0.25 * 0.75) ** 0.5


def test_peak_hours_are_directions_on_the_circle_of_a_day() -> None:
    hour = 3600
    traces = Traces(
        [23 * hour, 23 * hour + DAY, 6 * hour],
        [25 * hour, 25 * hour + DAY, 7 * hour],
        [0, 2, 3, 3],
        [0] * 3,
        [3 * DAY] * 3,
        ["midnight", "morning", "never"],
    )
    assert peak_hours(traces).tolist() == [0.0, 6.5, 0.0]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=20),
)
def test_the_rank_correlation_is_that_of_the_definition(pairs: list[tuple[int, int]]) -> None:
    first, second = (np.array(values, dtype=float) for values in zip(*pairs, strict=True))
    found = rank_correlation(first, second)
    if len(set(first)) == 1 or len(set(second)) == 1:
        assert np.isnan(found)
    else:
        expected = np.corrcoef(ranks(first.tolist()), ranks(second.tolist()))[0, 1]
        assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("sign", [1, -1])
def test_full_coupling_gives_equal_or_opposite_ranks(sign: int) -> None:
    values, scores = RNG.random((2, 300))
    order = coupled_order(values, scores, coupling=sign, seed=0)
    assert sorted(order) == list(range(300))
    assert rank_correlation(values, scores[order]) == pytest.approx(sign)


@pytest.mark.parametrize("coupling", [0.8, -0.8, 0.0, 0.3])
def test_the_copula_gives_its_rank_correlation(coupling: float) -> None:
    """6/π asin(ρ/2) for a Gaussian copula; the standard error is below 1/sqrt(N - 1)."""
    count = 4000
    values, scores = np.random.default_rng(1).random((2, count))
    order = coupled_order(values, scores, coupling=coupling, seed=5)
    expected = 6 / np.pi * np.arcsin(coupling / 2)
    assert abs(rank_correlation(values, scores[order]) - expected) < 5 / (count - 1) ** 0.5


def test_ties_are_broken_at_random() -> None:
    values, scores = np.zeros(50), np.arange(50.0)
    orders = [coupled_order(values, scores, coupling=1.0, seed=seed).tolist() for seed in (0, 1)]
    assert orders[0] != orders[1] and orders[0] != sorted(orders[0])
