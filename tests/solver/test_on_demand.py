"""Distances that are not held as a matrix."""

import numpy as np
import pytest
from tests.solver.conftest import assert_feasible, distance_of, greedy_value, times_chosen, unit

from fedgs.graph import MatrixDistances
from fedgs.graph.tree import SpanningForest
from fedgs.solver import SelectionProblem, limits, solve


def test_ten_thousand_identical_clients() -> None:
    count = 10_000

    class Identical:
        """All at distance 1, without a matrix."""

        maximum, tree = 1.0, None

        def __len__(self) -> int:
            return count

        def rows(self, clients: np.ndarray) -> np.ndarray:
            rows = np.ones((len(clients), count))
            rows[np.arange(len(clients)), clients] = 0.0
            return rows

    problem = SelectionProblem(Identical(), np.zeros(count), 20, 1.0)
    solution = solve(problem)
    assert_feasible(problem, solution)
    assert solution.objective == 190.0


def test_large_pools_are_searched_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_CLIENTS_HELD", 10)
    matrix = distance_of("paper graph", 60, np.random.default_rng(1))

    class ByRows:
        maximum, tree = float(matrix.max()), MatrixDistances(matrix).tree

        def __len__(self) -> int:
            return len(matrix)

        def rows(self, clients: np.ndarray) -> np.ndarray:
            return matrix[clients]

    penalty = np.random.default_rng(2).integers(0, 3, 60) / 59.0
    whole = SelectionProblem(matrix, penalty, 8, 0.05)
    for tree in (ByRows.tree, None):
        ByRows.tree = tree
        problem = SelectionProblem(ByRows(), penalty, 8, 0.05)
        solution = solve(problem)
        assert_feasible(problem, solution)
        assert solution.objective >= greedy_value(whole) - unit(whole)


def test_ties_by_rows_favour_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    # Twelve equal clients, choose three, 400 times: each is chosen 100 times, standard deviation
    # 8.7.
    monkeypatch.setattr(limits, "MAX_CLIENTS_HELD", 10)

    class Equal:
        maximum, tree = 1.0, SpanningForest(np.full(12, -1), np.zeros(12), np.arange(12))

        def __len__(self) -> int:
            return 12

        def rows(self, clients: np.ndarray) -> np.ndarray:
            return (1.0 - np.eye(12))[clients]

    times = times_chosen(SelectionProblem(Equal(), np.zeros(12), 3, 1.0), 400)
    assert np.abs(times - 100).max() < 6 * 8.7
