"""F3AST: the rule, its rates after empty rounds, and the rates of the weighting beside it."""

from typing import Any

import numpy as np
import pytest
from tests.driving import Gaps, driven, make_plan

from fedgs.arrays import FloatArray, IntArray
from fedgs.clients import Clients, Memory, Outcome, Selection, View
from fedgs.data import Federation
from fedgs.errors import ConfigError
from fedgs.registry import build, table
from fedgs.rng import stream
from fedgs.sampler_answers import checked_selection
from fedgs.sampling import F3AST
from fedgs.weighting import as_weighting, checked_weights

BETA = 1 / 8  # a power of two: products with few factors are exact


def clients_of(sizes: list[int]) -> Clients:
    return Clients(tuple(range(len(sizes))), np.array(sizes))


class Loop:
    """Rounds of sampler and weighting as the simulation calls them, without models."""

    def __init__(self, sampler: F3AST, clients: Clients, limit: int) -> None:
        self.sampler, self.clients, self.limit, self.round = sampler, clients, limit, 0
        self.weighting = as_weighting(sampler.weighting)
        self.memory: Memory = sampler.start(clients)
        self.rates: Memory = self.weighting.start(clients, limit)
        self.counts = np.zeros(len(clients), dtype=np.int64)

    def view(self, available: IntArray) -> View:
        return View(self.round, self.clients, available, self.counts, self.limit, None, self.memory)

    def step(self, available: IntArray) -> tuple[Selection | None, FloatArray]:
        view, selection, weights, outcome = self.view(available), None, np.zeros(0), None
        if len(available):
            generator = stream(0, "select", self.round)
            selection = checked_selection(self.sampler.select(view, generator), view)
            weights = checked_weights(self.weighting, view, selection, self.rates)
            outcome = Outcome(selection.clients, weights)
            self.counts = self.counts.copy()
            self.counts[selection.clients] += 1
            self.memory = self.sampler.observe(self.memory, view, outcome)
        self.rates = self.weighting.observe(self.rates, view, outcome)
        self.round += 1
        return selection, weights


def test_the_cohort_has_the_largest_ratios_of_share_to_rate() -> None:
    clients = clients_of([1, 2, 3, 4])
    memory = {"rates": np.array([0.1, 0.4, 0.3, 0.8]), "round": np.array([3])}
    # Ratios 1, .5, 1, .5 of 1/10 each: clients 0 and 2; without client 0, 2 and one of 1 and 3.
    view = View(3, clients, np.arange(4), np.zeros(4, dtype=np.int64), 2, memory=memory)
    assert F3AST().select(view, stream(0, "select", 3)).clients.tolist() == [0, 2]
    view = View(3, clients, np.array([1, 2, 3]), np.zeros(4, dtype=np.int64), 2, memory=memory)
    cohorts = [F3AST().select(view, stream(s, "select", 3)).clients.tolist() for s in range(64)]
    # Each cohort is missing with probability 2^-64.
    assert {tuple(cohort) for cohort in cohorts} == {(1, 2), (2, 3)}


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_clients_of_equal_share_that_are_always_available_take_turns(limit: int) -> None:
    loop = Loop(F3AST(beta=BETA), clients_of([3] * 6), limit)
    for _ in range(30):
        loop.step(np.arange(6))
        assert loop.counts.max() - loop.counts.min() <= 1
    assert loop.counts.sum() == 30 * limit


def test_the_cohort_is_as_large_as_the_available_clients_allow() -> None:
    loop, rng = Loop(F3AST(), clients_of([1, 5, 2, 900, 3]), 3), np.random.default_rng(0)
    sizes = set()
    for _ in range(60):
        available = np.flatnonzero(rng.random(5) < 0.4)
        selection, _ = loop.step(available)
        if selection is not None:
            assert len(selection.clients) == min(3, len(available))
            sizes.add(len(available))
    assert sizes >= {1, 2, 3, 4}


def test_sampler_and_weighting_have_the_same_rates_bit_for_bit_also_after_empty_rounds() -> None:
    loop, rng = Loop(F3AST(beta=0.3), clients_of([1, 5, 2, 900, 3]), 2), np.random.default_rng(1)
    empty = 0
    for t in range(80):
        # Empty rounds at the start, alone and in a row; client 4 is never available.
        is_empty = t < 2 or t % 7 in (3, 5, 6)
        available = np.flatnonzero(rng.random(4) < 0.6)[: 0 if is_empty else 4]
        view = loop.view(available)
        np.testing.assert_array_equal(loop.sampler._rates(loop.memory, view), loop.rates["rates"])
        loop.step(available)
        empty += len(available) == 0
    assert empty > 30
    assert loop.counts[4] == 0
    assert loop.rates["rates"][4] == pytest.approx(2 / 5 * 0.7**80, rel=1e-12)


def test_the_memory_is_that_of_its_last_round_until_a_round_has_a_cohort() -> None:
    sampler, clients = F3AST(beta=BETA), clients_of([1, 1])
    memory = sampler.start(clients)
    view = View(2, clients, np.array([1]), np.zeros(2, dtype=np.int64), 1, memory=memory)
    memory = sampler.observe(memory, view, Outcome(np.array([1]), np.ones(1)))
    # Two empty rounds before round 2: r = (7/8)^3 / 2, and + 1/8 for client 1.
    assert memory["rates"].tolist() == [0.5 * (7 / 8) ** 3, 0.5 * (7 / 8) ** 3 + 1 / 8]
    assert memory["round"].tolist() == [3]


@pytest.mark.long
def test_updates_count_in_proportion_to_the_shares_in_the_long_run() -> None:
    # Over T rounds ln r_k changes by about -beta T + beta sum 1/r_k, so the weights of client k sum
    # to p_k T (1 + ln(r_T / r_0) / (beta T)), whatever the availability is; the terms of second
    # order are below beta / r_k. With beta T = 100 both errors are below .01.
    clients, limit, rounds = clients_of([5, 1, 2, 3, 4, 5, 4, 3, 2, 1]), 3, 100_000
    sampler = F3AST()
    loop = Loop(sampler, clients, limit)
    drawn = np.random.default_rng(4).random((rounds, 10)) < np.linspace(0.2, 0.9, 10)
    sums = np.zeros(10)
    rates, shares = np.full(10, 0.3), clients.shares("data_size")
    rng = np.random.default_rng(5)
    for t in range(rounds):
        available = np.flatnonzero(drawn[t])
        if len(available):
            memory = {"rates": rates, "round": np.array([t])}
            view = View(t, clients, available, loop.counts, limit, None, memory)
            cohort = sampler.select(view, rng).clients
            weights = checked_weights(loop.weighting, view, Selection(cohort), {"rates": rates})
            sums[cohort] += weights
        outcome = Outcome(cohort, weights) if len(available) else None
        rates = loop.weighting.observe({"rates": rates}, view, outcome)["rates"]
    np.testing.assert_allclose(sums / rounds / shares, 1, atol=0.01)
    expected = 1 + np.log(rates / 0.3) / (sampler.beta * rounds)
    np.testing.assert_allclose(sums / rounds / shares, expected, atol=sampler.beta / rates.min())


@pytest.mark.parametrize("beta", [1 / 4, 1 / 64, 1 / 1024])
def test_the_rates_approach_the_rates_of_participation(beta: float) -> None:
    # Client 0 takes part in every second round, client 1 in every fourth; beta bounds the error of
    # the average over one period.
    weighting, clients = as_weighting({"name": "f3ast", "beta": beta}), clients_of([1, 1])
    memory = weighting.start(clients, 1)
    view = View(0, clients, np.arange(2), np.zeros(2, dtype=np.int64), 1)
    for t in range(int(12 / beta) * 4):
        cohort = np.array([k for k, period in enumerate((2, 4)) if t % period == 0], dtype=np.int64)
        outcome = Outcome(cohort, np.ones(len(cohort))) if len(cohort) else None
        memory = weighting.observe(memory, view, outcome)
    np.testing.assert_allclose(memory["rates"], [1 / 2, 1 / 4], atol=4 * beta)


def test_the_mean_rate_is_the_rate_of_selection_but_for_first_and_last() -> None:
    # Sum of r(t+1) - r(t) = beta (1{k in S_t} - r(t)) over T rounds: with |r| <= 1 the two means
    # differ by at most 1/(beta T), so the rates follow the sampler's own selection.
    loop, rng, rounds = Loop(F3AST(beta=BETA), clients_of([1, 5, 2, 90, 3]), 2), stream(0, "a"), 400
    rates, first = np.zeros(5), loop.rates["rates"]
    for t in range(rounds):
        rates += loop.rates["rates"]
        loop.step(np.flatnonzero(rng.random(5) < 0.5) if t % 5 else np.arange(0))
    drift = (loop.rates["rates"] - first) / (BETA * rounds)
    np.testing.assert_allclose((loop.counts - rates) / rounds, drift, rtol=0, atol=1e-12)
    assert (loop.counts > 0).all() and loop.counts.min() < loop.counts.max() / 2


def test_the_weights_of_a_run_are_shares_by_the_rates_before_the_round(
    toy_federation: Federation,
) -> None:
    plan = make_plan(toy_federation, F3AST(beta=0.25), availability=Gaps(seed=1), rounds=12)
    (run,) = driven(plan)
    rates, shares = np.full(6, 2 / 6), toy_federation.clients.shares("data_size")
    rounds = 0
    for record in run.records[:-1]:
        cohort = np.flatnonzero(np.isin(toy_federation.clients.names, record.cohort))
        expected = shares[cohort] / rates[cohort]
        np.testing.assert_allclose(record.weights, expected, rtol=1e-12)  # type: ignore[arg-type]
        rates = 0.75 * rates + 0.25 * np.isin(np.arange(6), cohort)
        rounds += len(cohort) > 0
    assert rounds >= 5


def test_one_client_is_always_selected_with_rate_1() -> None:
    loop = Loop(F3AST(), clients_of([7]), 4)  # M > N: r_0 = 1
    for _ in range(5):
        selection, weights = loop.step(np.array([0]))
        assert selection is not None
        assert selection.clients.tolist() == [0]
        assert weights.tolist() == pytest.approx([1.0], abs=1e-15)


def test_beta_is_shared_with_the_weighting_and_survives_the_table() -> None:
    assert F3AST().weighting == "f3ast"
    shared = F3AST(beta=0.01)
    assert as_weighting(shared.weighting).beta == 0.01  # type: ignore[attr-defined]
    assert build("method", table(shared)) == shared
    assert F3AST(beta=0.01, weighting="equal").weighting == "equal"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beta": 0.0}, "method.beta should be greater than 0, got 0"),
        ({"beta": 1.0}, "method.beta should be less than 1, got 1"),
        ({"weighting": {"name": "f3ast", "beta": 0.0}}, "beta should be greater than 0"),
    ],
)
def test_a_beta_out_of_range_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build("method", {"name": "f3ast", **settings})


def test_different_betas_of_sampler_and_weighting_are_refused() -> None:
    weighting = {"name": "f3ast", "normalise": True}
    with pytest.raises(ConfigError, match=r"weighting\.beta must be 0\.01, the beta of method 'f3"):
        build("method", {"name": "f3ast", "beta": 0.01, "weighting": weighting})
    equal = {"name": "f3ast", "beta": 0.01, "weighting": {**weighting, "beta": 0.01}}
    assert build("method", equal).weighting.is_normalised  # type: ignore[attr-defined]
