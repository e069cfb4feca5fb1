"""Active federated learning: values, exclusion, the draw by softmax, and its uniform cases."""

import itertools
from typing import Any

import numpy as np
import pytest

from fedgs.arrays import FloatArray
from fedgs.clients import Clients, Outcome, View
from fedgs.errors import ConfigError, SelectionError
from fedgs.registry import build, table
from fedgs.rng import stream
from fedgs.sampling import ActiveFL, AsksLosses, AsksReports
from fedgs.weighting import as_weighting


def view_of(
    losses: list[float],
    *,
    limit: int,
    sizes: list[int] | None = None,
    available: list[int] | None = None,
) -> View:
    count = len(losses)
    return View(
        round=3,
        clients=Clients(tuple(range(count)), np.array(sizes or [1] * count)),
        available=np.arange(count) if available is None else np.array(available),
        counts=np.zeros(count, dtype=np.int64),
        cohort_limit=limit,
        memory={"losses": np.array(losses)},
    )


def cohort(sampler: ActiveFL, view: View, seed: int = 0) -> tuple[int, ...]:
    return tuple(sampler.select(view, stream(seed, "select", view.round)).clients.tolist())


def frequencies(sampler: ActiveFL, view: View, times: int) -> dict[tuple[int, ...], int]:
    counts: dict[tuple[int, ...], int] = {}
    for seed in range(times):
        chosen = cohort(sampler, view, seed)
        counts[chosen] = counts.get(chosen, 0) + 1
    return counts


def chi_square(counts: dict[tuple[int, ...], int], expected: dict[tuple[int, ...], float]) -> float:
    assert set(counts) <= set(expected)
    times = sum(counts.values())
    return sum(
        (counts.get(key, 0) - times * p) ** 2 / (times * p) for key, p in expected.items() if p > 0
    )


def test_defaults_are_those_of_the_publication() -> None:
    sampler = build("method", "active_fl")
    assert table(sampler) == {
        "name": "active_fl",
        "weighting": "data_size",
        "excluded_share": 0.75,
        "inverse_temperature": 0.01,
        "uniform_share": 0.1,
    }


def test_it_asks_for_mean_losses_of_the_training_and_for_no_extra_pass() -> None:
    sampler = ActiveFL()
    assert isinstance(sampler, AsksReports) and sampler.wanted_reports == ("mean_loss",)
    assert not isinstance(sampler, AsksLosses)
    assert as_weighting(sampler.weighting).name == "data_size"


def test_a_value_is_the_root_of_the_size_times_the_last_reported_loss() -> None:
    sampler, clients = ActiveFL(), Clients(tuple("abcd"), np.array([4, 9, 16, 1]))
    memory, counts = sampler.start(clients), np.zeros(4, dtype=np.int64)
    for t, (rows, losses) in enumerate([([0, 2], [3.0, 0.5]), ([0], [1.5]), ([3], [np.nan])]):
        view = View(t, clients, np.arange(4), counts, 2, memory=memory)
        outcome = Outcome(
            np.array(rows), np.ones(len(rows)), reports={"mean_loss": np.array(losses)}
        )
        before, memory = memory["losses"].copy(), sampler.observe(memory, view, outcome)
        np.testing.assert_array_equal(view.memory["losses"], before)  # a new array
    view = View(3, clients, np.arange(4), counts, 2, memory=memory)
    # 2 · 1.5 of round 1; never seen; 4 · 0.5 of round 0; a NaN was reported.
    assert sampler.values(view).tolist() == [3.0, np.inf, 2.0, -np.inf]
    view = View(3, clients, np.array([1, 2]), counts, 2, memory=memory)
    assert sampler.values(view).tolist() == [np.inf, 2.0]


def test_the_smallest_values_are_excluded_from_the_draw_by_value() -> None:
    losses = [float(k) for k in range(8)]
    # floor(.75 · 8) = 6 are excluded, so that the two highest are certain; without uniform draws.
    for seed in range(50):
        assert cohort(ActiveFL(uniform_share=0.0), view_of(losses, limit=2), seed) == (6, 7)
    # With ceil(.5 · 2) = 1 by value, that one is 6 or 7, and the other one can be anyone.
    others = set()
    for seed in range(200):
        chosen = cohort(ActiveFL(uniform_share=0.5), view_of(losses, limit=2), seed)
        assert set(chosen) & {6, 7}
        others |= set(chosen)
    assert others == set(range(8))  # (6/7)^200 each: odds 5e-13 that one is missing


@pytest.mark.parametrize(
    ("count", "share", "left"), [(7, 0.75, 2), (3, 0.75, 1), (100, 0.29, 71), (1, 0.75, 1)]
)
def test_the_number_of_excluded_clients_is_rounded_down(
    count: int, share: float, left: int
) -> None:
    # The exclusion leaves `left` clients, and a cohort of so many is exactly those.
    sampler = ActiveFL(excluded_share=share, uniform_share=0.0)
    losses = [float(k) for k in range(count)]
    for seed in range(20):
        chosen = cohort(sampler, view_of(losses, limit=left), seed)
        assert chosen == tuple(range(count - left, count))


@pytest.mark.parametrize(
    ("share", "limit", "by_value"), [(0.1, 10, 9), (0.1, 6, 6), (0.7, 10, 3), (0.29, 100, 71)]
)
def test_the_number_of_draws_by_value_is_rounded_up(
    share: float, limit: int, by_value: int
) -> None:
    # A steep softmax takes the highest values without exception.
    count = 2 * limit
    sampler = ActiveFL(excluded_share=0.0, inverse_temperature=1e6, uniform_share=share)
    certain: set[int] = set(range(count))
    for seed in range(60):
        certain &= set(
            cohort(sampler, view_of([float(k) for k in range(count)], limit=limit), seed)
        )
    # A client outside them is in 60 cohorts with probability below (1/2)^60.
    assert certain == set(range(count - by_value, count))


def test_probabilities_are_a_softmax_of_the_scaled_values_without_replacement() -> None:
    sampler = ActiveFL(excluded_share=0.0, inverse_temperature=0.5, uniform_share=0.0)
    view = view_of([0.0, 4.0, 0.5, 3.0], limit=2, sizes=[1, 1, 16, 4])
    p = np.exp(0.5 * np.array([0.0, 4.0, 2.0, 6.0]))
    p /= p.sum()
    expected = {
        (i, j): p[i] * p[j] / (1 - p[i]) + p[i] * p[j] / (1 - p[j])
        for i, j in itertools.combinations(range(4), 2)
    }
    assert sum(expected.values()) == pytest.approx(1)
    # Chi-square with 5 degrees of freedom: above 35 with odds of 1.5e-6.
    assert chi_square(frequencies(sampler, view, 4000), expected) < 35


UNIFORM = [
    ActiveFL(uniform_share=1.0),
    ActiveFL(excluded_share=0.0, inverse_temperature=0.0),
    ActiveFL(excluded_share=0.0, inverse_temperature=0.0, uniform_share=0.5),
]
LOSSES = [[0.0, 9.0, 1e300, np.inf, 3.0], [np.inf] * 5, [5.0, 4.0, np.nan, 2.0, 1.0]]


@pytest.mark.parametrize("sampler", UNIFORM, ids=repr)
@pytest.mark.parametrize("losses", LOSSES, ids=str)
def test_alpha_3_of_1_and_alpha_1_and_2_of_0_are_uniform_sampling(
    sampler: ActiveFL, losses: list[float]
) -> None:
    counts = frequencies(sampler, view_of(losses, limit=2, sizes=[1, 5, 9, 2, 90]), 3000)
    expected = dict.fromkeys(itertools.combinations(range(5), 2), 1 / 10)
    # Chi-square with 9 degrees of freedom: above 45 with odds of 1e-6, nine tests.
    assert chi_square(counts, expected) < 45


@pytest.mark.parametrize("sampler", UNIFORM, ids=repr)
def test_there_the_cohort_is_a_function_of_the_generator_alone(sampler: ActiveFL) -> None:
    # Exact: equal generators give equal cohorts whatever the losses are. The numbers drawn for the
    # clients are independent and alike, so that no set of clients is preferred to another.
    for seed in range(200):
        assert len({cohort(sampler, view_of(losses, limit=3), seed) for losses in LOSSES}) == 1


def test_other_settings_are_not_uniform() -> None:
    # The counterpart of the two tests above: with the defaults both fail.
    counts = frequencies(ActiveFL(), view_of(LOSSES[0], limit=2), 300)
    assert chi_square(counts, dict.fromkeys(itertools.combinations(range(5), 2), 1 / 10)) > 45
    assert len({cohort(ActiveFL(), view_of(losses, limit=3)) for losses in LOSSES}) > 1


def test_clients_that_were_never_seen_come_first_until_they_are_seen() -> None:
    sampler, clients = ActiveFL(), Clients(tuple(range(9)), np.arange(1, 10))
    memory, counts = sampler.start(clients), np.zeros(9, dtype=np.int64)
    rng = np.random.default_rng(0)
    for t in range(4):
        view = View(t, clients, np.arange(9), counts, 2, memory=memory)
        chosen = sampler.select(view, stream(0, "select", t)).clients
        # floor(6.75) = 6 of 9 are excluded; as long as 2 never seen ones are left, they are drawn.
        assert np.isinf(memory["losses"][chosen]).all()
        reports = {"mean_loss": rng.random(2) * 1000}
        memory = sampler.observe(memory, view, Outcome(chosen, np.ones(2), reports=reports))
    assert np.isinf(memory["losses"]).sum() == 1
    view = View(4, clients, np.arange(9), counts, 1, memory=memory)
    last = int(np.flatnonzero(np.isinf(memory["losses"]))[0])
    for seed in range(20):
        assert cohort(sampler, view, seed) == (last,)


def test_too_few_clients_left_by_the_exclusion_are_filled_up_uniformly() -> None:
    sampler, losses = ActiveFL(uniform_share=0.0), [1.0, 2.0, 3.0, 40.0]
    counts = frequencies(sampler, view_of(losses, limit=3), 2400)
    # One is left, client 3; two of the other three are uniform. Standard error .0096; five: 6e-7.
    assert set(counts) == {(0, 1, 3), (0, 2, 3), (1, 2, 3)}
    np.testing.assert_allclose(np.array(list(counts.values())) / 2400, 1 / 3, atol=0.048)


@pytest.mark.parametrize("excluded", [0.0, 0.75, 1.0])
@pytest.mark.parametrize("inverse_temperature", [0.0, 0.01, 1e300])
@pytest.mark.parametrize(
    "losses", [[1e308] * 4, [0.0] * 4, [np.nan] * 4, [-1.0, np.nan, np.inf, 1e308]], ids=str
)
def test_no_value_overflows(
    excluded: float, inverse_temperature: float, losses: list[float]
) -> None:
    sampler = ActiveFL(excluded_share=excluded, inverse_temperature=inverse_temperature)
    view = view_of(losses, limit=3, sizes=[2**62, 1, 2**62, 2**62])
    assert len(cohort(sampler, view)) == 3


def test_a_report_of_nan_comes_last() -> None:
    sampler = ActiveFL(excluded_share=0.0, uniform_share=0.0)
    for seed in range(30):
        assert cohort(sampler, view_of([0.1, np.nan, 0.0, 5.0], limit=3), seed) == (0, 2, 3)


def test_one_client_with_nearly_all_data_is_drawn_by_the_root_of_its_size() -> None:
    sampler = ActiveFL(excluded_share=0.0, inverse_temperature=1.0, uniform_share=0.0)
    view = view_of([0.01, 1.0, 1.0], limit=1, sizes=[90_000, 1, 1])
    # Values 3, 1, 1: e^3 / (e^3 + 2 e) = .787. Standard error .0092; five: odds 6e-7.
    shares: FloatArray = np.bincount(
        [cohort(sampler, view, seed)[0] for seed in range(2000)], minlength=3
    )
    assert shares[0] / 2000 == pytest.approx(np.e**3 / (np.e**3 + 2 * np.e), abs=0.046)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"excluded_share": 1.5}, r"method\.excluded_share should be less than or equal to 1"),
        ({"uniform_share": -0.1}, r"method\.uniform_share should be greater than or equal to 0"),
        (
            {"inverse_temperature": -1.0},
            r"method\.inverse_temperature should be greater than or equal to 0, got -1",
        ),
        ({"inverse_temperature": float("inf")}, r"method\.inverse_temperature should be a finite"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build("method", {"name": "active_fl", **settings})


def test_selecting_without_memory_and_observing_without_reports_are_refused() -> None:
    sampler, clients = ActiveFL(), Clients((0, 1), np.ones(2, dtype=np.int64))
    view = View(0, clients, np.arange(2), np.zeros(2, dtype=np.int64), 1)
    with pytest.raises(SelectionError, match=r"^'active_fl' needs its memory in view.memory"):
        sampler.select(view, stream(0, "select", 0))
    with pytest.raises(SelectionError, match=r"^'active_fl' needs the mean losses of local train"):
        sampler.observe(sampler.start(clients), view, Outcome(np.array([1]), np.ones(1)))
