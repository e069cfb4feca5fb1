import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from fedgs.errors import SelectionError
from fedgs.graph import MatrixDistances
from fedgs.solver import SelectionProblem, select, solve

LINE = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0))) / 3


def call(**changed: Any) -> list[int]:
    arguments = {
        "distance": LINE,
        "sampling_counts": np.zeros(4, dtype=int),
        "available": np.arange(4),
        "cohort_limit": 2,
    } | changed
    return select(**arguments).tolist()


def test_ends_of_a_line_are_farthest_apart() -> None:
    assert call() == [0, 3]


def test_counts_come_before_distance_in_paper_scale() -> None:
    assert call(sampling_counts=np.array([1, 0, 0, 1])) == [1, 2]


def test_alpha_zero_selects_the_smallest_counts() -> None:
    assert call(sampling_counts=np.array([5, 1, 0, 2]), alpha=0.0) == [1, 2]


def test_large_alpha_in_cohort_scale_outweighs_counts() -> None:
    assert call(sampling_counts=np.array([1, 0, 0, 1]), alpha=50.0, scale="cohort") == [0, 3]


def test_no_more_available_than_the_limit_selects_all() -> None:
    assert call(available=np.array([3, 1]), cohort_limit=5) == [1, 3]


def test_lists_and_checked_distances_are_accepted() -> None:
    assert call(distance=LINE.tolist(), sampling_counts=[0, 0, 0, 0], available=[0, 1, 2, 3]) == [
        0,
        3,
    ]
    assert call(distance=MatrixDistances(LINE)) == [0, 3]


def test_two_clients_and_one_client() -> None:
    assert select(np.array([[0.0]]), np.array([4]), np.array([0]), 1).tolist() == [0]
    assert select(
        np.array([[0.0, np.inf], [np.inf, 0.0]]), np.array([4, 3]), np.array([0, 1]), 1
    ).tolist() == [1]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"sampling_counts": np.zeros(3)},
            r"sampling_counts must have shape \(4,\), one a client, got \(3,\)",
        ),
        ({"sampling_counts": np.array([0, 0, -1, 0])}, "sampling_counts must be >= 0, got -1"),
        ({"available": np.array([0, 4])}, r"available must hold client indices in 0..3, got 4"),
        (
            {"available": np.array([2, 2])},
            "available must hold distinct clients, got 2 more than once",
        ),
        (
            {"available": np.array([], dtype=int)},
            "available must hold at least one client, got none",
        ),
        ({"cohort_limit": 0}, "cohort_limit must be an integer >= 1, got 0"),
        ({"cohort_limit": 2.0}, "cohort_limit must be an integer >= 1, got 2.0"),
        ({"alpha": -1.0}, "alpha must be >= 0 and finite, got -1.0"),
        ({"scale": "cohrt"}, "scale must be 'paper' or 'cohort', got 'cohrt'"),
        ({"distance": LINE[:, :3]}, r"distance must be a square matrix, got shape \(4, 3\)"),
        ({"distance": np.triu(LINE)}, "distance must be symmetric"),
        ({"distance": [[0.0, 1.0], [1.0]]}, "distance must be an array of numbers, got list: "),
        ({"distance": [["a"] * 4] * 4}, "distance must be an array of numbers, got list of <U1"),
        (
            {"distance": LINE + 0j},
            "distance must be an array of numbers, got ndarray of complex128",
        ),
        ({"distance": None}, "distance must be an array of numbers, got NoneType of object"),
        ({"distance": np.array(1.0)}, r"distance must be a square matrix, got shape \(\)"),
        ({"distance": np.full((4, 4), None)}, "distance must hold numbers >= 0 or inf"),
        (
            {"sampling_counts": [[0], [1, 2]]},
            "sampling_counts must be an array of numbers, got list: ",
        ),
        (
            {"sampling_counts": list("abcd")},
            "sampling_counts must be an array of numbers, got list of <U1",
        ),
        ({"sampling_counts": [0, None, 0, 0]}, "sampling_counts must be >= 0, got nan"),
        ({"available": [[0], [1, 2]]}, "available must be an array of numbers, got list: "),
        ({"available": ["a"]}, "available must be an array of numbers, got list of <U1"),
        ({"alpha": "1"}, "alpha must be a number >= 0, got '1'"),
        ({"alpha": None}, "alpha must be a number >= 0, got None"),
        ({"seed": "x"}, "seed must be an integer >= 0 or a NumPy generator, got 'x'"),
        ({"seed": -1}, "seed must be an integer >= 0 or a NumPy generator, got -1"),
        ({"seed": 1.5}, "seed must be an integer >= 0 or a NumPy generator, got 1.5"),
    ],
)
def test_each_fault_is_one_sentence(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        call(**changed)


def test_easy_calls_load_no_more_than_numpy() -> None:
    code = (
        "import sys, numpy as np\n"
        "from fedgs.solver import select\n"
        "H, equal, everyone = 1.0 - np.eye(9), np.zeros(9, int), np.arange(9)\n"
        "select(H, equal, everyone, 1), select(H, equal, everyone, 9)\n"
        "select(H, equal, everyone, 3, alpha=0.0), select(H, everyone, everyone, 2)\n"
        "heavy = {'torch', 'numba', 'scipy', 'pydantic'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_whole_number_penalties_are_taken_as_they_are() -> None:
    distance = np.abs(np.subtract.outer(np.arange(9.0), np.arange(9.0)))
    penalty = np.array([0, 1, 2, 3, 0, 1, 2, 3, 0])
    whole, real = (
        solve(SelectionProblem(distance, p, cohort_size=4, pair_weight=0.1))
        for p in (penalty, penalty.astype(float))
    )
    assert whole.cohort.tolist() == real.cohort.tolist() and whole.objective == real.objective
    free = solve(SelectionProblem(distance, np.zeros(9), cohort_size=4, pair_weight=0.0))
    assert str(free.objective) == "0.0"
