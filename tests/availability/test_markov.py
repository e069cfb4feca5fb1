"""The chain with memory: its transitions, its stationary rates, and its look-back."""

import math
import re

import numpy as np
import pytest
from tests.driving import RecordedRun, driven, make_plan

from fedgs import Clients
from fedgs.arrays import BoolArray, FloatArray
from fedgs.availability import (
    Availability,
    AvailabilityDraws,
    LogNormal,
    Markov,
    activity,
    draw_available,
    renewals,
)
from fedgs.clients import Selection, View
from fedgs.data import Federation
from fedgs.driver import drive
from fedgs.errors import ConfigError
from fedgs.local import LoopEngine
from fedgs.registry import build, table
from fedgs.rng import stream
from fedgs.sampling import Uniform
from fedgs.weighting import Known


def clients_of(count: int) -> Clients:
    return Clients(tuple(range(count)), np.ones(count, dtype=np.int64))


def transitions(mode: Availability, count: int, rounds: int) -> tuple[FloatArray, FloatArray]:
    """(N,) shares of rounds that follow an on, and an off, and are on."""
    on = activity(mode, clients_of(count), rounds)
    before, after = on[:, :-1], on[:, 1:]
    return (before & after).sum(1) / before.sum(1), (~before & after).sum(1) / (~before).sum(1)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_transitions_are_those_of_the_formula(rate: float, correlation: float) -> None:
    count, rounds = 40, 5_000
    stay, come = transitions(Markov(rate=rate, correlation=correlation), count, rounds)
    expected_stay = correlation + (1 - correlation) * rate
    expected_come = (1 - correlation) * rate
    # Transitions from a state are independent. 200,000 rounds have at least .1 · 200,000 = 20,000
    # of either state in the mean; half of them, and six standard errors: odds below 1e-7 in all.
    for share, chance in ((stay, expected_stay), (come, expected_come)):
        tolerance = 6 * math.sqrt(chance * (1 - chance) / 10_000)
        assert share.mean() == pytest.approx(chance, abs=tolerance)


@pytest.mark.parametrize("round", [0, 1, 7, 60])
def test_the_chain_is_stationary_in_every_round(round: int) -> None:
    mode = Markov(rate=(0.9, 0.1), correlation=0.9)
    available = mode.available(round, clients_of(20_000))
    # 10,000 independent clients of each rate: standard error .003; six of them: odds 2e-9 each.
    assert available[0::2].mean() == pytest.approx(0.9, abs=0.018)
    assert available[1::2].mean() == pytest.approx(0.1, abs=0.018)


def test_two_rounds_correlate_by_a_power_of_the_correlation() -> None:
    mode, clients = Markov(rate=0.5, correlation=0.8), clients_of(20_000)
    first = mode.available(30, clients)
    for distance in (1, 3, 10):
        measured = np.corrcoef(first, mode.available(30 + distance, clients))[0, 1]
        # Standard error at most 1/sqrt(20,000) = .0071; six of them: odds 2e-9 each.
        assert measured == pytest.approx(0.8**distance, abs=0.043)


def test_clients_are_independent_of_each_other() -> None:
    on = activity(Markov(rate=0.5, correlation=0.5), clients_of(4), 12_000)
    # The variance of a correlation of two chains is (1 + .25) / (1 - .25) / 12,000, so the standard
    # error is .0118; six of them, six pairs: odds 1e-8.
    assert np.abs(np.corrcoef(on) - np.eye(4)).max() < 0.071


def test_rates_of_zero_and_one_are_exact() -> None:
    on = activity(Markov(rate=(0.0, 1.0), correlation=(0.3, 0.999)), clients_of(2), 3_000)
    assert not on[0].any() and on[1].all()


def test_lists_are_taken_in_turn() -> None:
    mode, clients = Markov(rate=[0.9, 0.1], correlation=[0, 0, 0, 0.9]), clients_of(6)
    assert mode.rates(5, clients).tolist() == [0.9, 0.1, 0.9, 0.1, 0.9, 0.1]
    assert mode.correlations(clients).tolist() == [0, 0, 0, 0.9, 0, 0]
    assert mode == build("availability", table(mode)) and hash(mode) == hash(mode.model_copy())


def test_a_cold_look_up_goes_back_to_the_last_renewal_of_all_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count, depths = 6_000, []
    clients, mode = clients_of(count), Markov(rate=0.3, correlation=0.9)
    drawn: list[int] = []

    def counted(seed: int, purpose: str, *keys: int) -> np.random.Generator:
        drawn.append(keys[0])
        return stream(seed, purpose, *keys)

    monkeypatch.setattr(renewals, "stream", counted)
    for t in range(5_000, 5_000 + 101 * 150, 150):
        drawn.clear()
        mode.available(t, clients)
        assert drawn == list(range(t, t - len(drawn), -1))
        depths.append(len(drawn))
    # P(depth <= d) = (1 - .9^d)^N is 1/2 at d = 86.05. The density there is about .037 a round, so
    # the median of 101 has a standard error of .5 / (.037 · sqrt(101)) = 1.4; six of them.
    assert np.median(depths) == pytest.approx(86.5, abs=8.5)


def test_going_forward_draws_once_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def counted(seed: int, purpose: str, *keys: int) -> np.random.Generator:
        drawn.append(keys[0])
        return stream(seed, purpose, *keys)

    monkeypatch.setattr(renewals, "stream", counted)
    draws = AvailabilityDraws(Markov(correlation=0.9), clients_of(50))
    for t in range(40):
        draws.at(t), draws.at(t)
    assert drawn == list(range(40))


def test_arrival_gives_the_chance_to_come_back() -> None:
    mode, clients = Markov(rate=(0.5, 0.1, 0.02, 0.0, 1.0), arrival=0.05), clients_of(5)
    # lambda = 1 - .05 / pi, and 0 where .05 exceeds pi.
    np.testing.assert_allclose(mode.correlations(clients), [0.9, 0.5, 0, 0, 0.95], atol=1e-12)
    stay, come = transitions(Markov(rate=0.2, arrival=0.05), 40, 5_000)
    # P(off | on) = .05 (1/.2 - 1) = .2. At least 20,000 transitions from each state.
    assert come.mean() == pytest.approx(0.05, abs=0.0093)
    assert stay.mean() == pytest.approx(0.8, abs=0.017)


def test_the_rates_can_be_those_of_another_mode() -> None:
    clients = clients_of(7)
    mode = Markov(base="LN", seed=4)
    np.testing.assert_array_equal(mode.rates(3, clients), LogNormal(seed=4).rates(3, clients))
    seeded = build(
        "availability", {"name": "markov", "base": {"name": "LN", "beta": 0.3, "seed": 9}}
    )
    assert isinstance(seeded, Markov)
    expected = LogNormal(beta=0.3, seed=9).rates(0, clients)
    np.testing.assert_array_equal(seeded.rates(0, clients), expected)
    assert table(seeded)["base"] == {
        "name": "LN",
        "seed": 9,
        "empty_round": "redraw",
        "beta": 0.3,
    }
    assert build("availability", table(seeded)) == seeded


def test_a_client_has_the_same_states_in_a_larger_federation() -> None:
    mode = Markov(rate=0.4, correlation=0.7)
    few, many = activity(mode, clients_of(4), 30), activity(mode, clients_of(9), 30)
    np.testing.assert_array_equal(few, many[:4])


def test_the_seed_changes_the_chain() -> None:
    clients, base = clients_of(6), activity(Markov(), clients_of(6), 50)
    np.testing.assert_array_equal(base, activity(Markov(seed=0), clients, 50))
    assert not np.array_equal(base, activity(Markov(seed=1), clients, 50))


def test_a_round_in_which_nobody_is_available_is_skipped() -> None:
    mode, clients = Markov(rate=0.1, correlation=0.5), clients_of(2)
    statuses = [draw_available(mode, clients, t)[1] for t in range(60)]
    assert set(statuses) == {None, "skipped"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"correlation": -0.1},
            "availability.correlation must be a number in [0, 1) or a list of such numbers, "
            "got -0.1",
        ),
        ({"correlation": 1.0}, "a number in [0, 1) or a list of such numbers, got 1.0"),
        ({"correlation": [0.5, -0.2]}, "a list of such numbers, got [0.5, -0.2]"),
        (
            {"rate": 1.2},
            "availability.rate must be a number in [0, 1] or a list of such numbers, got 1.2",
        ),
        ({"rate": math.nan}, "or a list of such numbers, got nan"),
        ({"rate": []}, "or a list of such numbers, got []"),
        ({"rate": "often"}, "or a list of such numbers, got 'often'"),
        ({"rate": True}, "or a list of such numbers, got True"),
        ({"arrival": 0.0}, "availability.arrival should be greater than 0, got 0.0"),
        (
            {"arrival": 0.05, "correlation": 0.5},
            "availability.correlation has no effect beside availability.arrival; leave one out",
        ),
        (
            {"base": "LN", "rate": 0.3},
            "availability.rate has no effect beside availability.base; leave one out",
        ),
        (
            {"base": "SLN"},
            "availability.base must be a mode whose rates are the same in every round, as MDF, "
            "LDF, YMF and LN, got 'SLN'",
        ),
        ({"base": "lognormal"}, "availability.base.name must be one of the"),
        ({"base": {"name": "LN", "beta": 2}}, "availability.base.beta must be in [0, 1) for 'LN'"),
        ({"empty_round": "redraw"}, "availability.empty_round must be 'skip' for 'markov'"),
    ],
)
def test_bad_settings_are_refused_with_one_sentence(
    settings: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        build("availability", {"name": "markov", **settings})


def test_check_refuses_more_values_than_clients() -> None:
    with pytest.raises(
        ConfigError, match="availability.rate must have at most 2 values, one a client, got 3"
    ):
        Markov(rate=[0.1, 0.2, 0.3]).check(clients_of(2), 5)
    with pytest.raises(ConfigError, match="availability.correlation must have at most 1 value, "):
        Markov(correlation=[0.1, 0.2]).check(clients_of(1), 5)
    with pytest.raises(ConfigError, match="availability 'YMF' needs the clients' labels"):
        Markov(base="YMF").check(clients_of(2), 5)


def weights_of(mode: Markov, rounds: int) -> FloatArray:
    """(N,) sum over rounds of the weight p_k / P(k in A_t) of the clients that are available."""
    clients = clients_of(6)
    draws, total = AvailabilityDraws(mode, clients), np.zeros(6)
    for t in range(rounds):
        there = draws.at(t).clients
        if len(there) == 0:
            continue
        view = View(t, clients, there, np.zeros(6), cohort_limit=6, rates=draws.rates(t))
        total[there] += Known().weights(view, Selection(there), {})
    return total


def test_known_rates_are_the_stationary_ones_and_count_each_client_by_its_share() -> None:
    mode = Markov(rate=(0.9, 0.3), correlation=0.5)
    np.testing.assert_array_equal(
        AvailabilityDraws(mode, clients_of(6)).rates(7), [0.9, 0.3, 0.9, 0.3, 0.9, 0.3]
    )
    shares = weights_of(mode, 6_000) / 6_000
    # Standard error of the mean of w_k 1{k in A_t}: p_k sqrt((1 - pi) / pi · 3 / 6,000) with p_k of
    # 1/6, at most .0057 for pi = .3; six of them, six clients.
    np.testing.assert_allclose(shares, 1 / 6, atol=0.0342)


def test_a_run_resumes_with_the_same_available_clients(toy_federation: Federation) -> None:
    settings = {"availability": Markov(rate=0.2, correlation=0.8, seed=2), "rounds": 12}
    (whole,) = driven(make_plan(toy_federation, **settings))
    assert {record.selection_status for record in whole.records} >= {"skipped"}
    (early,) = driven(make_plan(toy_federation, **{**settings, "rounds": 7}))
    later = RecordedRun(make_plan(toy_federation, **settings), early.final)
    drive([later.live], LoopEngine())
    assert [record.to_json() for record in later.records] == [
        record.to_json() for record in whole.records[7:]
    ]


class Roster(Availability):
    """Two of six clients in turn, without rates."""

    def available(self, round: int, clients: Clients) -> BoolArray:
        return np.arange(len(clients)) % 3 == round % 3


def test_a_mode_without_rates_serves_all_but_known(toy_federation: Federation) -> None:
    (run,) = driven(make_plan(toy_federation, Uniform(weighting="fedau"), availability=Roster()))
    assert [record.available for record in run.records[:2]] == [
        ["site-0", "site-3"],
        ["site-1", "site-4"],
    ]
    with pytest.raises(
        ConfigError,
        match="weighting 'known' needs the rates of availability, which 'Roster' does not define",
    ):
        make_plan(toy_federation, Uniform(weighting="known"), availability=Roster())
