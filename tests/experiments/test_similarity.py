"""The client graph that a run begins with, and how well graphs recover the oracle's edges."""

from typing import Any

import numpy as np
import pytest
from tests.driving import RecordedRun

import fedgs
from fedgs.availability import AvailabilityDraws
from fedgs.data import Federation
from fedgs.driver import drive
from fedgs.errors import ConfigError, RunError
from fedgs.experiments.similarity import edge_rows, made_graph, model_features
from fedgs.graph import Graph
from fedgs.local import LoopEngine
from fedgs.models import LogisticRegression
from fedgs.plan import Plan
from fedgs.requests import Work
from fedgs.sampling import FedGS, Wish


def test_relabelled_clients_have_the_same_rows() -> None:
    draws = np.random.default_rng(0)
    half = np.triu(draws.random((7, 7)), 1)
    similarity, products = half + half.T + np.eye(7), np.cov(draws.normal(size=(7, 9)))
    order = draws.permutation(7)
    block = np.ix_(order, order)
    assert list(edge_rows(similarity[block], products[block])) == list(
        edge_rows(similarity, products)
    )


def test_a_client_that_fails_is_named(toy_federation: Federation) -> None:
    work = Work(toy_federation, LogisticRegression(), 0.0, 20, 4)
    with pytest.raises(RunError, match=r"client 'site-\d'"):
        model_features(
            work, [Wish("functional"), Wish("update", sketch=0)], learning_rate=1e38, seed=0
        )


@pytest.mark.parametrize("similarity", ["oracle", "private", "update", "functional"])
def test_the_graph_is_the_one_that_a_run_begins_with(
    toy_federation: Federation, similarity: Any
) -> None:
    sampler = FedGS(graph=Graph(similarity=similarity))
    work = Work(toy_federation, LogisticRegression(), 0.0, 2, 4)
    availability = AvailabilityDraws(fedgs.LessDataFirst(seed=0), toy_federation.clients)
    plan = Plan(toy_federation, availability, sampler, work, 1, 2, 0.1, 1.0, 1, 3, data_seed=2)
    run = RecordedRun(plan)
    drive([run.live], LoopEngine())
    made, cost = made_graph(plan)
    # The engines may differ (the loop's here, the automatic one there): float32 tolerance.
    np.testing.assert_allclose(made.similarity, run.starts[0].memory["similarity"], atol=1e-4)
    assert (cost is not None) == (similarity == "private")
    if cost is not None:
        assert cost.startswith("4 exchanges, ") and "bytes; client" in cost


def test_a_graph_is_made_for_fedgs_alone_and_before_round_0(toy_federation: Federation) -> None:
    work = Work(toy_federation, LogisticRegression(), 0.0, 2, 4)

    def plan(sampler: Any) -> Plan:
        availability = AvailabilityDraws(fedgs.LessDataFirst(seed=0), toy_federation.clients)
        return Plan(toy_federation, availability, sampler, work, 1, 2, 0.1, 1.0, 1, 0)

    with pytest.raises(
        ConfigError, match=r"^a client graph is made for method 'fedgs', got 'uniform'$"
    ):
        made_graph(plan(fedgs.Uniform()))
    with pytest.raises(
        ConfigError,
        match=r"^method\.graph\.start must be 'all' for a graph before round 0, got 'seen'$",
    ):
        made_graph(plan(FedGS(graph=Graph(start="seen"))))
