"""The example of CA-Fed: its configurations, its figures, and its table at a small size."""

import importlib.util
import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from fedgs.data import SyntheticClustered
from fedgs.records import Record
from fedgs.report import Run

FILE = Path(__file__).parents[1] / "examples" / "ca_fed" / "table.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ca_fed_table", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_of(label: str, seed: int, accuracies: list[float]) -> Run:
    records = [Record(t, test_accuracy=value) for t, value in enumerate(accuracies)]
    return Run({"label": label, "seed": seed}, records)


def test_the_figures_of_a_run(example: ModuleType) -> None:
    run = run_of("x", 0, [0.5, 0.6, 0.9, 0.7])
    highest, mean, deviation = example.figures(run)
    # The second half is .9 and .7, with standard deviation .1.
    assert (highest, mean, deviation) == pytest.approx((90.0, 67.5, 10.0))


def test_the_optimal_losses_are_those_of_the_penalised_fits(example: ModuleType) -> None:
    federation = SyntheticClustered(clients=2, train_examples=30, dimension=3).load()
    losses = example.optimal_losses(federation)
    for k, loss in enumerate(losses):
        rows = federation.train.rows(k)
        x, y = federation.train.x[rows].astype(float), federation.train.y[rows]
        inputs = np.hstack([x, np.ones((len(x), 1))])
        # Newton's method on the same objective; the intercept has no penalty.
        penalty, parameters = np.diag([1.0, 1.0, 1.0, 0.0]), np.zeros(4)
        for _ in range(30):
            p = 1 / (1 + np.exp(-inputs @ parameters))
            gradient = inputs.T @ (p - y) + penalty @ parameters
            hessian = inputs.T @ (inputs * (p * (1 - p))[:, None]) + penalty
            parameters -= np.linalg.solve(hessian, gradient)
        p = 1 / (1 + np.exp(-inputs @ parameters))
        assert loss == pytest.approx(-np.mean(np.log(np.where(y == 1, p, 1 - p))), abs=1e-4)


def test_the_runs_are_those_of_the_publication(example: ModuleType) -> None:
    pairs = {method: [pair] for method, pair in example.PUBLISHED.items()}
    runs: list[Run] = example.carried_out(pairs, [0], out=None, rounds=2)
    by_label = {str(run.config["label"]): run for run in runs}
    assert set(by_label) == {
        "Unbiased | 0.03, 0.03",
        "F3AST | 0.03, 0.03",
        "CA-Fed, oracles | 0.01, 0.3",
        "CA-Fed, estimates | 0.01, 0.3",
    }
    unbiased, oracles = by_label["Unbiased | 0.03, 0.03"], by_label["CA-Fed, oracles | 0.01, 0.3"]
    # .03 / (1 - .9), for two outputs half of it.
    assert unbiased.table("training")["learning_rate"] == pytest.approx(0.15)
    assert unbiased.about["cohort_limit"] == 24
    assert by_label["F3AST | 0.03, 0.03"].about["cohort_limit"] == 12
    weighting = oracles.table("method")["weighting"]
    assert (weighting["prior_rate"], weighting["prior_observations"]) == ([0.9, 0.1], 100.0)
    assert len(weighting["optimal_losses"]) == 24
    assert all(0 < loss < math.log(2) for loss in weighting["optimal_losses"])
    server = oracles.table("aggregation")["server"]
    assert (server["name"], server["rate"], server["beta"]) == ("momentum", 0.3, 0.9)


def test_the_best_rates_are_those_of_the_highest_mean_accuracy(example: ModuleType) -> None:
    best = (0.03, 0.1)
    runs = [
        run_of(
            example.label_of(method, pair),
            seed,
            [0.7 if pair == best else 0.6, 0.8 if pair != best else 0.75],
        )
        for method in example.PUBLISHED
        for pair in example.GRID
        for seed in range(2)
    ]
    assert example.tuned(runs) == dict.fromkeys(example.PUBLISHED, best)


def test_differences_are_paired_by_seed(example: ModuleType) -> None:
    own = {0: (0.0, 75.0, 0.0), 1: (0.0, 71.0, 0.0)}
    other = {1: (0.0, 70.0, 0.0), 0: (0.0, 72.0, 0.0)}
    # Differences 3 and 1: mean 2, standard error 1, t(.975, 1) = 12.706.
    assert example.difference(own, other) == "+2.00 [-10.71, +14.71]"


def test_the_table_has_a_line_for_each_method_and_group(
    example: ModuleType,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(example, "GRID", ((0.03, 0.03), (0.1, 1.0)))
    example.main(str(tmp_path), "2", "1", rounds=3)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + 4 * 4
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert {len(row) for row in cells} == {7}
    assert [row[0] for row in cells[2::4]] == ["published", "first pair", "second pair", "tuned"]
    assert [row[6] for row in cells[2::4]] == ["-"] * 4
    assert cells[2][1:6] == cells[6][1:6]  # unbiased weights have the first pair in both groups
    assert all(float(row[3]) >= float(row[4]) > 0 for row in cells[2:])
