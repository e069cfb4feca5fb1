"""Distances held as a matrix that is checked once."""

import numpy as np
import pytest
from tests.graph.material import random_lengths

from fedgs.errors import GraphError
from fedgs.graph import MatrixDistances, checked_once, matrix_distances, shortest_paths
from fedgs.graph.tree import SpanningForest, forest_distances


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


def test_a_reused_id_is_not_taken_for_the_earlier_matrix() -> None:
    earlier, matrix = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[0.0, 3.0], [3.0, 0.0]])
    checked_once(earlier)
    known = matrix_distances._known
    known[id(matrix)] = known[id(earlier)]  # as if `earlier` had lived at this address
    assert checked_once(matrix).maximum == 3.0
    assert known[id(matrix)].matrix() is matrix
    assert len(checked_once(matrix)) == 2
