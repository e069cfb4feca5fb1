"""The study of balanced shares writes rows and resumes; its summary makes tables and a figure."""

import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from fedgs.experiments.grid import expand, read_config

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "balanced_shares"
STORED = ROOT / "docs" / "records" / "balanced-shares" / "rows.csv"


@pytest.fixture(scope="module")
def modules() -> Iterator[tuple[ModuleType, ModuleType]]:
    """The two programs, the second of which imports the first."""
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module("study"), importlib.import_module("summary")
    sys.path.remove(str(FOLDER))
    for name in ("study", "summary"):
        sys.modules.pop(name)


def test_a_study_resumes_and_takes_the_rates_from_the_tuning_runs(
    modules: tuple[ModuleType, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, _ = modules
    monkeypatch.setattr(study, "ROUNDS", 2)
    monkeypatch.setattr(study, "MODES", ("LN",))
    monkeypatch.setattr(study, "TUNING_FEDERATIONS", ("11",))
    monkeypatch.setattr(study, "TUNING_MODES", ("IDL",))
    path = tmp_path / "rows.csv"
    study.main(path, "tune", ["uniform", "balanced_shares"])
    rows = study.read_rows(path)
    # Two rounds learn most at the highest rate, so the grid was extended.
    assert {row.rate for row in rows} > {0.05, 0.1, 0.2}
    rates = study.chosen_rates(rows)
    before = path.read_bytes()
    study.main(path, "tune", ["uniform", "balanced_shares"])
    assert path.read_bytes() == before
    study.main(path, "confirm", ["3"])
    confirmed = [row for row in study.read_rows(path) if row.part == "confirm"]
    assert {row.method: row.rate for row in confirmed} == rates
    assert all(row.bias >= 0 and row.lowest <= row.last for row in confirmed)


def test_the_tables_hold_differences_of_pairs_and_the_cells_that_miss_the_limit(
    modules: tuple[ModuleType, ModuleType], tmp_path: Path
) -> None:
    study, summary = modules
    numbers = {"last": 1.0, "tail": 1.0, "bias": 0.1, "weight_variance": 0.5, "count_variance": 2.0}
    row = study.Row("confirm", summary.PAPER, "IDL", "uniform", 0.1, 0, lowest=0.5, **numbers)
    losses = {"balanced_shares": 0.30, "fedgs": 0.29, "md": 0.40, "inverse_participation": 0.35}
    losses |= {"known": 0.10, "uniform": 0.5}
    rows = [
        replace(row, mode=mode, method=method, seed=seed, lowest=loss + 0.01 * seed)
        for mode in study.MODES
        for method, loss in losses.items()
        for seed in (0, 1)
    ]
    cells = summary.Cells(rows)
    assert cells.best(summary.PAPER, "LN") == (pytest.approx(0.295), "fedgs")  # without `known`
    planned = summary.planned_table(cells, [summary.PAPER]).splitlines()
    assert planned[2] == (
        "| IDL | +0.010 [+0.010, +0.010] | -0.050 [-0.050, -0.050] | -0.100 [-0.100, -0.100] |"
    )
    assert len(summary.missed_table(cells).splitlines()) == 2 + len(study.MODES)
    # (.305 / .105 - 1) · 100: known rates have the lowest loss under IDL
    assert "| 190.5 |" in summary.ideal_table(cells, summary.PAPER)
    assert summary.interval(np.array([0.1])) == "+0.100"
    summary.draw(cells, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


def test_the_page_shows_the_tables_of_the_stored_rows(
    modules: tuple[ModuleType, ModuleType],
) -> None:
    study, summary = modules
    page = (ROOT / "docs" / "explanation" / "beyond-the-paper.md").read_text(encoding="utf-8")
    for block in summary.report(study.read_rows(STORED)).split("\n\n"):
        if block.startswith("|"):
            assert block in page


def test_the_grid_on_images_has_a_run_for_each_method_and_mode() -> None:
    configs = expand(read_config(FOLDER / "images.toml"), []).configs
    assert len(configs) == 18
