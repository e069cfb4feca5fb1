"""The table of last updates: MIFA, FedVARP, FedStale and FedLaAvg."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgs.aggregation import Mean, Round, Stale
from fedgs.aggregation.base import Aggregation, Vectors
from fedgs.arrays import FloatArray, IntArray
from fedgs.clients import Clients, Selection, View
from fedgs.weighting import Weighting, as_weighting, checked_weights

SIZES = np.array([1, 5, 2, 2])
CLIENTS = Clients(tuple(range(4)), SIZES)


def round_of(
    t: int, theta: torch.Tensor, vectors: Vectors, cohort: IntArray, *, weighting: Weighting
) -> Round:
    view = View(t, CLIENTS, cohort, np.zeros(4, dtype=np.int64), cohort_limit=4)
    weights = np.empty(0)
    if len(cohort):
        weights = checked_weights(weighting, view, Selection(cohort), {})
    rate = 0.1 * 0.9**t
    return Round(
        t, CLIENTS, cohort, weights, weighting.is_normalised, view.shares, theta, vectors, rate, 1
    )


def driven(
    aggregation: Aggregation, cohorts: list[list[int]], weighting: Any, seed: int = 0
) -> list[tuple[torch.Tensor, Vectors]]:
    """States after each round with random updates that do not depend on the parameters."""
    rng = np.random.default_rng(seed)
    theta, weighting = torch.zeros(3), as_weighting(weighting)
    vectors = aggregation.start(theta, CLIENTS)
    states = []
    for t, members in enumerate(cohorts):
        updates = torch.from_numpy(rng.normal(size=(4, 3)).astype(np.float32))
        cohort = np.array(members, dtype=np.int64)
        round = round_of(t, theta, vectors, cohort, weighting=weighting)
        if len(cohort):
            folds = aggregation.folds(round)
            models = theta + updates[cohort]
            results = tuple(f.finish(f.add(f.start(), cohort, models)) for f in folds)
        else:
            results = ()
        theta, vectors = aggregation.step(round, results)
        states.append((theta, vectors))
    return states


COHORTS = [[0, 1], [], [2], [0, 1, 2], [1], [], [0, 2]]  # client 3 is never selected


def plain(
    beta: float, unit: str, weights: list[FloatArray], cohorts: list[list[int]], seed: int = 0
) -> list[FloatArray]:
    """The definition, with whole tables in float64."""
    rng, theta, h = np.random.default_rng(seed), np.zeros(3), np.zeros((4, 3))
    shares, path = SIZES / SIZES.sum(), []
    for t, (members, w) in enumerate(zip(cohorts, weights, strict=True)):
        updates = rng.normal(size=(4, 3)).astype(np.float32).astype(float)
        scale = 0.1 * 0.9**t if unit == "gradient" else 1.0
        step = beta * shares @ (scale * h)
        step = step + w @ (updates[members] - beta * scale * h[members])
        theta, h[members] = theta + step, updates[members] / scale
        path.append(theta)
    return path


@pytest.mark.parametrize("unit", ["update", "gradient"])
@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("weighting", ["all", "equal"])
def test_the_steps_are_the_definition(weighting: str, beta: float, unit: Any) -> None:
    weights = [
        (SIZES / SIZES.sum())[m] if weighting == "all" else np.full(len(m), 1 / max(1, len(m)))
        for m in COHORTS
    ]
    states = driven(Stale(beta=beta, unit=unit), COHORTS, weighting)
    for (theta, _), expected in zip(states, plain(beta, unit, weights, COHORTS), strict=True):
        np.testing.assert_allclose(theta.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_the_mean_of_the_table_is_updated_without_drift() -> None:
    rng = np.random.default_rng(1)
    cohorts = [np.flatnonzero(rng.random(4) < 0.4).tolist() for _ in range(150)]
    states = driven(Stale(), cohorts, "all")
    shares = SIZES / SIZES.sum()
    for _, vectors in states[-60:]:  # round 99 computes it anew
        table = vectors["stale"]
        whole = table.weighted_sum(shares, like=torch.zeros(3))
        assert torch.allclose(vectors["stale_mean"], whole, rtol=1e-12, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    cohorts=st.lists(st.lists(st.integers(0, 3), unique=True).map(sorted), min_size=1, max_size=60),
    beta=st.sampled_from([0.3, 1.0]),
    unit=st.sampled_from(["update", "gradient"]),
    seed=st.integers(0, 99),
)
def test_the_mean_of_the_table_is_a_full_recomputation(
    cohorts: list[list[int]], beta: float, unit: Any, seed: int
) -> None:
    last: dict[int, FloatArray] = {}
    shares = SIZES / SIZES.sum()
    rng = np.random.default_rng(seed)
    states = driven(Stale(beta=beta, unit=unit), cohorts, "all", seed)
    for t, (members, (_, vectors)) in enumerate(zip(cohorts, states, strict=True)):
        updates = rng.normal(size=(4, 3)).astype(np.float32)
        scale = 0.1 * 0.9**t if unit == "gradient" else 1.0
        last |= {k: updates[k].astype(float) / scale for k in members}
        stored = vectors["stale"].weighted_sum(shares, like=torch.zeros(3)).numpy()
        largest = max((np.abs(row).max() for row in last.values()), default=1.0)
        np.testing.assert_allclose(
            vectors["stale_mean"].numpy(), stored, rtol=0, atol=1e-13 * largest
        )
        expected = sum((shares[k] * row for k, row in last.items()), np.zeros(3))
        np.testing.assert_allclose(stored, expected, rtol=0, atol=1e-4 * largest)


def test_with_full_participation_it_is_fedavg() -> None:
    everyone = [[0, 1, 2, 3]] * 6
    for (ours, _), (fedavg, _) in zip(
        driven(Stale(), everyone, "all"), driven(Mean(), everyone, "data_size"), strict=True
    ):
        torch.testing.assert_close(ours, fedavg, rtol=1e-6, atol=1e-7)


def test_a_round_without_a_cohort_moves_by_the_mean_or_not_at_all() -> None:
    cohorts = [[0, 1], []]
    (first, vectors), (second, after) = driven(Stale(), cohorts, "all")
    torch.testing.assert_close(second, (first.double() + vectors["stale_mean"]).float())
    assert after["stale"] is vectors["stale"]
    (first, _), (second, _) = driven(Stale(move_when_empty=False), cohorts, "all")
    assert torch.equal(first, second)


def test_unselected_clients_take_no_memory() -> None:
    _, vectors = driven(Stale(), COHORTS, "all")[-1]
    assert vectors["stale"].row(3) is None
