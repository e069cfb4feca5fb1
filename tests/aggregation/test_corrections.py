"""SCAFFOLD's control variates and FedAWE's echoes, on updates and quadratics by hand."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgs.aggregation import Aggregation, ClientTable, Gossip, Mean, Round, Scaffold
from fedgs.arrays import FloatArray, IntArray
from fedgs.clients import Clients

CENTRES = np.array([0.0, 1.0, 5.0])
CURVATURES = np.array([1.0, 4.0, 0.5])
CLIENTS = Clients((0, 1, 2), np.array([1, 1, 2]))
SHARES = np.array([0.25, 0.25, 0.5])
RATE = 0.05


def round_of(
    t: int, theta: torch.Tensor, vectors: Any, cohort: IntArray, *, weights: FloatArray, steps: int
) -> Round:
    return Round(t, CLIENTS, cohort, weights, False, SHARES, theta, vectors, RATE, steps)


def descended(
    aggregation: Aggregation, rounds: int, steps: int, rate: float = 1.0, mu: float = 0.0
) -> list[Any]:
    """Parameters and vectors over rounds on F_k = a_k (theta - b_k)^2 / 2, random cohorts."""
    rng, theta = np.random.default_rng(3), torch.zeros(1)
    vectors, states = aggregation.start(theta, CLIENTS), []
    for t in range(rounds):
        cohort = np.flatnonzero(rng.random(3) < rate)
        if len(cohort) == 0:
            states.append((theta, vectors, cohort))
            continue
        weights = SHARES[cohort] / SHARES[cohort].sum()
        round = round_of(t, theta, vectors, cohort, weights=weights, steps=steps)
        corrections = aggregation.corrections(round)
        models = theta.repeat(len(cohort), 1)
        if corrections.starts is not None:
            models = corrections.starts.clone()
        first = models
        for _ in range(steps):
            gradients = torch.from_numpy(CURVATURES[cohort]).float()[:, None] * (
                models - torch.from_numpy(CENTRES[cohort]).float()[:, None]
            )
            if corrections.offsets is not None:
                gradients = gradients + corrections.offsets
            models = models - RATE * (gradients + mu * (models - first))
        folds = aggregation.folds(round)
        results = tuple(f.finish(f.add(f.start(), cohort, models)) for f in folds)
        theta, vectors = aggregation.step(round, results)
        states.append((theta, vectors, cohort))
    return states


@pytest.mark.parametrize("mu", [0.0, 1.0])
def test_scaffold_reaches_the_optimum_that_fedavg_misses(mu: float) -> None:
    weights = SHARES * CURVATURES
    optimum = float(weights @ CENTRES / weights.sum())
    theta, _, _ = descended(Scaffold(), 600, steps=10, mu=mu)[-1]
    drifted, _, _ = descended(Mean(), 600, steps=10, mu=mu)[-1]
    assert abs(float(theta) - optimum) < 1e-4
    assert abs(float(drifted) - optimum) > 0.1


def test_the_servers_control_variate_is_the_mean_of_the_clients() -> None:
    for _, vectors, _ in descended(Scaffold(), 200, steps=3, rate=0.5):
        controls = vectors["controls"]
        assert isinstance(controls, ClientTable)
        mean = controls.weighted_sum(SHARES, like=torch.zeros(1))
        assert abs(float(vectors["control"]) - float(mean)) < 1e-12


@settings(max_examples=40, deadline=None)
@given(
    cohorts=st.lists(
        st.lists(st.integers(0, 2), min_size=1, unique=True).map(sorted), min_size=1, max_size=60
    ),
    seed=st.integers(0, 99),
)
def test_the_servers_control_variate_is_a_full_recomputation(
    cohorts: list[list[int]], seed: int
) -> None:
    rng, theta = np.random.default_rng(seed), torch.zeros(4)
    vectors, own = Scaffold().start(theta, CLIENTS), np.zeros((3, 4))
    for t, members in enumerate(cohorts):
        cohort, models = np.array(members), torch.from_numpy(rng.normal(size=(len(members), 4)))
        weights = SHARES[cohort] / SHARES[cohort].sum()
        round = round_of(t, theta, vectors, cohort, weights=weights, steps=5)
        moved = theta.double().numpy() - models.float().double().numpy()
        own[cohort] += moved / (5 * RATE) - SHARES @ own  # c_k - c + (theta^t - theta_k) / (E eta)
        theta, vectors = Scaffold().step(round, (models.float(),))
        np.testing.assert_allclose(vectors["control"].numpy(), SHARES @ own, rtol=0, atol=1e-12)
        stored = vectors["controls"].stacked(np.arange(3), like=vectors["control"]).numpy()
        np.testing.assert_allclose(stored, own, rtol=0, atol=1e-12)


def test_the_echoes_of_a_client_sum_to_the_rounds_until_its_last_one() -> None:
    echoes, last = np.zeros(3, dtype=int), np.full(3, -1)
    for t, (_, vectors, cohort) in enumerate(descended(Gossip(), 300, steps=1, rate=0.3)):
        echoes[cohort] += t - last[cohort]
        last[cohort] = t
        assert (echoes[cohort] == t + 1).all()
        assert vectors["last"].tolist() == last.tolist()


class Resting(Gossip):
    """Gossip whose clients do not move."""

    def step(self, round: Round, results: Any) -> Any:
        held = round.vectors["held"]
        assert isinstance(held, ClientTable)
        return super().step(round, (held.stacked(round.cohort, like=round.parameters),))


def test_mixing_keeps_the_mean_of_the_clients_models() -> None:
    held = ClientTable([torch.tensor([v]) for v in (0.0, 1.0, 8.0)])
    vectors: Any = {"held": held, "last": torch.full((3,), -1)}
    rng, theta = np.random.default_rng(0), torch.zeros(1)
    for t in range(60):
        cohort = np.flatnonzero(rng.random(3) < 0.6)
        if len(cohort):
            weights = np.full(len(cohort), 1 / len(cohort))
            round = round_of(t, theta, vectors, cohort, weights=weights, steps=1)
            theta, vectors = Resting().step(round, ())
        mean = vectors["held"].weighted_sum(np.full(3, 1 / 3), like=torch.zeros(1))
        assert abs(float(mean) - 3.0) < 1e-5
    assert abs(float(theta) - 3.0) < 1e-3


def test_a_client_starts_from_the_model_that_it_last_received() -> None:
    states = descended(Gossip(), 40, steps=1, rate=0.4)
    received = {client: torch.zeros(1) for client in range(3)}
    for theta, vectors, cohort in states:
        for client in cohort.tolist():
            received[client] = theta
        for client in range(3):
            row = vectors["held"].row(client)
            assert row is not None and torch.equal(row, received[client])
