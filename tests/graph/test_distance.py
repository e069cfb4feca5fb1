import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import graph as oracle

from fedgs.compiling import load_kernels
from fedgs.errors import GraphError
from fedgs.graph import (
    MatrixDistances,
    checked_once,
    graph_distance,
    matrix_distances,
    shortest_paths,
)
from fedgs.graph.distance import floyd_warshall
from fedgs.graph.tree import SpanningForest, forest_distances, minimum_spanning_forest, shortfall


def random_lengths(count: int, *, density: float, seed: int, spread: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    lengths = np.where(
        rng.random((count, count)) < density,
        np.exp(-rng.uniform(0, spread, (count, count))),
        np.inf,
    )
    lengths = np.triu(lengths, 1)
    lengths = lengths + lengths.T
    np.fill_diagonal(lengths, 0.0)
    return lengths


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


def test_matrix_distances_keep_a_good_matrix_as_it_is() -> None:
    matrix = shortest_paths(random_lengths(30, density=1.0, seed=1))
    distances = MatrixDistances(matrix)
    assert np.shares_memory(distances.matrix, matrix)
    assert distances.tree is distances.tree
    assert np.array_equal(distances.rows(np.array([3, 5])), matrix[[3, 5]])


@pytest.mark.parametrize("count", [12, 40])
def test_tree_dominates_shortest_paths(count: int) -> None:
    matrix = shortest_paths(random_lengths(count, density=1.0, seed=2))
    tree = MatrixDistances(matrix).tree
    assert tree is not None
    assert tree.shortfall <= 1e-12
    metric = np.where(np.isinf(forest_distances(tree)), matrix.max(), forest_distances(tree))
    assert (metric >= matrix - 1e-12).all()


def test_matrix_that_is_no_metric_has_no_tree() -> None:
    matrix = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 1.0], [5.0, 1.0, 0.0]])
    matrix = np.pad(matrix, (0, 1), constant_values=9.0)
    np.fill_diagonal(matrix, 0.0)
    assert MatrixDistances(matrix).tree is None


def test_components_stay_apart() -> None:
    block = np.array([[0.0, 1.0], [1.0, 0.0]])
    matrix = np.full((4, 4), 3.0)
    matrix[:2, :2] = matrix[2:, 2:] = block
    tree = MatrixDistances(matrix).tree
    assert isinstance(tree, SpanningForest)
    assert np.sum(tree.parent < 0) == 2


def test_readonly_and_column_ordered_matrices_are_accepted() -> None:
    matrix = np.asfortranarray(shortest_paths(random_lengths(30, density=1.0, seed=1)))
    matrix.flags.writeable = False
    assert MatrixDistances(matrix).matrix.flags.c_contiguous


def test_a_matrix_is_remembered_as_long_as_it_lives() -> None:
    matrix = shortest_paths(random_lengths(30, density=1.0, seed=1))
    first = checked_once(matrix)
    assert checked_once(matrix).tree is first.tree
    assert checked_once(matrix.copy()).tree is not first.tree
    key = id(matrix)
    assert key in matrix_distances._known
    del first, matrix
    assert key not in matrix_distances._known


def test_a_matrix_with_inf_is_checked_each_time() -> None:
    matrix = np.array([[0.0, np.inf], [np.inf, 0.0]])
    assert (
        checked_once(matrix).matrix.tolist()
        == checked_once(matrix).matrix.tolist()
        == [[0.0, 1.0], [1.0, 0.0]]
    )
    with pytest.raises(GraphError, match="must be symmetric"):
        checked_once(np.array([[0.0, 1.0], [2.0, 0.0]]))
