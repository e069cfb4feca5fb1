"""CA-Fed: the passes against their definition, the estimates, and the rounds of a run."""

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.driving import driven, make_plan
from tests.oracles import ca_fed as plain

from fedgs.arrays import FloatArray
from fedgs.availability import Availability, Markov
from fedgs.clients import Clients, Memory, Selection, View
from fedgs.data import Federation
from fedgs.errors import ConfigError, SelectionError
from fedgs.registry import build, table
from fedgs.rng import stream
from fedgs.sampler_answers import checked_selection
from fedgs.sampling import AsksLosses, CAFed
from fedgs.weighting import CAFedWeighting, as_weighting, checked_weights
from fedgs.weighting.ca_fed import kept_clients

TURNS = ("1100", "0001", "1110", "1000", "0100", "0001")


def clients_of(sizes: list[int]) -> Clients:
    return Clients(tuple(range(len(sizes))), np.array(sizes))


def view_of(
    clients: Clients,
    available: list[int],
    losses: list[float],
    memory: Memory,
    *,
    limit: int | None = None,
    round: int = 0,
) -> View:
    """A view with the losses of the available clients."""
    told = np.full(len(clients), np.nan)
    told[available] = np.array(losses)[available]
    return View(
        round,
        clients,
        np.array(available, dtype=np.int64),
        np.zeros(len(clients), dtype=np.int64),
        len(clients) if limit is None else limit,
        losses=told,
        weighting_memory=memory,
    )


def cohort_of(weighting: CAFedWeighting, view: View, seed: int = 0) -> Selection:
    sampler = CAFed(weighting=weighting)
    return checked_selection(sampler.select(view, stream(seed, "select", view.round)), view)


@st.composite
def problems(draw: st.DrawFn) -> dict[str, Any]:
    count = draw(st.integers(1, 7))
    # Few values, so that ties of loss, rate and correlation are common.
    sizes = draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))
    pi = draw(st.lists(st.sampled_from([0.1, 0.25, 0.5, 1.0]), min_size=count, max_size=count))
    lam = draw(st.lists(st.sampled_from([-0.5, 0.0, 0.5, 0.9]), min_size=count, max_size=count))
    gaps = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=count, max_size=count))
    return {
        "p": [size / sum(sizes) for size in sizes],
        "pi": pi,
        "lam": lam,
        "gaps": gaps,
        "bias": draw(st.sampled_from([0.0, 0.1, 1.0, 4.0])),
        # Not 0 but larger than rounding, so that exact ties have one answer.
        "tolerance": draw(st.sampled_from([1e-9, 0.05])),
    }


@given(problems())
def test_the_passes_are_those_of_the_definition(problem: dict[str, Any]) -> None:
    p, pi, lam, gaps = (np.array(problem[key]) for key in ("p", "pi", "lam", "gaps"))
    kept = kept_clients(
        p,
        gaps,
        orders=(np.argsort(-np.abs(lam), kind="stable"), np.argsort(pi, kind="stable")),
        bias=problem["bias"],
        tolerance=problem["tolerance"],
    )
    expected = plain.passes(**problem)
    assert kept.tolist() == [value > 0 for value in expected]


@given(problems())
def test_dropping_never_raises_the_error(problem: dict[str, Any]) -> None:
    # Also with a tolerance of 0, and up to rounding.
    q = plain.passes(**{**problem, "tolerance": 0.0})
    kept = kept_clients(
        np.array(problem["p"]),
        np.array(problem["gaps"]),
        orders=(
            np.argsort(-np.abs(problem["lam"]), kind="stable"),
            np.argsort(problem["pi"], kind="stable"),
        ),
        bias=problem["bias"],
        tolerance=0.0,
    )
    whole = [a / b for a, b in zip(problem["p"], problem["pi"], strict=True)]
    facts = {key: problem[key] for key in ("p", "pi", "gaps", "bias")}
    ours = [value if is_kept else 0.0 for value, is_kept in zip(whole, kept, strict=True)]
    for allocation in (q, ours):
        assert plain.total_error(allocation, **facts) <= plain.total_error(whole, **facts) + 1e-12
    assert kept.any()


def test_ties_of_the_correlation_are_taken_by_the_index() -> None:
    # Clients 0 and 1 are equal, and only one of them can go.
    p, gaps = np.array([0.25, 0.25, 0.5]), np.array([2.0, 2.0, 1.0])
    orders = (np.argsort(-np.zeros(3), kind="stable"),)
    kept = kept_clients(p, gaps, orders=orders, bias=1.0, tolerance=0.12)
    # J: 1.5; without client 0: 1/.75 + 2/16 = 1.4583; the fall .0417 is below the tolerance.
    assert kept.all()
    kept = kept_clients(p, gaps, orders=orders, bias=1.0, tolerance=0.04)
    # Without both: 1 + 2/4 = 1.5 > 1.4583, so client 1 stays.
    assert kept.tolist() == [False, True, True]


def test_equal_losses_with_a_tolerance_drop_nobody() -> None:
    clients = clients_of([1, 2, 3, 4])
    weighting = CAFedWeighting(tolerance=1e-6)
    view = view_of(clients, [0, 1, 3], [0.7] * 4, weighting.start(clients, 4))
    assert cohort_of(weighting, view).clients.tolist() == [0, 1, 3]


def test_a_removal_that_changes_nothing_is_accepted_without_a_tolerance() -> None:
    clients, weighting = clients_of([1, 1, 1]), CAFedWeighting()
    # All losses are optimal: J is 0 whoever is dropped, and the last client stays.
    view = view_of(clients, [0, 1, 2], [0.0] * 3, weighting.start(clients, 3))
    assert cohort_of(weighting, view).clients.tolist() == [2]
    assert weighting.allocation(view, view.weighting_memory).tolist() == pytest.approx(
        [0, 0, (1 / 3) / (2 / 3)]
    )


def test_a_large_bias_gives_the_weights_of_known_rates() -> None:
    clients, rates = clients_of([3, 1, 4, 2]), (0.9, 0.2, 0.5, 0.3)
    weighting = CAFedWeighting(bias=1e9, prior_rate=rates, prior_observations=1e15)
    view = view_of(clients, [0, 1, 3], [0.2, 9.0, 0.1, 3.0], weighting.start(clients, 4))
    selection = cohort_of(weighting, view)
    assert selection.clients.tolist() == [0, 1, 3]
    known = replace(view, rates=np.array(rates))
    np.testing.assert_allclose(
        checked_weights(weighting, view, selection, view.weighting_memory),
        checked_weights(as_weighting("known"), known, selection, {}),
        rtol=1e-12,
    )


@given(
    st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=9),
    st.sampled_from([(0.5, 0.0, 2.0), (0.9, 0.5, 100.0), (0.1, 0.9, 0.5)]),
)
def test_estimates_are_posterior_means_of_counts(
    rounds: list[list[bool]], prior: tuple[float, float, float]
) -> None:
    clients = clients_of([1, 1, 1])
    weighting = CAFedWeighting(
        prior_rate=prior[0], prior_correlation=prior[1], prior_observations=prior[2]
    )
    memory = weighting.start(clients, 3)
    for t, there in enumerate(rounds):
        view = view_of(clients, np.flatnonzero(there).tolist(), [0.5] * 3, memory, round=t)
        memory = weighting.observe(memory, view, None)
    rates, correlations = weighting.estimates(memory)
    for k in range(3):
        states = [there[k] for there in rounds]
        expected = plain.estimates(
            states, rate=prior[0], correlation=prior[1], observations=prior[2]
        )
        assert (rates[k], correlations[k]) == pytest.approx(expected)


@given(
    st.integers(2, 6).flatmap(
        lambda count: st.tuples(
            st.lists(st.integers(1, 9), min_size=count, max_size=count),
            st.lists(
                st.lists(st.booleans(), min_size=count, max_size=count), min_size=1, max_size=8
            ),
            st.lists(st.sampled_from([0.2, 0.5, 1.0, 3.0]), min_size=count, max_size=count),
        )
    )
)
# The second pass decides: by ascending rates all but client 1 go, by descending ones
# client 0 would stay.
@example(
    (
        [1, 7, 7, 9],
        [[bool(int(state)) for state in there] for there in TURNS],
        [1.0, 0.2, 1.0, 1.0],
    )
)
def test_the_allocation_of_a_round_is_that_of_the_whole_history(
    case: tuple[list[int], list[list[bool]], list[float]],
) -> None:
    sizes, rounds, losses = case
    clients, count = clients_of(sizes), len(sizes)
    weighting = CAFedWeighting(tolerance=1e-9)
    # In an earlier round all clients were available and told their losses.
    history = [[True] * count, *rounds]
    memory = weighting.start(clients, count)
    for t, there in enumerate(history):
        view = view_of(clients, np.flatnonzero(there).tolist(), losses, memory, round=t)
        before, memory = memory, weighting.observe(memory, view, None)
    estimates = [plain.estimates([there[k] for there in history]) for k in range(count)]
    expected = plain.passes(
        clients.shares("data_size").tolist(),
        [pi for pi, _ in estimates],
        [lam for _, lam in estimates],
        losses,
        bias=1.0,
        tolerance=1e-9,
    )
    assert weighting.allocation(view, before).tolist() == pytest.approx(expected)


def test_estimates_converge_to_the_chain() -> None:
    clients = clients_of([1] * 4)
    mode = Markov(rate=(0.8, 0.3), correlation=(0.9, 0.0, 0.0, 0.7))
    weighting, before = CAFedWeighting(), None
    memory = weighting.start(clients, 4)
    for t in range(4_000):
        before = (
            mode.available(t, clients)
            if before is None
            else mode.next_available(t, clients, before)
        )
        view = view_of(clients, np.flatnonzero(before).tolist(), [0.5] * 4, memory, round=t)
        memory = weighting.observe(memory, view, None)
    rates, correlations = weighting.estimates(memory)
    # Standard error of a rate sqrt(pi (1 - pi) (1 + lambda) / (1 - lambda) / 4,000): .0276 at most,
    # for client 0; six of them. Those of P(on | on) and P(off | off) are below .02 together.
    np.testing.assert_allclose(rates, mode.rates(0, clients), atol=0.165)
    np.testing.assert_allclose(correlations, mode.correlations(clients), atol=0.12)


def losses_after(weighting: CAFedWeighting, rounds: list[dict[int, float]]) -> FloatArray:
    clients = clients_of([1, 1, 1])
    memory = weighting.start(clients, 3)
    for t, told in enumerate(rounds):
        losses = [told.get(k, np.nan) for k in range(3)]
        view = view_of(clients, sorted(told), losses, memory, round=t)
        memory = weighting.observe(memory, view, None)
    losses_now: FloatArray = memory["losses"]
    return losses_now


def test_unseen_clients_have_the_mean_loss_of_the_first_available_ones() -> None:
    plain_rule = CAFedWeighting()
    assert np.isnan(losses_after(plain_rule, [{}])).all()
    assert losses_after(plain_rule, [{}, {0: 1.0, 2: 3.0}]).tolist() == [1, 2, 3]
    assert losses_after(plain_rule, [{0: 1.0, 2: 3.0}, {0: 0.5}]).tolist() == [0.5, 2, 3]
    # The last loss; with smoothing 1/4 of the earlier estimate.
    later = [{0: 1.0, 2: 3.0}, {0: 0.5, 1: 4.0}]
    assert losses_after(plain_rule, later).tolist() == [0.5, 4, 3]
    assert losses_after(CAFedWeighting(smoothing=0.25), later).tolist() == [0.625, 3.5, 3]


def test_losses_that_are_not_known_drop_nobody() -> None:
    clients, weighting = clients_of([1, 2, 3]), CAFedWeighting()
    view = view_of(clients, [0, 2], [np.nan] * 3, weighting.start(clients, 3))
    assert cohort_of(weighting, view).clients.tolist() == [0, 2]


def test_the_dropped_set_is_made_anew_in_every_round() -> None:
    clients, weighting = clients_of([1, 5, 4]), CAFedWeighting()
    memory = weighting.start(clients, 3)
    first = view_of(clients, [0, 1, 2], [4.0, 1.0, 1.0], memory)
    assert cohort_of(weighting, first).clients.tolist() == [1, 2]
    memory = weighting.observe(memory, first, None)
    second = view_of(clients, [0, 1, 2], [1.0, 1.0, 1.0], memory, round=1)
    assert cohort_of(weighting, second).clients.tolist() == [0, 1, 2]


def test_nobody_trains_where_all_available_clients_are_dropped() -> None:
    clients, weighting = clients_of([1, 5, 4]), CAFedWeighting()
    memory = weighting.start(clients, 3)
    memory = weighting.observe(memory, view_of(clients, [0, 1, 2], [4.0, 1.0, 1.0], memory), None)
    view = view_of(clients, [0], [4.0, 0, 0], memory, round=1)
    assert cohort_of(weighting, view).status == "empty"


def test_optimal_losses_are_subtracted() -> None:
    clients = clients_of([1, 5, 4])
    weighting = CAFedWeighting(optimal_losses=[3.0, 0.0, 0.0])
    view = view_of(clients, [0, 1, 2], [4.0, 1.0, 1.0], weighting.start(clients, 3))
    assert cohort_of(weighting, view).clients.tolist() == [0, 1, 2]


def test_a_cohort_limit_draws_among_the_kept_clients_without_bias() -> None:
    clients, weighting = clients_of([1, 2, 3, 4, 9]), CAFedWeighting(bias=1e6)
    view = view_of(clients, [0, 1, 2, 4], [1.0] * 5, weighting.start(clients, 2), limit=2)
    draws = 4_000
    total = np.zeros(5)
    for seed in range(draws):
        selection = cohort_of(weighting, view, seed)
        assert len(selection.clients) == 2
        total[selection.clients] += checked_weights(
            weighting, view, selection, view.weighting_memory
        )
    allocation = weighting.allocation(view, view.weighting_memory)
    # 2 q_k or 0 with probability 1/2: standard error q_k / sqrt(4,000); six of them.
    for k in (0, 1, 2, 4):
        assert total[k] / draws == pytest.approx(allocation[k], rel=6 / math.sqrt(draws))
    assert total[3] == 0


def test_the_sampler_needs_losses_and_the_weightings_memory() -> None:
    clients, weighting = clients_of([1, 2]), CAFedWeighting()
    view = view_of(clients, [0, 1], [1.0, 1.0], weighting.start(clients, 2))
    for bare in (replace(view, losses=None), replace(view, weighting_memory={})):
        with pytest.raises(SelectionError, match="'ca_fed' needs the local losses of "):
            CAFed().select(bare, stream(0, "select", 0))
    assert isinstance(CAFed(), AsksLosses)
    assert CAFed().loss_candidates(view, stream(0, "candidates", 0)).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"weighting": "equal"},
            "method.weighting must be 'ca_fed' for method 'ca_fed', got 'equal', which works with "
            "'uniform'",
        ),
        (
            {"weighting": {"name": "ca_fed", "prior_rate": 0.0}},
            "method.weighting.prior_rate must be a number in (0, 1) or a list of such numbers, "
            "got 0.0",
        ),
        (
            {"weighting": {"name": "ca_fed", "prior_correlation": -0.5}},
            "method.weighting.prior_correlation must be a number in [0, 1) or",
        ),
        (
            {"weighting": {"name": "ca_fed", "optimal_losses": [1.0, -1.0]}},
            "method.weighting.optimal_losses must be a number >= 0 or a list of such numbers, "
            "got [1.0, -1.0]",
        ),
        ({"weighting": {"name": "ca_fed", "bias": -1.0}}, "method.weighting.bias should be"),
        ({"weighting": {"name": "ca_fed", "tolerance": math.inf}}, "method.weighting.tolerance"),
        ({"weighting": {"name": "ca_fed", "smoothing": 1.0}}, "method.weighting.smoothing should"),
    ],
)
def test_bad_settings_are_refused_with_one_sentence(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        build("method", {"name": "ca_fed", **settings})


def test_the_weighting_belongs_to_its_sampler_and_to_as_many_clients() -> None:
    clients = clients_of([1, 2])
    with pytest.raises(
        ConfigError,
        match=r"method.weighting = 'ca_fed' needs the losses and the selection of method 'ca_fed', "
        "got 'uniform'; 'fedau' works with every method",
    ):
        CAFedWeighting().check(clients, 2, build("method", "uniform"))
    with pytest.raises(ConfigError, match="method.weighting.optimal_losses must have at most 2 v"):
        CAFedWeighting(optimal_losses=[1.0, 1.0, 1.0]).check(clients, 2, CAFed())
    settings = {"name": "ca_fed", "weighting": {"name": "ca_fed", "prior_rate": [0.9, 0.1]}}
    method = build("method", settings)
    assert build("method", table(method)) == method


def run_of(federation: Federation, mode: Availability, **settings: Any) -> Any:
    weighting = CAFedWeighting(bias=0.0)
    values = {"cohort_limit": 6, "rounds": 14, "availability": mode, **settings}
    (run,) = driven(make_plan(federation, CAFed(weighting=weighting), **values))
    assert run.failed is None
    return run


def test_a_run_counts_who_is_available_in_every_round(toy_federation: Federation) -> None:
    mode = Markov(rate=0.25, correlation=0.6, seed=2)
    run = run_of(toy_federation, mode)
    statuses = [record.selection_status for record in run.records[:-1]]
    # Rounds without clients, and rounds whose clients are all dropped, are counted too.
    assert {"skipped", "empty", None} == set(statuses)
    memory = run.final.weighting
    assert memory["rounds"].tolist() == [14] * 6
    there = np.array(
        [
            [name in record.available for record in run.records[:-1]]
            for name in toy_federation.clients.names
        ]
    )
    assert memory["on"].tolist() == there.sum(axis=1).tolist()
    assert memory["stayed_on"].tolist() == (there[:, 1:] & there[:, :-1]).sum(axis=1).tolist()


def test_the_first_round_of_a_run_has_the_weights_of_the_definition(
    toy_federation: Federation,
) -> None:
    run = run_of(toy_federation, Markov(rate=1.0))
    clients, record = toy_federation.clients, run.records[0]
    shares = clients.shares("data_size")
    cohort = [clients.names.index(name) for name in record.cohort]
    # Beta(1, 1) and one round in which a client was available: pi = 2/3.
    assert record.weights == pytest.approx((shares[cohort] / (2 / 3)).tolist())
