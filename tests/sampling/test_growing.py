"""The memory of a graph that grows with the cohorts."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgs import Clients, View
from fedgs.clients import Outcome
from fedgs.graph import Graph
from fedgs.sampling import FedGS


def outcome(clients: list[int], features: object = None) -> Outcome:
    return Outcome(np.array(clients), np.full(len(clients), 1 / len(clients)), features)


def test_the_oracles_graph_grows_with_the_cohorts() -> None:
    counts = np.random.default_rng(1).integers(0, 9, (6, 3)) + np.eye(6, 3, dtype=np.int64)
    clients = Clients(tuple(range(6)), counts.sum(axis=1), label_counts=counts)
    sampler = FedGS(graph=Graph(start="seen"))
    memory = sampler.start(clients)
    np.testing.assert_array_equal(memory["distance"], 1 - np.eye(6))
    view = View(0, clients, np.arange(6), np.zeros(6, dtype=np.int64), 2, memory=memory)
    memory = sampler.observe(memory, view, outcome([1, 4]))
    memory = sampler.observe(memory, view, outcome([0, 4]))
    known = np.array([0, 1, 4])
    seen = Clients((0, 1, 4), clients.data_sizes[known], label_counts=counts[known])
    np.testing.assert_allclose(
        memory["distance"][np.ix_(known, known)], Graph().of_clients(seen).distance
    )
    assert memory["seen"].tolist() == [True, True, False, False, True, False]
    # Without a new client nothing is computed.
    assert sampler.observe(memory, view, outcome([0, 1])) is memory
    whole = sampler.observe(sampler.observe(memory, view, outcome([2, 3])), view, outcome([5]))
    np.testing.assert_allclose(whole["distance"], Graph().of_clients(clients).distance)


@given(
    seed=st.integers(0, 200),
    refresh=st.sampled_from([0.0, 0.3, 1.0]),
    settings_=st.sampled_from(
        [{}, {"rescale": True}, {"construction": "complete"}, {"epsilon": 0.5}]
    ),
)
@settings(max_examples=30, deadline=None)
def test_features_are_averaged_and_the_graph_is_that_of_the_seen(
    seed: int, refresh: float, settings_: dict[str, object]
) -> None:
    graph = Graph(similarity="functional", start="seen", refresh=refresh, **settings_)  # type: ignore[arg-type]
    sampler, draws = FedGS(graph=graph), np.random.default_rng(seed)
    clients = Clients(tuple(range(7)), np.ones(7, dtype=np.int64))
    memory, averages = sampler.start(clients), dict[int, np.ndarray]()
    view = View(0, clients, np.arange(7), np.zeros(7, dtype=np.int64), 3, memory=memory)
    for _ in range(5):
        cohort = sorted(draws.choice(7, 3, replace=False).tolist())
        features = draws.normal(size=(3, 4)) + 1
        memory = sampler.observe(memory, view, outcome(cohort, features))
        for k, feature in zip(cohort, features, strict=True):
            unit = feature / np.linalg.norm(feature)
            mixed = (1 - refresh) * averages[k] + refresh * unit if k in averages else unit
            averages[k] = mixed / np.linalg.norm(mixed)
    known = np.array(sorted(averages))
    rows = np.stack([averages[k] for k in known.tolist()])
    similarity = np.clip(rows @ rows.T, 0, 1)
    np.fill_diagonal(similarity, 1.0)
    alone = graph.of_similarity((similarity + similarity.T) / 2)
    np.testing.assert_allclose(
        memory["distance"][np.ix_(known, known)], alone.distance, rtol=1e-6, atol=1e-9
    )
    assert np.flatnonzero(memory["seen"]).tolist() == known.tolist()


def test_a_cohort_without_a_new_client_changes_nothing_where_features_are_not_refreshed() -> None:
    graph = Graph(similarity="update", start="seen", refresh=0.0)
    clients = Clients((0, 1, 2), np.ones(3, dtype=np.int64))
    sampler = FedGS(graph=graph)
    view = View(0, clients, np.arange(3), np.zeros(3, dtype=np.int64), 2)
    memory = sampler.observe(sampler.start(clients), view, outcome([0, 1], np.eye(2)))
    assert sampler.observe(memory, view, outcome([0, 1], np.ones((2, 2)))) is memory
