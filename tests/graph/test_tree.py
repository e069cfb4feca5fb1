"""Spanning forests and their distances."""

import numpy as np
import pytest
from tests.graph.material import random_lengths

from fedgs.errors import GraphError
from fedgs.graph.distance import floyd_warshall
from fedgs.graph.tree import SpanningForest, forest_distances, minimum_spanning_forest, shortfall


@pytest.mark.parametrize("count", [1, 2, 17, 60])
def test_spanning_forest_is_minimal(count: int) -> None:
    from scipy.sparse.csgraph import minimum_spanning_tree

    lengths = random_lengths(count, density=0.5, seed=count)
    forest = minimum_spanning_forest(lengths)
    known = minimum_spanning_tree(np.where(np.isinf(lengths), 0.0, lengths))
    assert forest.above.sum() == pytest.approx(known.sum())
    assert np.sum(forest.parent >= 0) == known.nnz
    place = np.argsort(forest.order)
    assert all(place[forest.parent[v]] < place[v] for v in range(count) if forest.parent[v] >= 0)


@pytest.mark.parametrize("count", [10, 60])
def test_forest_distances_follow_the_edges(count: int) -> None:
    forest = minimum_spanning_forest(random_lengths(count, density=3 / count, seed=5))
    edges = np.full((count, count), np.inf)
    np.fill_diagonal(edges, 0.0)
    for vertex, parent in enumerate(forest.parent):
        if parent >= 0:
            edges[vertex, parent] = edges[parent, vertex] = forest.above[vertex]
    np.testing.assert_allclose(forest_distances(forest), floyd_warshall(edges), rtol=1e-12)
    within = np.where(np.isinf(floyd_warshall(edges)), 0.0, floyd_warshall(edges))
    assert 0 <= shortfall(within, forest) <= 1e-12 * forest.above.max()
    longer = within + 0.5
    np.fill_diagonal(longer, 0.0)
    assert shortfall(longer, forest) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "count", [10, 60, 300]
)  # plain, compiled, and above the size where edges are looked at first
def test_shortfall_is_that_of_the_worst_pair(count: int) -> None:
    rng = np.random.default_rng(count)
    for lengths in (
        rng.uniform(0, 1, (count, count)),
        1 + rng.uniform(0, 1e-9, (count, count)),
    ):  # no metric; a metric
        matrix = np.triu(lengths, 1) + np.triu(lengths, 1).T
        forest = minimum_spanning_forest(matrix)
        worst = (matrix - forest_distances(forest))[~np.eye(count, dtype=bool)].max()
        assert worst - 1e-15 <= shortfall(matrix, forest) <= worst + 1e-12 * forest.above.max()


@pytest.mark.parametrize(
    ("parent", "above", "order", "message"),
    [
        (
            [[-1]],
            [0.0],
            [0],
            r"a forest's parent must be a 1-d array of numbers, got int64 of shape",
        ),
        ([-1, 0], [0.0], [0, 1], "a forest's arrays must have one length, got 2, 1 and 2"),
        ([-1, 2], [0.0, 1.0], [0, 1], r"must be vertices in 0..1 or -1, got -1..2"),
        ([-1, 0], [0.0, 1.0], [0, 0], "order must hold every vertex in 0..1 once"),
        ([-1, 0], [0.0, 1.0], [1, 0], "order must have parents before their children"),
        ([-1, 0], [0.0, -1.0], [0, 1], "edges must have finite lengths >= 0"),
        ([-1, 0], [0.0, np.inf], [0, 1], "edges must have finite lengths >= 0"),
    ],
)
def test_what_is_no_forest_is_refused(
    parent: list[int], above: list[float], order: list[int], message: str
) -> None:
    with pytest.raises(GraphError, match=message):
        SpanningForest(np.array(parent), np.array(above), np.array(order))


def test_a_forest_of_no_vertices_is_one() -> None:
    none = np.empty(0, dtype=np.int64)
    assert len(SpanningForest(none, np.empty(0), none)) == 0


def test_a_forest_must_fit_the_distances() -> None:
    forest = minimum_spanning_forest(random_lengths(3, density=1.0, seed=0))
    with pytest.raises(GraphError, match=r"a forest of 3 vertices does not fit distances of shape"):
        shortfall(np.zeros((2, 2)), forest)
    with pytest.raises(GraphError, match=r"lengths must be a square matrix, got shape \(2, 3\)"):
        minimum_spanning_forest(np.zeros((2, 3)))
