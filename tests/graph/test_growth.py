"""The graph of the clients seen so far is the graph made from them alone, however it has grown."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgs.graph import Graph, shortest_paths
from fedgs.graph.growth import add_vertices, embedded, model_similarity, unit_rows, widened


def features(seed: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 4)) + 0.5


@given(seed=st.integers(0, 300), count=st.integers(2, 9))
@settings(max_examples=40, deadline=None)
def test_model_similarities_are_symmetric_in_0_to_1_and_relabel_with_the_clients(
    seed: int, count: int
) -> None:
    rows = features(seed, count)
    similarity = model_similarity(rows)
    np.testing.assert_array_equal(similarity, similarity.T)
    assert similarity.min() >= 0 and similarity.max() <= 1
    plain = [[max(0.0, a @ b / np.sqrt((a @ a) * (b @ b))) for b in rows] for a in rows]
    np.testing.assert_allclose(similarity, plain, atol=1e-12)
    order = np.random.default_rng(seed).permutation(count)
    np.testing.assert_allclose(
        model_similarity(rows[order]), similarity[np.ix_(order, order)], atol=1e-12
    )
    np.testing.assert_allclose(
        model_similarity(rows * np.arange(1, count + 1)[:, None]), similarity, atol=1e-12
    )


def test_equal_features_give_1_and_features_of_zeros_0() -> None:
    similarity = model_similarity(np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 0.0], [0.0, 0.0]]))
    assert similarity[0, 1] == pytest.approx(1.0)
    assert similarity[0, 2] == similarity[2, 3] == 0.0
    assert unit_rows(np.zeros((1, 3))).tolist() == [[0.0, 0.0, 0.0]]


@given(
    seed=st.integers(0, 300),
    count=st.integers(2, 10),
    epsilon=st.sampled_from([0.0, 0.1, 0.6]),
    power=st.sampled_from([1, 2]),
)
@settings(max_examples=60, deadline=None)
def test_a_graph_that_grew_is_the_graph_made_at_once(
    seed: int, count: int, epsilon: float, power: int
) -> None:
    similarity = model_similarity(features(seed, count))
    order = np.random.default_rng(seed).permutation(count)
    for normalize in (True, False):
        graph = Graph(epsilon=epsilon, power=power, sigma_squared=0.1, normalize=normalize)  # type: ignore[arg-type]
        known, paths = np.zeros(count, dtype=bool), np.where(np.eye(count, dtype=bool), 0.0, np.inf)
        for part in np.array_split(order, 3):
            if len(part) == 0:
                continue
            known[part] = True
            grown, paths = widened(graph, paths, similarity, known=known, new=np.sort(part))
            here = np.flatnonzero(known)
            alone = graph.of_similarity(similarity[np.ix_(here, here)])
            block = np.ix_(here, here)
            np.testing.assert_allclose(grown.distance[block], alone.distance, rtol=1e-9, atol=1e-12)
            whole, _ = widened(graph, paths, similarity, known=known, new=None)
            np.testing.assert_allclose(grown.distance, whole.distance, rtol=1e-9, atol=1e-12)
            unknown = grown.distance[
                ~(known[:, None] & known[None, :]) & ~np.eye(count, dtype=bool)
            ]
            np.testing.assert_allclose(unknown, alone.distance.max() or 1.0)


@given(seed=st.integers(0, 300), count=st.integers(1, 9))
@settings(max_examples=40, deadline=None)
def test_added_vertices_leave_shortest_paths(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    half = np.triu(
        np.where(rng.random((count, count)) < 0.5, rng.random((count, count)), np.inf), 1
    )
    lengths = np.minimum(np.where(half == 0, np.inf, half), np.where(half == 0, np.inf, half).T)
    np.fill_diagonal(lengths, 0.0)
    old = np.arange(count) < count // 2
    before = np.full((count, count), np.inf)
    before[np.ix_(old, old)] = shortest_paths(lengths[np.ix_(old, old)])
    np.fill_diagonal(before, 0.0)
    np.testing.assert_allclose(
        add_vertices(before, lengths, np.flatnonzero(~old)), shortest_paths(lengths)
    )


def test_unknown_clients_are_as_far_as_the_farthest_known() -> None:
    inner = Graph(normalize=False).of_similarity(
        np.array([[1.0, 0.1, 0.1], [0.1, 1.0, 0.2], [0.1, 0.2, 1.0]])
    )
    whole = embedded(inner, np.array([3, 0, 2]), 5)
    assert whole.distance[1, 4] == whole.distance[0, 1] == inner.distance.max() > 0
    assert whole.distance[3, 0] == inner.distance[0, 1]
    assert whole.similarity[1].tolist() == [0, 1, 0, 0, 0] and np.isinf(whole.adjacency[1, 0])
    assert np.diagonal(whole.distance).tolist() == [0.0] * 5


def test_where_nobody_is_known_all_are_at_distance_1() -> None:
    empty = Graph().of_similarity(np.zeros((0, 0)))
    assert embedded(empty, np.empty(0, dtype=np.int64), 2).distance.tolist() == [
        [0.0, 1.0],
        [1.0, 0.0],
    ]
