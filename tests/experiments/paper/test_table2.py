"""Table 2 on a small federation."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.experiments.paper.helpers import FAST, LDF, CarriedOut, carry_out, request_of, rows

from fedgs.data import export
from fedgs.experiments.paper.frame.conditions import Mode, Source
from fedgs.experiments.paper.frame.experiment import ExperimentRecords
from fedgs.experiments.paper.frame.request import ExperimentRequest
from fedgs.experiments.paper.frame.run import checked
from fedgs.experiments.paper.table2 import render, table2_rows


def test_table2_has_ten_rows_and_two_of_ours(table2: CarriedOut) -> None:
    request, out, _ = table2
    table = rows(out / f"{request.stem}.csv")
    assert [row["method"] for row in table] == [
        *("uniform", "md", "power_of_choice", "fedprox .01"),
        *("fedgs 0", "fedgs 0.5", "fedgs 1", "fedgs 2", "fedgs 5"),
        *("fedgs 1, paper scale", "uniform, inverse p.", "fedgs 1, inverse p."),
    ]
    assert {row["LDF 0.7 seeds"] for row in table} == {"2"}
    assert {row["LDF 0.7 paper"] for row in table} == {""}, (
        "six clients are not the paper's federation"
    )


def test_each_row_is_run_with_its_own_settings(table2: CarriedOut) -> None:
    _, _, outcome = table2
    methods = {
        loaded.row: (loaded.run.table("method"), loaded.run.table("training"))
        for loaded in outcome.records.runs
    }
    assert methods["power_of_choice"][0]["loss_on"] == "validation"
    assert (
        methods["fedprox"][0]["name"] == "md"
        and methods["fedprox"][1]["mu"] == 0.01
        and methods["md"][1]["mu"] == 0
    )
    fedgs = {row: method for row, (method, _) in methods.items() if method["name"] == "fedgs"}
    assert {row: (method["alpha"], method["scale"]) for row, method in fedgs.items()} == {
        **{f"fedgs-{alpha:g}": (alpha, "cohort") for alpha in (0, 0.5, 1, 2, 5)},
        "fedgs-paper": (1, "paper"),
        "fedgs-inverse": (1, "paper"),
    }
    inverse = {
        row
        for row, (method, _) in methods.items()
        if method["weighting"] == "inverse_participation"
    }
    assert inverse == {"uniform-inverse", "fedgs-inverse"}
    assert {method["graph"]["preset"] for method in fedgs.values()} == {"paper"}


def test_every_number_can_be_traced_to_a_record(table2: CarriedOut) -> None:
    request, out, _ = table2
    traced: dict[tuple[str, str], list[float]] = {}
    for row in rows(out / f"{request.stem}-runs.csv"):
        lines = (out / "runs" / row["folder"] / "rounds.jsonl").read_text().splitlines()
        stored = [loss for line in lines if (loss := json.loads(line)["test_loss"]) is not None]
        assert (
            float(row["test_loss"]) == min(stored)
            and row["standing"] == "finished"
            and row["rounds"] == "4"
        )
        traced.setdefault((row["row"], row["mode"]), []).append(min(stored))
    keys = [row.key for row in table2_rows(request)]
    for key, row in zip(keys, rows(out / f"{request.stem}.csv"), strict=True):
        for mode in ("IDL", "LDF 0.7"):
            assert float(row[f"{mode} mean"]) == pytest.approx(
                np.mean(traced[key, mode]), abs=1e-12
            )


def test_degradation_is_the_ratio_to_ideal(table2: CarriedOut) -> None:
    request, out, _ = table2
    for losses, degraded in zip(
        rows(out / f"{request.stem}.csv"),
        rows(out / f"{request.stem}-degradation.csv"),
        strict=True,
    ):
        ratio = float(losses["LDF 0.7 mean"]) / float(losses["IDL mean"]) - 1
        assert (
            float(degraded["LDF 0.7"])
            == pytest.approx(ratio)
            == pytest.approx(float(degraded["worst"]))
        )


def test_the_other_scale_and_chosen_rows(toy_file: Path, tmp_path: Path) -> None:
    request = request_of(
        "table2",
        toy_file,
        modes=LDF,
        methods=("fedgs-1", "fedgs-cohort"),
        scale="paper",
        rounds=1,
        overrides=FAST,
    )
    outcome = carry_out(request, tmp_path)
    assert {loaded.row: loaded.run.table("method")["scale"] for loaded in outcome.records.runs} == {
        "fedgs-1": "paper",
        "fedgs-cohort": "cohort",
    }


def test_the_paper_stands_beside_a_file_of_thirty_clients(tmp_path: Path) -> None:
    from tests.conftest import make_federation

    file = export(make_federation(tuple(4 + k % 3 for k in range(30))), tmp_path / "thirty.npz")
    request = request_of(
        "table2",
        file,
        modes=(Mode("IDL"), Mode("MDF"), Mode("LN", 0.3)),
        methods=("uniform", "fedgs-1"),
        rounds=2,
        overrides=FAST,
    )
    outcome = carry_out(request, tmp_path / "out")
    table = rows(tmp_path / "out" / f"{request.stem}.csv")
    assert [(row["IDL paper"], row["MDF 0.7 paper"], row["LN 0.3 paper"]) for row in table] == [
        ("0.302", "0.362", ""),
        ("0.328", "0.311", ""),
    ]
    assert "(.302)" in outcome.rendering.tables[""].text()
    assert (
        "- The runs have 2 rounds, the paper's 1000: levels cannot be compared."
        in outcome.rendering.verdict
    )
    assert any(
        "levels can be compared if it is the paper's own federation" in line
        for line in outcome.rendering.verdict
    )


def test_a_federation_without_a_mode_has_no_figure_for_it() -> None:
    request = checked(ExperimentRequest("table2", (Source("synthetic"), Source("fashion_mnist"))))
    table = render(request, ExperimentRecords()).tables[""]
    columns = [column.title for column in table.columns]
    assert columns == [
        "method",
        "IDL",
        "LN 0.5",
        "SLN 0.5",
        "LDF 0.7",
        "MDF 0.7",
        "YMF 0.9",
        "YC 0.9",
    ]
    assert [cell.text for cell in table.rows[0][-2:]] == ["–", "–"]
    assert [cell.text for cell in table.rows[-1][2:6]] == ["–", "–", "–", "–"]
    assert table.title == "Table 2: lowest test loss"
