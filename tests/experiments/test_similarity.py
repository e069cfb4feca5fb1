"""Table 3 on federations small enough to check, and the graph that a run would begin with."""

from typing import Any

import numpy as np
import pytest

import fedgs
from fedgs.availability import Attendance
from fedgs.config import Config
from fedgs.data import Federation
from fedgs.errors import ConfigError, RunError
from fedgs.experiments.similarity import WISHES, best_rows, edge_rows, made_graph, model_features, similarities, table3_rows
from fedgs.graph import Graph
from fedgs.graph.recovery import EPSILONS, ORACLES
from fedgs.local import LoopEngine
from fedgs.models import LogisticRegression
from fedgs.requests import Work
from fedgs.sampling import FedGS
from fedgs.simulation import LiveRun, Plan, drive


def separated() -> Federation:
    """Six clients, two for each of three labels that are far apart: an edge joins who has the same label."""
    draws = np.random.default_rng(0)
    owner = np.repeat(np.arange(6), 20)
    y = owner // 2
    x = (np.eye(3)[y] * 8 + draws.normal(size=(120, 3))).astype(np.float32)
    keep = np.arange(120) % 5 > 0
    return Federation.from_arrays(
        x[keep], y[keep], client=owner[keep], test=(x, y), validation=(x[~keep], y[~keep], owner[~keep]), name="separated"
    )


def config_of(**settings: Any) -> Config:
    tables: dict[str, Any] = {"data": "synthetic", "availability": "IDL", "method": "fedgs", "model": "logistic"}
    return Config(**{**tables, **settings})


def test_clients_with_the_same_label_are_found_by_their_models() -> None:
    federation = separated()
    rows = table3_rows(config_of(), federation, local_steps=10)
    # 2 similarities x 3 oracles x (5 epsilons and 2 rules)
    assert len(rows) == 2 * 3 * 7
    assert {(row.similarity, row.oracle) for row in rows} == {(s, o) for s in ("functional", "update") for o in ORACLES}
    best = best_rows(rows)
    assert len(best) == 6 and all(row.f1 == 1.0 for row in best if row.similarity == "update")
    for row in best:
        same = [one for one in rows if (one.similarity, one.oracle, one.rule) == (row.similarity, row.oracle, "grid")]
        assert row.f1 == max(one.f1 for one in same) and sorted(one.epsilon for one in same) == list(EPSILONS)
    assert {row.rule for row in best_rows(rows, rule="density")} == {"density"}
    assert rows[0].table()["data"] == "synthetic"


def test_relabelled_clients_have_the_same_rows() -> None:
    draws = np.random.default_rng(0)
    half = np.triu(draws.random((7, 7)), 1)
    similarity, products = half + half.T + np.eye(7), np.cov(draws.normal(size=(7, 9)))
    order = draws.permutation(7)
    block = np.ix_(order, order)
    assert list(edge_rows(similarity[block], products[block])) == list(edge_rows(similarity, products))


def test_similarities_are_symmetric_and_in_0_to_1(toy_federation: Federation) -> None:
    found = similarities(Work(toy_federation, LogisticRegression(), 0.0, 2, 4), learning_rate=0.1, seed=0)
    assert list(found) == [wish.kind for wish in WISHES] == ["functional", "update"]
    for similarity in found.values():
        np.testing.assert_array_equal(similarity, similarity.T)
        assert similarity.min() >= 0 and similarity.max() <= 1


def test_a_client_that_fails_is_named(toy_federation: Federation) -> None:
    work = Work(toy_federation, LogisticRegression(), 0.0, 20, 4)
    with pytest.raises(RunError, match=r"client 'site-\d'"):
        model_features(work, WISHES, learning_rate=1e38, seed=0)


@pytest.mark.parametrize("similarity", ["oracle", "private", "update", "functional"])
def test_the_graph_is_the_one_that_a_run_begins_with(toy_federation: Federation, similarity: Any) -> None:
    sampler = FedGS(graph=Graph(similarity=similarity))
    work = Work(toy_federation, LogisticRegression(), 0.0, 2, 4)
    attendance = Attendance(fedgs.LessDataFirst(seed=0), toy_federation.clients)
    plan = Plan(toy_federation, attendance, sampler, work, 1, 2, 0.1, 1.0, 1, 3, data_seed=2)
    starts: list[Any] = []
    drive([LiveRun(plan, None, lambda *_: None, lambda *_: None, lambda _: None, starts.append)], LoopEngine())
    made, cost = made_graph(plan)
    # The engines may differ (the loop's here, the automatic one there): float32 tolerance.
    np.testing.assert_allclose(made.similarity, starts[0].memory["similarity"], atol=1e-4)
    assert (cost is not None) == (similarity == "private")
    if cost is not None:
        assert cost.startswith("4 exchanges, ") and "bytes; client" in cost


def test_a_graph_is_made_for_fedgs_alone_and_before_round_0(toy_federation: Federation) -> None:
    work = Work(toy_federation, LogisticRegression(), 0.0, 2, 4)

    def plan(sampler: Any) -> Plan:
        attendance = Attendance(fedgs.LessDataFirst(seed=0), toy_federation.clients)
        return Plan(toy_federation, attendance, sampler, work, 1, 2, 0.1, 1.0, 1, 0)

    with pytest.raises(ConfigError, match=r"^a client graph is made for method 'fedgs', got 'uniform'$"):
        made_graph(plan(fedgs.Uniform()))
    with pytest.raises(ConfigError, match=r"^method\.graph\.start must be 'all' for a graph before round 0, got 'seen'$"):
        made_graph(plan(FedGS(graph=Graph(start="seen"))))
    with pytest.raises(ConfigError, match=r"^model must be given for Table 3, got none$"):
        table3_rows(config_of(data={"name": "file", "path": "x.npz"}, model=None), toy_federation, local_steps=1)
