"""Edges and their lengths."""

import numpy as np
import pytest

from fedgs.errors import GraphError
from fedgs.graph.adjacency import complete_edges, edge_scale, edge_weights

SIMILARITY = np.array([[1.0, 0.5, 0.05], [0.5, 1.0, 0.6], [0.05, 0.6, 1.0]])


@pytest.mark.parametrize("power", [1, 2])
def test_lengths_times_their_scale_are_the_papers(power: int) -> None:
    rule = {"epsilon": 0.1, "sigma_squared": 0.2}
    lengths = edge_weights(SIMILARITY, power=power, **rule)
    lengths *= edge_scale(SIMILARITY, power=power, **rule)
    expected = np.exp(-(SIMILARITY**power) / 0.2)
    expected[SIMILARITY < 0.1] = np.inf
    np.fill_diagonal(expected, 0.0)
    np.testing.assert_allclose(lengths, expected)


def test_without_edges_the_scale_is_one() -> None:
    assert edge_scale(np.eye(3), epsilon=0.1, sigma_squared=0.2) == 1.0
    lengths = edge_weights(np.eye(3), epsilon=0.1, sigma_squared=0.2)
    assert np.array_equal(lengths, np.where(np.eye(3) == 1, 0.0, np.inf))


def test_a_similarity_that_is_nan_is_refused() -> None:
    with pytest.raises(GraphError, match="similarities must be numbers, got NaN"):
        edge_weights(np.full((2, 2), np.nan), epsilon=0.1, sigma_squared=0.2)


def test_complete_edges_are_squared_distances_of_unit_vectors() -> None:
    vectors = np.array([[3.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = ((unit[:, None] - unit[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(complete_edges(vectors @ vectors.T), expected, atol=1e-12)
