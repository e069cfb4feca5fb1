"""Table 4 on a small federation."""

from pathlib import Path

import pytest
from tests.experiments.paper.helpers import FAST, LDF, carry_out, request_of, rows, run_with

from fedgs.experiments.paper.frame.conditions import Mode
from fedgs.experiments.paper.frame.experiment import ExperimentRecords
from fedgs.experiments.paper.table4 import render


def test_table4_shares_the_runs_at_alpha_zero(toy_file: Path, tmp_path: Path) -> None:
    request = request_of("table4", toy_file, modes=LDF, rounds=2, seeds=(0,), overrides=FAST)
    outcome = carry_out(request, tmp_path)
    assert outcome.total == 13, "five alphas and three graphs, one of them without a graph"
    graphs = {
        loaded.row: loaded.run.table("method")["graph"]["similarity"]
        for loaded in outcome.records.runs
    }
    rows_of_graphs = ("functional-0", "functional-1", "update-5", "oracle-2")
    assert [graphs[row] for row in rows_of_graphs] == ["oracle", "functional", "update", "oracle"]
    (row,) = rows(tmp_path / f"{request.stem}.csv")
    alphas = {entry["graph"]: entry for entry in rows(tmp_path / f"{request.stem}-alphas.csv")}
    for word in ("oracle", "functional", "cosine"):
        means = {
            alpha: float(alphas[word][f"alpha {alpha} mean"])
            for alpha in ("0", "0.5", "1", "2", "5")
        }
        assert float(row[f"{word}_mean"]) == min(means.values()) == means[row[f"{word}_alpha"]]


def test_graphs_are_compared_with_the_paper_and_paired_over_seeds() -> None:
    request = request_of("table4", None, modes=(Mode("LN"),), seeds=(0, 1))
    means = {
        "oracle-0.5": (0.30, 0.32),
        "functional-1": (0.31, 0.33),
        "update-2": (0.40, 0.43),
        "update-5": (0.50, 0.50),
    }
    runs = [
        run_with(row, "LN 0.5", seed=seed, loss=loss)
        for row, pair in means.items()
        for seed, loss in enumerate(pair)
    ]
    rendering = render(request, ExperimentRecords(runs))
    ((mode, oracle, functional, update, first, second),) = rendering.tables[""].rows
    assert (mode.text, oracle.text, oracle.mark) == ("LN 0.5", ".310 at 0.5 (.305)", "best")
    assert (functional.text, update.text) == (".320 at 1 (.306)", ".415 at 2 (.304)")
    # Differences .01, .01 and .10, .11: mean ± t(1; .975) s/sqrt(2), with t = 12.706.
    assert first.values[:3] == pytest.approx((0.01, 0.01, 0.01))
    assert second.values[:3] == pytest.approx(
        (0.105, 0.105 - 12.7062 * 0.005, 0.105 + 12.7062 * 0.005), abs=1e-5
    )
    assert rendering.verdict == [
        "Synthetic:",
        "- LN 0.5: the graphs' means lie within .105 of each other, oracle lowest, cosine highest "
        "(paper: within .002, lowest cosine).",
        "- The three graphs give means within .005 of each other in all modes but LN 0.5.",
    ]


def test_a_graph_that_was_not_run_is_said() -> None:
    request = request_of("table4", None, modes=(Mode("LN"),), seeds=(0,))
    rendering = render(request, ExperimentRecords([run_with("oracle-1", "LN 0.5", loss=0.3)]))
    ((_, _, functional, _, difference, _),) = rendering.tables[""].rows
    assert (functional.text, difference.text, list(rendering.verdict)) == (
        "not run (.306)",
        "–",
        [],
    )
