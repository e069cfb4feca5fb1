"""FedGS on balanced shares: bounded deficits over many rounds, and runs that resume exactly."""

from pathlib import Path

import numpy as np
import pytest
from tests.driving import make_plan
from tests.parts import Absences, assert_resumes

from fedgs import Clients, FedGS, View
from fedgs.clients import Outcome
from fedgs.data import Federation
from fedgs.rng import stream
from fedgs.sampling import Sampler
from fedgs.weighting import as_weighting, checked_weights

SHARES = FedGS(weighting="deficit", balance="share")


def largest_gap(sampler: Sampler, *, rounds: int, seed: int) -> float:
    """The largest |W_k - R p_k| after rounds in which the shares of all clients are feasible."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(1, 30, (8, 4)) + 10
    clients = Clients(tuple(range(8)), labels.sum(axis=1), label_counts=labels)
    shares, rates = clients.shares("data_size"), rng.uniform(0.45, 1.0, 8)
    assert isinstance(sampler, FedGS)
    weighting, memory = as_weighting(sampler.weighting), dict(sampler.start(clients))
    deficit, counts, gap = weighting.start(clients, 3), np.zeros(8, dtype=np.int64), np.zeros(8)
    for t in range(rounds):
        available = np.flatnonzero(rng.random(8) < rates)
        if len(available) == 0:
            continue
        view = View(t, clients, available, counts, 3, memory=memory, weighting_memory=dict(deficit))
        selection = sampler.select(view, stream(seed, "select", t))
        weights = checked_weights(weighting, view, selection, deficit)
        deficit = weighting.observe(deficit, view, Outcome(selection.clients, weights))
        counts = counts + np.isin(np.arange(8), selection.clients)
        gap -= shares
        gap[selection.clients] += weights
    return float(np.abs(gap).max())


@pytest.mark.parametrize("seed", [0, 1])
def test_the_gap_of_the_sums_of_weights_does_not_grow_with_the_rounds(seed: int) -> None:
    few, many = (largest_gap(SHARES, rounds=rounds, seed=seed) for rounds in (60, 240))
    assert max(few, many) < 1.0
    # Balanced counts with weights of the data sizes: the gap grows with the rounds.
    assert largest_gap(FedGS(), rounds=240, seed=seed) > 2 * max(few, many)


def test_runs_resume_from_any_checkpoint_with_the_same_bits(
    toy_federation: Federation, tmp_path: Path
) -> None:
    plan = make_plan(
        toy_federation, SHARES, availability=Absences(seed=1), rounds=9, cohort_limit=3
    )
    assert_resumes(plan, tmp_path / "run", every=3)
