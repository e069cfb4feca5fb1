"""Where weightings and aggregations come to rest, on quadratics F_k = a_k (theta - b_k)^2 / 2.

Clients make one full gradient step (E = 1), so the only bias left is that of the participation.
With mean weights W_k per round, sum_k W_k F_k is minimal at sum W_k a_k b_k / sum W_k a_k.
"""

from typing import Any

import numpy as np
import pytest
import torch
from tests.parts import sampler_for, sampler_of, settings_of, title

from fedgs.aggregation import Aggregation, FedDyn, Gossip, Mean, Round, Scaffold, Stale
from fedgs.arrays import FloatArray, IntArray
from fedgs.clients import Clients, Memory, Outcome, Selection, View
from fedgs.registry import build, table
from fedgs.sampling import Remembers
from fedgs.weighting import Weighting, as_weighting, checked_weights

CURVATURES, CENTRES = np.array([1.0, 2.0, 0.5]), np.array([0.0, 1.0, 4.0])
CLIENTS = Clients((0, 1, 2), np.array([1, 5, 2]))
SHARES = np.array([1, 5, 2]) / 8
# The cohorts of a period of six rounds; M = N, so they are the available clients too.
CYCLE = [[0, 1], [0], [0, 2], [], [0, 1], [0, 1]]
RATES = np.array([5, 3, 1]) / 6


def minimiser(weights: FloatArray) -> float:
    """Where sum_k W_k F_k is minimal."""
    return float(weights @ (CURVATURES * CENTRES) / (weights @ CURVATURES))


def named(value: Any) -> str:
    """The settings of a part as the name of a test."""
    if isinstance(value, np.ndarray):
        return "rest"
    settings = table(value) if isinstance(value, Aggregation) else value
    return (
        title({k: v for k, v in settings.items() if k != "server"})
        if isinstance(settings, dict)
        else str(settings)
    )


class Loop:
    """Rounds of a weighting and an aggregation as the simulation calls them."""

    def __init__(self, weighting: Any, aggregation: Aggregation, rate: float) -> None:
        self.weighting, self.aggregation, self.rate = as_weighting(weighting), aggregation, rate
        self.round, self.counts = 0, np.zeros(3, dtype=np.int64)
        self.memory: Memory = self.weighting.start(CLIENTS, 3)
        sampler = sampler_for(table(self.weighting))
        self.of_sampler = sampler.start(CLIENTS) if isinstance(sampler, Remembers) else {}
        self.theta = torch.zeros(1)
        self.vectors = aggregation.start(self.theta, CLIENTS)

    def view(self, cohort: IntArray) -> View:
        losses = CURVATURES * (float(self.theta) - CENTRES) ** 2 / 2
        return View(
            self.round, CLIENTS, cohort, self.counts, 3, losses, self.of_sampler, rates=RATES
        )

    def step(self, members: list[int], *, trains: bool = True) -> FloatArray:
        """(N,) the weights as applied; without training the parameters stay as they are."""
        cohort, applied = np.array(members, dtype=np.int64), np.zeros(3)
        view, weights, outcome = self.view(cohort), np.empty(0), None
        if len(cohort):
            weights = checked_weights(self.weighting, view, Selection(cohort), self.memory)
            applied[cohort], outcome = weights, Outcome(cohort, weights)
        if trains:
            round = Round(
                self.round, CLIENTS, cohort, weights, self.weighting.is_normalised,
                view.shares, self.theta, self.vectors, self.rate, 1,
                self.aggregation.trains_everyone,
            )  # fmt: skip
            self.theta, self.vectors = self.aggregation.step(round, self.results(round))
        self.counts = self.counts.copy()
        self.counts[cohort] += 1
        self.memory = self.weighting.observe(self.memory, view, outcome)
        self.round += 1
        return applied

    def results(self, round: Round) -> tuple[torch.Tensor, ...]:
        trainees = round.trainees
        if not len(trainees):
            return ()
        corrections = self.aggregation.corrections(round)
        models = round.parameters.repeat(len(trainees), 1)
        models = models if corrections.starts is None else corrections.starts
        curvatures, centres = (
            torch.from_numpy(of[trainees, None]).float() for of in (CURVATURES, CENTRES)
        )
        gradients = curvatures * (models - centres)
        gradients = gradients if corrections.offsets is None else gradients + corrections.offsets
        models = models - round.learning_rate * gradients
        folds = self.aggregation.folds(round)
        return tuple(f.finish(f.add(f.start(), trainees, models)) for f in folds)


def weights_at_rest(weighting: Weighting, cycles: int = 400) -> tuple[Loop, FloatArray]:
    """A loop after some cycles without training, and the mean weights of the next cycle."""
    loop = Loop(weighting, Mean(), 1e-3)
    for _ in range(cycles):
        for members in CYCLE:
            loop.step(members, trains=False)
    ahead = Loop(weighting, Mean(), 1e-3)
    ahead.__dict__.update(loop.__dict__)
    return loop, np.mean([ahead.step(members, trains=False) for members in CYCLE], axis=0)


@pytest.mark.parametrize("settings", settings_of("weighting"), ids=title)
def test_the_mean_rests_where_the_applied_weights_say(settings: Any) -> None:
    loop, applied = weights_at_rest(as_weighting(settings))
    drifts = []
    for theta in (0.0, 2.0):  # the drift of a period is linear in theta
        ahead = Loop(settings, Mean(), 1e-3)
        ahead.__dict__.update({**loop.__dict__, "theta": torch.tensor([theta])})
        for members in CYCLE:
            ahead.step(members)
        drifts.append(float(ahead.theta) - theta)
    root = 2.0 * drifts[0] / (drifts[0] - drifts[1])
    assert root == pytest.approx(minimiser(applied), abs=0.02)


def normalised_means(numbers: FloatArray) -> FloatArray:
    """Mean weights of a rule that divides these numbers by their sum over the cohort."""
    weights = np.zeros((len(CYCLE), 3))
    for row, members in zip(weights, CYCLE, strict=True):
        row[members] = numbers[members] / numbers[members].sum()
    return weights.mean(axis=0)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("data_size", normalised_means(SHARES)),
        ("equal", normalised_means(np.ones(3))),
        ("draws", normalised_means(np.ones(3))),
        ("inverse_participation", normalised_means(SHARES / RATES)),
        ("all", SHARES * RATES),
        ("known", SHARES),
        ({"name": "fedau", "cutoff": 0}, SHARES),
        # Intervals 6 of client 2 are cut at 4 and 2: their mean is 3.
        ({"name": "fedau", "cutoff": 4}, SHARES * [1, 1, 1 / 2]),
        ({"name": "inverse_participation", "normalise": False}, SHARES),
        ({"name": "f3ast", "beta": 0.01}, SHARES),
        ({"name": "f3ast", "beta": 0.01, "normalise": True}, normalised_means(SHARES / RATES)),
    ],
    ids=named,
)
def test_the_mean_weights_of_a_rule(settings: Any, expected: FloatArray) -> None:
    _, applied = weights_at_rest(as_weighting(settings))
    # f3ast's rates swing by up to beta within a period, the others' estimates by 1/t.
    np.testing.assert_allclose(applied, expected, rtol=0.03)


def rest(aggregation: Aggregation, weighting: Any, *, rate: float, cycles: int) -> float:
    """The mean parameter of the last period."""
    loop = Loop(weighting, aggregation, rate)
    for _ in range(cycles):
        values = []
        for members in CYCLE:
            loop.step(members)
            values.append(float(loop.theta))
    return float(np.mean(values))


@pytest.mark.parametrize("weighting", ["all", "equal", "data_size", "inverse_participation"])
@pytest.mark.parametrize("aggregation", [Stale(), Stale(unit="gradient"), Scaffold()], ids=named)
def test_memory_of_each_client_leads_to_the_optimum_for_all_weights(
    aggregation: Aggregation, weighting: str
) -> None:
    optimum = minimiser(SHARES)
    assert abs(optimum - minimiser(normalised_means(np.ones(3)))) > 0.1  # FedAvg's is elsewhere
    assert rest(aggregation, weighting, rate=0.1, cycles=250) == pytest.approx(optimum, abs=1e-4)


@pytest.mark.parametrize(
    ("aggregation", "weighting", "expected"),
    [
        (Mean(), "equal", normalised_means(np.ones(3))),
        (Mean(), "known", SHARES),
        (Mean(), {"name": "fedau", "cutoff": 0}, SHARES),
        (Stale(beta=0.5), "known", SHARES),
        (Stale(beta=0.0), "known", SHARES),
        # W_k for what is new, beta p_k for what is stored: beta p_k + (1 - beta) W_k.
        (Stale(beta=0.5), "all", 0.5 * SHARES + 0.5 * SHARES * RATES),
        (Gossip(), "equal", np.ones(3)),
        (Gossip(echo=False), "equal", RATES),
    ],
    ids=named,
)
def test_small_steps_come_to_rest_at_the_predicted_point(
    aggregation: Aggregation, weighting: Any, expected: FloatArray
) -> None:
    # The order of the clients within a period shifts the point by O(rate).
    found = rest(aggregation, weighting, rate=0.02, cycles=400)
    assert found == pytest.approx(minimiser(expected), abs=0.04)


@pytest.mark.parametrize("settings", settings_of("aggregation"), ids=title)
def test_with_everybody_the_optimum_is_at_rest(settings: Any) -> None:
    built = build("aggregation", settings)
    assert isinstance(built, Aggregation)
    clients, theta = Clients((0, 1), np.array([1, 1])), torch.ones(1)
    vectors, shares = built.start(theta, clients), np.full(2, 0.5)
    normalised = as_weighting(sampler_of(settings).weighting).is_normalised
    for t in range(30):  # F_k = (theta - b_k)^2 / 2 with b = (0, 2): updates of -rate and rate
        round = Round(
            t, clients, np.arange(2), shares, normalised, shares, theta, vectors, 0.125, 1
        )
        corrections = built.corrections(round)
        models = theta.repeat(2, 1) if corrections.starts is None else corrections.starts
        gradients = models - torch.tensor([[0.0], [2.0]])
        gradients = gradients if corrections.offsets is None else gradients + corrections.offsets
        models = models - 0.125 * gradients
        folds = built.folds(round)
        results = tuple(f.finish(f.add(f.start(), np.arange(2), models)) for f in folds)
        theta, vectors = built.step(round, results)
        # FedDyn divides sums of float32 updates by alpha, which is no power of two.
        assert abs(float(theta) - 1.0) <= (1e-6 if isinstance(built, FedDyn) else 0.0)
