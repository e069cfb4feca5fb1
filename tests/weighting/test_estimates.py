"""Weightings that estimate or know the rates of participation, against their published properties.

FedAU's are those of Wang and Ji (2024, ICLR): intervals of participation with and without a cutoff.
"""

from fractions import Fraction
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgs.arrays import BoolArray, FloatArray
from fedgs.clients import Clients, Memory, Outcome, Selection, View
from fedgs.weighting import F3ASTWeighting, FedAU, InverseParticipation, Known, Weighting


def clients_of(count: int) -> Clients:
    return Clients(tuple(range(count)), np.ones(count, dtype=np.int64))


def omegas(weighting: FedAU, activity: BoolArray) -> FloatArray:
    """(T + 1, N) omega_k before each round and after the last, for (T, N) participations."""
    clients = clients_of(activity.shape[1])
    memory: Memory = weighting.start(clients, len(clients))
    everyone, counts = np.arange(len(clients)), np.zeros(len(clients), dtype=np.int64)
    found = []
    for t in range(len(activity) + 1):
        view = View(t, clients, everyone, counts, len(clients))
        found.append(len(clients) * weighting.weights(view, Selection(everyone), memory))
        if t < len(activity):
            took_part = np.flatnonzero(activity[t])
            outcome = Outcome(took_part, np.ones(len(took_part))) if len(took_part) else None
            memory = weighting.observe(memory, view, outcome)
    return np.array(found)


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_without_a_cutoff_omega_is_the_last_participation_over_the_count(
    participations: list[bool],
) -> None:
    found = omegas(FedAU(cutoff=0), np.array(participations)[:, None])[:, 0]
    assert found[0] == 1.0
    for t in range(1, len(participations) + 1):
        rounds = [s for s in range(t) if participations[s]]
        expected = Fraction(rounds[-1] + 1, len(rounds)) if rounds else Fraction(1)
        assert found[t] == pytest.approx(float(expected), rel=1e-13)


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(1, 6))
def test_omega_is_the_mean_of_the_intervals_that_have_ended(
    participations: list[bool], cutoff: int
) -> None:
    found = omegas(FedAU(cutoff=cutoff), np.array(participations)[:, None])[:, 0]
    intervals: list[int] = []
    length = 0
    for t, took_part in enumerate(participations):
        assert found[t] == pytest.approx(np.mean(intervals or [1]), rel=1e-13)
        length += 1
        if took_part or length == cutoff:
            intervals.append(length)
            length = 0
    assert found.max() <= cutoff


@pytest.mark.parametrize("cutoff", [0, 1, 50])
def test_a_client_that_takes_part_in_every_round_has_omega_1(cutoff: int) -> None:
    assert (omegas(FedAU(cutoff=cutoff), np.ones((60, 2), dtype=np.bool_)) == 1).all()


@pytest.mark.parametrize("period", [2, 5, 10])
def test_a_cyclic_client_has_its_period(period: int) -> None:
    # The client of the last slot has whole intervals from round 0; that of slot s a first one of
    # s + 1 rounds.
    activity = np.arange(40 * period)[:, None] % period == np.arange(period)
    found = omegas(FedAU(cutoff=10), activity)
    assert (found[period:, -1] == period).all()
    last = (period * 39 + np.arange(period) + 1) / 40
    np.testing.assert_allclose(found[-1], last, rtol=1e-13)


@pytest.mark.parametrize("cutoff", [0, 5])
def test_omega_approaches_the_inverse_rate_or_the_mean_of_a_cut_interval(cutoff: int) -> None:
    rate, count, rounds = 0.1, 3000, 1000
    activity = np.random.default_rng(0).random((rounds, count)) < rate
    found = omegas(FedAU(cutoff=cutoff), activity)[-1]
    expected = (1 - (1 - rate) ** cutoff) / rate if cutoff else 1 / rate
    # Geometric intervals have a standard deviation of 9.5 at most; about 100 of them and 3000
    # clients: .018 for the mean. The last, unfinished interval is missing: -0.1 % of 10 at most.
    # Six standard deviations: odds of a false alarm below 1 : 10^8.
    assert found.mean() == pytest.approx(expected, abs=0.12)


def test_weights_that_were_applied_sum_to_the_rounds() -> None:
    # Sum over participations of omega(t) / T -> 1: each participation counts for the rounds since
    # the one before, on average. 2000 clients, 2000 rounds of rate .3: the mean has a standard
    # deviation below .002.
    activity = np.random.default_rng(1).random((2000, 2000)) < 0.3
    applied = (omegas(FedAU(cutoff=0), activity)[:-1] * activity).mean()
    assert applied == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("round", [0, 4, 19, 59])
def test_inverse_participation_has_an_expectation_that_tends_to_the_inverse_rate(
    rate: float, round: int
) -> None:
    # v ~ Binomial(t, pi): E[(t + 1) / (v + 1)] = (1 - (1 - pi)^(t + 1)) / pi exactly.
    weighting, clients = InverseParticipation(normalise=False), clients_of(round + 1)
    view = View(round, clients, np.arange(round + 1), np.arange(round + 1), round + 1)
    weights = (round + 1) * weighting.weights(view, Selection(np.arange(round + 1)), {})
    chances = [comb(round, v) * rate**v * (1 - rate) ** (round - v) for v in range(round + 1)]
    assert weights @ chances == pytest.approx((1 - (1 - rate) ** (round + 1)) / rate, rel=1e-12)


def expected_omega(rate: float, rounds: int) -> float:
    """E[omega] of FedAU without a cutoff before round `rounds`, over all 2^rounds histories."""
    histories = np.array(list(product([False, True], repeat=rounds))).T  # (rounds, 2^rounds)
    chances = np.prod(np.where(histories, rate, 1 - rate), axis=0)
    return float(omegas(FedAU(cutoff=0), histories)[-1] @ chances)


def test_inverse_participation_loses_its_bias_earlier_than_fedau() -> None:
    # Before round 4 FedAU has 27/32 of the weight at pi = 1/2, inverse participation 31/32.
    assert 0.5 * expected_omega(0.5, 4) == pytest.approx(27 / 32, rel=1e-12)
    for rate in (0.1, 0.3, 0.5, 0.9):
        for rounds in (1, 4, 9):
            assert rate * expected_omega(rate, rounds) < 1 - (1 - rate) ** (rounds + 1)


def expectation(weighting: Weighting, rates: FloatArray, limit: int) -> FloatArray:
    """(N,) E[w_k 1{k in S}] over all A_t and, with `uniform`, over all cohorts of m clients."""
    count = len(rates)
    clients = Clients(tuple(range(count)), np.arange(1, count + 1) ** 2)
    total, counts = np.zeros(count), np.zeros(count, dtype=np.int64)
    for is_available in product([False, True], repeat=count):
        chance = np.prod(np.where(is_available, rates, 1 - rates))
        available = np.flatnonzero(is_available)
        view = View(0, clients, available, counts, limit, rates=rates)
        if len(available) == 0:
            continue
        cohorts = list(combinations(available.tolist(), view.cohort_size))
        for cohort in cohorts:
            chosen = np.array(cohort)
            weights = weighting.weights(view, Selection(chosen), {})
            total[chosen] += chance / len(cohorts) * weights
    return total / clients.shares("data_size")


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_known_rates_are_unbiased_over_availability_and_selection(limit: int) -> None:
    rates = np.array([0.02, 0.3, 0.5, 0.9, 1.0])
    np.testing.assert_allclose(expectation(Known(), rates, limit), 1, rtol=1e-12)


@given(st.data(), st.sampled_from([FedAU(), FedAU(cutoff=3), F3ASTWeighting(beta=0.2)]))
def test_counted_selections_give_the_weights_that_answers_of_all_selected_would(
    data: st.DataObject, weighting: FedAU | F3ASTWeighting
) -> None:
    rounds = data.draw(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), max_size=30))
    selected = np.array(rounds, dtype=np.bool_).reshape(-1, 3)
    told = type(weighting)(**{**weighting.model_dump(), "counts": "selected"})
    clients, everyone = clients_of(3), np.arange(3)
    memory, expected = told.start(clients, 2), weighting.start(clients, 2)
    counts = np.zeros(3, dtype=np.int64)
    for t, row in enumerate([*selected, np.zeros(3, dtype=np.bool_)]):
        view = View(t, clients, everyone, counts, 2)
        np.testing.assert_array_equal(
            told.weights(view, Selection(everyone), memory),
            weighting.weights(view, Selection(everyone), expected),
        )
        chosen = np.flatnonzero(row)
        answered = None if t % 3 == 0 else Outcome(chosen[:1], np.ones(len(chosen[:1])))
        memory = told.observe(memory, view, answered)  # most answers do not come
        everything = Outcome(chosen, np.ones(len(chosen))) if len(chosen) else None
        expected = weighting.observe(expected, view, everything)
        counts = counts + row


def test_a_newcomer_with_counts_to_begin_with_was_not_selected_before() -> None:
    weighting = FedAU(counts="selected")
    old = weighting.start(clients_of(1), 1)
    old = weighting.observe(old, View(0, clients_of(1), np.arange(1), np.array([0]), 1), None)
    fresh = weighting.start(clients_of(2), 1)
    memory = {name: np.concatenate([old[name], fresh[name][1:]]) for name in fresh}
    for t, counts in ((1, [1, 7]), (2, [2, 7]), (3, [2, 8])):
        memory = weighting.observe(
            memory, View(t, clients_of(2), np.arange(2), np.array(counts), 1), None
        )
    assert memory["intervals"].tolist() == [2, 1]
    assert memory["mean"].tolist() == [1.0, 2.0]
