"""Shortest paths and the distances of clients."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.graph.material import random_lengths
from tests.oracles import graph as oracle

from fedgs.compiling import load_kernels
from fedgs.errors import GraphError
from fedgs.graph import graph_distance, shortest_paths
from fedgs.graph.distance import as_lengths, floyd_warshall


@given(st.integers(1, 9), st.floats(0, 1), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_equals_bellman_ford(count: int, density: float, seed: int) -> None:
    lengths = random_lengths(count, density=density, seed=seed, spread=30.0)
    np.testing.assert_allclose(shortest_paths(lengths), oracle.shortest_paths(lengths), rtol=1e-12)


@pytest.mark.parametrize(
    ("count", "density", "spread"),
    [(150, 1.0, 100.0), (150, 0.02, 1.0), (150, 0.005, 1.0), (203, 1.0, 0.1), (700, 0.004, 1.0)],
    ids=["tree", "sparse", "forest", "dense", "large sparse"],
)
def test_fast_routes_equal_the_plain_loop(count: int, density: float, spread: float) -> None:
    lengths = random_lengths(count, density=density, seed=3, spread=spread)
    fast = shortest_paths(lengths)
    np.testing.assert_allclose(fast, floyd_warshall(lengths.copy()), rtol=1e-12)
    assert np.array_equal(fast, fast.T)


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 127, 129, 193])
@pytest.mark.parametrize("density", [0.03, 0.5, 1.0])
def test_blocks_end_where_the_matrix_ends(count: int, density: float) -> None:
    kernels = load_kernels("fedgs.graph.kernels") or pytest.skip("numba is not installed")
    lengths = random_lengths(count, density=density, seed=count)
    blocked = lengths.copy()
    kernels.floyd_warshall_blocked(blocked)  # type: ignore[attr-defined]
    np.testing.assert_allclose(blocked, floyd_warshall(lengths.copy()), rtol=1e-12)
    assert np.array_equal(blocked, blocked.T)


def test_zero_length_is_an_edge() -> None:
    lengths = np.array([[0.0, 0.0, np.inf], [0.0, 0.0, 2.0], [np.inf, 2.0, 0.0]])
    assert shortest_paths(lengths).tolist() == [[0.0, 0.0, 2.0], [0.0, 0.0, 2.0], [2.0, 2.0, 0.0]]


def test_input_is_left_alone() -> None:
    lengths = np.array([[0.0, 9.0, 1.0], [9.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    before = lengths.copy()
    shortest_paths(lengths)
    assert np.array_equal(lengths, before)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.zeros((2, 3)), r"adjacency must be a square matrix, got shape \(2, 3\)"),
        (np.array([[0.0, np.nan], [1.0, 0.0]]), r"the entry \(0, 1\) is NaN"),
        (np.array([[0.0, -1.0], [-1.0, 0.0]]), r"must be >= 0; the entry \(0, 1\) is -1.0"),
        (
            np.array([[0.0, 1.0], [2.0, 0.0]]),
            r"must be symmetric; the entries \(0, 1\) and \(1, 0\) are 1.0 and 2.0",
        ),
        (np.array([[3.0]]), r"must be 0 on the diagonal; the entry \(0, 0\) is 3.0"),
    ],
)
def test_unusable_lengths_are_named(matrix: np.ndarray, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        shortest_paths(matrix)


def test_asymmetry_of_the_last_bits_is_none() -> None:
    lengths = np.array([[0.0, 0.1 + 0.2], [0.3, 0.0]])
    assert lengths[0, 1] != lengths[1, 0]
    assert shortest_paths(lengths).shape == (2, 2)


def test_unreachable_gets_the_largest_finite_distance_before_normalising() -> None:
    paths = np.array([[0.0, 4.0, np.inf], [4.0, 0.0, np.inf], [np.inf, np.inf, 0.0]])
    assert graph_distance(paths, normalize=False).tolist() == [
        [0.0, 4.0, 4.0],
        [4.0, 0.0, 4.0],
        [4.0, 4.0, 0.0],
    ]
    assert graph_distance(paths).max() == 1.0


def test_no_edges_is_one_off_the_diagonal() -> None:
    paths = np.full((3, 3), np.inf)
    np.fill_diagonal(paths, 0.0)
    assert graph_distance(paths).tolist() == [[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]


def test_one_client_is_zero() -> None:
    assert graph_distance(shortest_paths(np.array([[0.0]]))).tolist() == [[0.0]]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[0, 1], [1]], "got rows of different lengths"),
        ([["0", "1"], ["1", "0"]], "got entries of type <U1"),
        (np.array([[None, "x"], ["x", None]]), r"got an array of objects of shape \(2, 2\)"),
    ],
)
def test_what_is_no_matrix_of_numbers_is_refused(values: npt.ArrayLike, message: str) -> None:
    with pytest.raises(
        GraphError, match="^adjacency must be a square matrix of numbers, " + message
    ):
        as_lengths(values, "adjacency")
