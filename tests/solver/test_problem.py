import numpy as np
import pytest

from fedgs.errors import SelectionError
from fedgs.graph import MatrixDistances
from fedgs.solver import SelectionProblem, objective

PAIR = np.array([[0.0, 2.0], [2.0, 0.0]])


def problem(
    distance: object = PAIR,
    penalty: object = (1.0, 3.0),
    size: object = 2,
    weight: float = 0.5,
    available: object = None,
) -> SelectionProblem:
    return SelectionProblem(
        distance,  # type: ignore[arg-type]
        np.asarray(penalty, dtype=np.float64),
        size,  # type: ignore[arg-type]
        weight,
        None if available is None else np.asarray(available),
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"distance": np.zeros((2, 3))}, r"distance must be a square matrix, got shape \(2, 3\)"),
        (
            {"distance": np.array([[0.0, 1.0], [2.0, 0.0]])},
            r"distance must be symmetric; the entries \(0, 1\) and \(1, 0\) are 1.0 and 2.0",
        ),
        (
            {"distance": np.array([[0.0, -1.0], [-1.0, 0.0]])},
            r"distance must be >= 0; the entry \(0, 1\) is -1.0",
        ),
        ({"distance": np.array([[0.0, np.nan], [np.nan, 0.0]])}, r"the entry \(0, 1\) is NaN"),
        (
            {"distance": np.array([[1.0, 1.0], [1.0, 0.0]])},
            r"distance must be 0 on the diagonal; the entry \(0, 0\) is 1.0",
        ),
        ({"penalty": [1.0]}, r"balance_penalty must have shape \(2,\), one a client, got \(1,\)"),
        (
            {"penalty": [1.0, np.inf]},
            "balance_penalty must be finite, and at most 1e.100 in size, got inf",
        ),
        (
            {"penalty": [1.0, -1e200]},
            r"balance_penalty must be finite, and at most 1e.100 in size, got -1e.200",
        ),
        ({"weight": 1e-200}, "pair_weight must be 0 or at least 1e-100, got 1e-200"),
        ({"size": 3}, r"cohort_size must be in 1..2 \(available clients\), got 3"),
        ({"size": 0}, r"cohort_size must be in 1..2 \(available clients\), got 0"),
        ({"size": 1.5}, r"cohort_size must be in 1..2 \(available clients\), got 1.5"),
        (
            {"size": 2, "available": [1]},
            r"cohort_size must be in 1..1 \(available clients\), got 2",
        ),
        (
            {"weight": -0.1},
            "pair_weight must be >= 0 and finite, also times the distances, got -0.1",
        ),
        (
            {"weight": np.nan},
            "pair_weight must be >= 0 and finite, also times the distances, got nan",
        ),
        (
            {"distance": PAIR * 1e307, "weight": 1e10},
            "pair_weight must be >= 0 and finite, also times the distances",
        ),
        ({"available": [0, 2]}, r"available must hold client indices in 0..1, got 2"),
        ({"available": [-1]}, r"available must hold client indices in 0..1, got -1"),
        ({"available": [1, 1]}, "available must hold distinct clients, got 1 more than once"),
        ({"available": []}, "available must hold at least one client, got none"),
        ({"available": [True, False]}, "available must be a 1-d array of client indices, got bool"),
    ],
)
def test_each_fault_is_one_sentence(changed: dict[str, object], message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        problem(**changed)  # type: ignore[arg-type]


def test_objective_by_hand() -> None:
    # .5·2 for the pair, less 1 + 3.
    assert objective(problem(), np.array([0, 1])) == -3.0


def test_unreachable_counts_as_the_largest_finite_distance() -> None:
    matrix = np.array([[0.0, 2.0, np.inf], [2.0, 0.0, 1.0], [np.inf, 1.0, 0.0]])
    assert objective(problem(matrix, np.zeros(3), weight=1.0), np.array([0, 2])) == 2.0


def test_a_checked_matrix_is_not_looked_at_again() -> None:
    distances = MatrixDistances(PAIR.copy())
    distances.matrix[0, 1] = 7.0  # asymmetric now: a second check would refuse it
    assert problem(distances).distances is distances


def test_pool_is_ascending() -> None:
    assert problem(size=1, available=[1, 0]).pool.tolist() == [0, 1]


@pytest.mark.parametrize(
    "available",
    [np.array([0, 2, 5]), np.array([5, 0, 2]), np.array([0, 2, 5], dtype=np.uint8), [0, 2, 5]],
)
def test_pool_is_ascending_whatever_the_order_and_type(available: object) -> None:
    made = SelectionProblem(np.ones((6, 6)) - np.eye(6), np.zeros(6), 2, 1.0, available)  # type: ignore[arg-type]
    assert made.pool.dtype == np.int64
    assert made.pool.tolist() == [0, 2, 5]


def test_a_pool_in_order_is_copied_once() -> None:
    # The usual form of `available` becomes the pool without a second look at it: the value of the
    # cached property is set where Python keeps it, in the instance's `__dict__`.
    available = np.array([0, 2, 5])
    problem = SelectionProblem(np.ones((6, 6)) - np.eye(6), np.zeros(6), 2, 1.0, available)
    assert "pool" in vars(problem)
    available[:] = 4
    assert problem.pool.tolist() == [0, 2, 5]
