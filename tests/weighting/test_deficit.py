"""Deficits: what is due, the nearest weights, the strength of the correction, and the long run."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from fedgs.arrays import FloatArray
from fedgs.clients import Clients, Memory, Outcome, Selection, View
from fedgs.errors import ConfigError
from fedgs.weighting import Deficit, checked_weights
from fedgs.weighting.deficit import correction_strength, deficits, nearest_weights


def clients_of(sizes: list[int]) -> Clients:
    return Clients(tuple(range(len(sizes))), np.array(sizes))


def view_of(clients: Clients, available: FloatArray, limit: int, round: int = 0) -> View:
    counts = np.zeros(len(clients), dtype=np.int64)
    return View(round, clients, np.flatnonzero(available), counts, limit)


def largest_deficits(view: View, memory: Memory) -> Selection:
    """The m available clients with the most turns of deficit."""
    turns = (deficits(view, memory) / view.shares)[view.available]
    return Selection(np.sort(view.available[np.argsort(-turns)[: view.cohort_size]]))


def played(
    weighting: Deficit, clients: Clients, masks: FloatArray, limit: int
) -> tuple[FloatArray, Memory]:
    """(T, N) the weights of rounds with these available clients, and the memory after them."""
    memory, weights = weighting.start(clients, limit), np.zeros(masks.shape)
    for t, mask in enumerate(masks):
        view = view_of(clients, mask, limit, t)
        outcome = None
        if mask.any():
            selection = largest_deficits(view, memory)
            w = checked_weights(weighting, view, selection, memory)
            weights[t, selection.clients] = w
            outcome = Outcome(selection.clients, w)
        memory = weighting.observe(memory, view, outcome)
    return weights, memory


@given(
    wanted=st.lists(st.floats(-3, 3), min_size=1, max_size=6),
    floor=st.floats(0, 1),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_no_weights_with_the_lowest_ones_are_nearer(
    wanted: list[float], floor: float, seed: int
) -> None:
    rng, m = np.random.default_rng(seed), len(wanted)
    shares = rng.uniform(0.01, 1, m)
    lowest, d = floor * shares / shares.sum(), np.array(wanted)
    weights = nearest_weights(d, shares, lowest)
    assert weights.sum() == pytest.approx(1, abs=1e-9)
    assert (weights >= lowest).all()
    # The multiplier's conditions, which decide a convex problem: (w - d) / p is one number for all
    # clients above their lowest weight, and no smaller for the others.
    multipliers, above = (weights - d) / shares, weights > lowest + 1e-9
    if above.any():
        nu = multipliers[above].mean()
        np.testing.assert_allclose(multipliers[above], nu, rtol=1e-6, atol=1e-6)
        assert (multipliers[~above] >= nu - 1e-6).all()


def test_the_nearest_weights_agree_with_a_general_optimiser() -> None:
    wanted, shares = np.array([0.9, 0.1, -0.4, 0.3]), np.array([0.4, 0.1, 0.2, 0.3])
    lowest = 0.1 * shares
    found = minimize(
        lambda w: float(np.sum((wanted - w) ** 2 / shares)),
        shares,
        bounds=[(low, 1.0) for low in lowest],
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-14},
    )
    np.testing.assert_allclose(nearest_weights(wanted, shares, lowest), found.x, atol=1e-6)


def test_deficits_have_the_sum_one_before_each_round_also_after_empty_and_aborted_ones() -> None:
    clients, rng = clients_of([5, 80, 3, 1, 40]), np.random.default_rng(0)
    for weighting in (Deficit(), Deficit(correction="none"), Deficit(horizon=20)):
        memory, rounds = weighting.start(clients, 2), 0
        received = np.zeros(5)
        for t in range(200):
            mask = (rng.random(5) < 0.5) & (t % 7 != 3)
            view, outcome = view_of(clients, mask, 2, t), None
            due = deficits(view, memory)
            assert due.sum() == pytest.approx(1, abs=1e-12)
            if weighting.horizon is None:  # D_k - W_k by its definition
                expected = (rounds + 1) * view.shares - received
                np.testing.assert_allclose(due, expected, atol=1e-12)
            if mask.any() and t % 11 != 5:  # else empty or aborted
                selection = largest_deficits(view, memory)
                w = checked_weights(weighting, view, selection, memory)
                outcome, rounds = Outcome(selection.clients, w), rounds + 1
                received[selection.clients] += w
            memory = weighting.observe(memory, view, outcome)
        assert 100 < rounds < 200


def test_the_strength_is_zero_in_a_rotation_and_grows_with_a_client_that_is_left_out() -> None:
    # Six clients of one size, two at a time: after three rounds everybody had 1/2, three times p.
    clients = clients_of([4] * 6)
    memory = Deficit().start(clients, 2)
    for t in range(12):
        view = view_of(clients, np.ones(6), 2, t)
        assert correction_strength(deficits(view, memory), view.shares, 2) == 0.0
        pair = np.array([0, 1]) + 2 * (t % 3)
        memory = Deficit().observe(memory, view, Outcome(pair, np.full(2, 0.5)))
    strengths = []
    for t in range(12, 60):  # the same without client 5
        view = view_of(clients, np.ones(6), 2, t)
        strengths.append(correction_strength(deficits(view, memory), view.shares, 2))
        pair = np.array([(2 * t) % 5, (2 * t + 1) % 5])
        memory = Deficit().observe(memory, view, Outcome(pair, np.full(2, 0.5)))
    assert strengths[0] == 0.0 and strengths[-1] > 0.99
    # The 48 rounds owe client 5 sixteen times p N/M = 1/2, and the others -16/5 times.
    turns = np.array([-16 / 5] * 5 + [16.0])
    spread, rotation = np.mean(turns**2), 1 / 4
    view = view_of(clients, np.ones(6), 2, 60)
    found = correction_strength(deficits(view, memory), view.shares, 2)
    assert found == pytest.approx(1 - rotation / spread, abs=0.01)


def test_if_all_clients_take_part_the_correction_is_full_and_the_weights_are_the_shares() -> None:
    clients = clients_of([1, 2, 5])
    weights, memory = played(Deficit(), clients, np.ones((5, 3)), 3)
    np.testing.assert_allclose(weights, np.tile([1 / 8, 2 / 8, 5 / 8], (5, 1)))
    np.testing.assert_allclose(memory["deficit"], 0, atol=1e-15)


def test_shrunk_weights_are_those_of_data_sizes_in_a_rotation() -> None:
    view = view_of(clients_of([4] * 6), np.ones(6), 2)
    memory = {"deficit": np.array([-1, -1, 0, 0, 1, 1]) / 6}
    selection = Selection(np.array([2, 4]))
    assert Deficit().weights(view, selection, memory).tolist() == [0.5, 0.5]
    # full: 1/6 and 2/6, and nu = 1/2 · 6 of p = 1/6 each
    full = Deficit(correction="full").weights(view, selection, memory)
    np.testing.assert_allclose(full, [1 / 6 + 1 / 4, 2 / 6 + 1 / 4])


def test_unnormalised_weights_pay_the_whole_deficit() -> None:
    weighting = Deficit(correction="full", normalise=False, floor=0)
    clients, rng = clients_of([1, 2, 5]), np.random.default_rng(1)
    masks = (rng.random((40, 3)) < 0.4).astype(float)
    weights, memory = played(weighting, clients, masks, 3)
    # The weight of client k is p_k times the rounds with an average since its last participation.
    last, rounds = np.zeros(3), 0
    for t, mask in enumerate(masks):
        rounds += bool(mask.any())
        expected = np.where(mask > 0, clients.shares("data_size") * (rounds - last), 0)
        np.testing.assert_allclose(weights[t], expected, atol=1e-12)
        last = np.where(mask > 0, rounds, last)
    assert memory["deficit"].sum() > -1e-12


@pytest.mark.parametrize("correction", ["shrunk", "full"])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=4, deadline=None)
def test_shares_tend_to_those_of_the_data_at_the_rate_1_over_t(correction: str, seed: int) -> None:
    """Deficits stay bounded where the shares are feasible, so |W_k/T - p_k| <= C/T.

    Eight clients, each available with a rate of at least 0.4, four at a time: even the rarest can
    receive its p_k < 0.2, since it can have a weight near 1 in four of ten rounds. A deficit that
    grows as a random walk would be about sqrt(T) = 32 times its step.
    """
    rng = np.random.default_rng(seed)
    clients = clients_of((rng.integers(80, 140, 8)).tolist())
    rates = rng.uniform(0.4, 1.0, 8)
    worst = []
    for rounds in (200, 1000):
        masks = (np.random.default_rng(seed).random((rounds, 8)) < rates).astype(float)
        weighting = Deficit(correction=correction)  # type: ignore[arg-type]
        weights, memory = played(weighting, clients, masks, 4)
        done = int(masks.any(axis=1).sum())
        shares = weights.sum(axis=0) / done
        gap = np.abs(shares - clients.shares("data_size"))
        np.testing.assert_allclose(gap, np.abs(memory["deficit"]) / done, atol=1e-12)
        worst.append(float(gap.max() * done))
    assert max(worst) < 3.0


def test_a_gap_that_does_not_fall_as_1_over_t_is_above_the_bound_of_these_deficits() -> None:
    """What the test above excludes: a constant gap, and one in proportion to 1 / sqrt(T)."""
    clients, rng, rounds = clients_of([80, 90, 100, 140]), np.random.default_rng(5), 1000
    p, rates = clients.shares("data_size"), np.array([0.4, 0.6, 0.8, 1.0])
    masks = rng.random((rounds, 4)) < rates
    by_size = masks * p / np.maximum((masks * p).sum(axis=1, keepdims=True), p.min())
    assert np.abs(by_size.sum(axis=0) - rounds * p).max() > 30
    drawn = rng.multinomial(rounds, p)  # unbiased: all weight to a client that is drawn with p
    assert np.abs(drawn - rounds * p).max() > 5


def nearest_feasible(shares: FloatArray, masks: FloatArray) -> FloatArray:
    """(N,) the feasible shares x that minimise sum_k (p_k - x_k)^2 / p_k, by enumerating all sets.

    x is feasible if sum over C of x_k <= r(C), the part of the rounds in which a client of C is
    available, for every set C, with equality for all clients. r is submodular: the set with the
    smallest r(C) / p(C) gets x_k = p_k r(C) / p(C), the largest such set first, and the others what
    is left (Fujishige, 1980, Mathematics of Operations Research).
    """
    rounds = masks[masks.any(axis=1)] > 0
    x, fixed = np.zeros(len(shares)), np.zeros(len(shares), dtype=bool)
    while not fixed.all():
        best, smallest = np.inf, fixed
        for number in range(1, 2 ** len(shares)):
            chosen = (number >> np.arange(len(shares)) & 1).astype(bool)
            if (chosen & fixed).any():
                continue
            reached = (
                rounds[:, chosen | fixed].any(axis=1).mean() - rounds[:, fixed].any(axis=1).mean()
            )
            ratio = reached / shares[chosen].sum()
            if ratio < best - 1e-12 or (ratio < best + 1e-12 and chosen.sum() > smallest.sum()):
                best, smallest = ratio, chosen
        x[smallest], fixed = best * shares[smallest], fixed | smallest
    return x


def cases_of_sets(name: str, rounds: int) -> tuple[list[int], FloatArray]:
    """Data sizes, and who is available: a feasible case, an infeasible client, infeasible sets."""
    rng = np.random.default_rng(3)
    masks = (rng.random((rounds, 5)) < 0.7).astype(float)
    if name == "client":  # 60 % of the data, available in 30 % of the rounds
        masks[:, 0] = rng.random(rounds) < 0.3
        return [60, 10, 10, 12, 8], masks
    if name == "pair":  # 40 % and 30 %, both feasible alone, but available together
        masks[:, 0] = masks[:, 1] = rng.random(rounds) < 0.5
        return [40, 30, 10, 12, 8], masks
    if name == "chain":  # client 0 within 0 and 1, which share what it leaves
        masks[:, 0] = rng.random(rounds) < 0.1
        masks[:, 1] = (masks[:, 0] > 0) | (rng.random(rounds) < 0.2)
        return [50, 30, 5, 10, 5], masks
    return [22, 18, 20, 24, 16], masks


@pytest.mark.parametrize("name", ["feasible", "client", "pair", "chain"])
def test_shares_tend_to_the_nearest_feasible_ones(name: str) -> None:
    sizes, masks = cases_of_sets(name, 1000)
    clients = clients_of(sizes)
    weights, _ = played(Deficit(), clients, masks, 3)
    p = clients.shares("data_size")
    expected = nearest_feasible(p, masks)
    assert (np.abs(expected - p).max() < 1e-12) == (name == "feasible")
    found = weights.sum(axis=0) / masks.any(axis=1).sum()
    np.testing.assert_allclose(found, expected, atol=4e-3)


def test_the_nearest_feasible_shares_of_a_client_that_is_available_in_half_the_rounds() -> None:
    masks = np.ones((4, 3))
    masks[1::2, 0] = 0
    shares = np.array([0.9, 0.05, 0.05])
    np.testing.assert_allclose(nearest_feasible(shares, masks), [0.5, 0.25, 0.25])


def test_a_horizon_bounds_the_deficits() -> None:
    clients, masks = clients_of([90, 5, 5]), np.tile([0.0, 1.0, 1.0], (400, 1))
    _, memory = played(Deficit(horizon=10), clients, masks, 3)
    # x <- 0.9 (x + 0.9): the fixed point 9 · 0.9
    assert memory["deficit"][0] == pytest.approx(8.1, rel=1e-6)


def test_a_shrunk_correction_needs_normalised_weights() -> None:
    with pytest.raises(ConfigError, match=r"correction must be 'full' .*, got 'shrunk'"):
        Deficit(normalise=False)
