"""The grid search on a small federation."""

from dataclasses import replace
from pathlib import Path

from tests.experiments.paper.helpers import carry_out, request_of, rows, run_with

from fedgs.experiments.paper.frame.conditions import Source
from fedgs.experiments.paper.frame.experiment import ExperimentRecords
from fedgs.experiments.paper.tuning import render


def test_tuning_names_its_best_point(toy_file: Path, tmp_path: Path) -> None:
    request = request_of("tuning", toy_file, rounds=1, seeds=(0,))
    outcome = carry_out(request, tmp_path)
    table = {
        (row["local_steps"], rate): float(row[f"eta {rate} mean"])
        for row in rows(tmp_path / f"{request.stem}.csv")
        for rate in ("0.01", "0.05", "0.1", "0.3")
    }
    steps, rate = min(table, key=lambda point: table[point])
    assert f"E = {steps}, eta = {rate}" in outcome.rendering.verdict[0]
    assert {loaded.run.table("method")["name"] for loaded in outcome.records.runs} == {"uniform"}


def test_the_verdict_names_the_papers_choice_and_its_rank() -> None:
    request = request_of("tuning", None, seeds=(0,))
    paper, other = run_with("E10-eta0.1", "IDL", loss=0.3), run_with("E50-eta0.01", "IDL", loss=0.4)
    assert render(request, ExperimentRecords([paper, other])).verdict == [
        "Synthetic: the lowest validation loss is at E = 10, eta = 0.1, the paper's choice."
    ]
    better = run_with("E50-eta0.01", "IDL", loss=0.2)
    rendering = render(request, ExperimentRecords([paper, better]))
    assert rendering.verdict == [
        "Synthetic: the lowest validation loss is at E = 50, eta = 0.01 (.200); the paper's "
        "choice, E = 10, eta = 0.1, is number 2 of 2 (.300)."
    ]
    marks = {cell.text: cell.mark for row in rendering.tables[""].rows for cell in row}
    assert (marks[".200"], marks[".300"], marks["not run"]) == ("best", "", "")
    assert render(request, ExperimentRecords([better])).verdict == [
        "Synthetic: the lowest validation loss is at E = 50, eta = 0.01; the paper's choice, "
        "E = 10, eta = 0.1, was not run."
    ]


def test_each_federation_has_the_rates_of_its_own_grid() -> None:
    request = request_of("tuning", None, seeds=(0,))
    request = replace(request, data=(Source("synthetic"), Source("cifar10")))
    synthetic = run_with("E10-eta0.3", "IDL", loss=0.3)
    cifar10 = run_with("E10-eta0.003", "IDL", loss=float("nan"), data="cifar10")
    rendering = render(request, ExperimentRecords([synthetic, cifar10]))
    titles = [column.title for column in rendering.tables[""].columns]
    rows = rendering.tables[""].rows
    texts = dict(zip(titles, (cell.text for cell in rows[0]), strict=True))
    assert (texts["eta 0.003"], texts["eta 0.01"], texts["eta 0.3"]) == ("–", "not run", ".300")
    assert rendering.verdict[1] == (
        "Synthetic: no run has a validation loss (the federation needs validation parts)."
    )
