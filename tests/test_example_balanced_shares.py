"""The study of balanced shares writes rows and resumes; its summary makes tables and a figure."""

import importlib
import itertools
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from fedgs import Clients, View
from fedgs.clients import Outcome
from fedgs.experiments.grid import expand, read_config
from fedgs.report import read_runs
from fedgs.weighting import Deficit

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "balanced_shares"
STORED = ROOT / "docs" / "records" / "balanced-shares" / "rows.csv"


@pytest.fixture(scope="module")
def modules() -> Iterator[tuple[ModuleType, ModuleType]]:
    """The two programs, the second of which imports the first."""
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module("study"), importlib.import_module("summary")  # and "design"
    sys.path.remove(str(FOLDER))
    for name in ("study", "summary", "design", "feasible"):
        sys.modules.pop(name, None)


@pytest.mark.long
def test_a_study_resumes_and_takes_the_rates_from_the_tuning_runs(
    modules: tuple[ModuleType, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, _ = modules
    monkeypatch.setattr(study, "ROUNDS", 2)
    monkeypatch.setattr(study, "MODES", ("LN",))
    monkeypatch.setattr(
        study, "TUNING_FEDERATIONS", dict.fromkeys(study.TUNING_FEDERATIONS, ("11",))
    )
    monkeypatch.setattr(study, "TUNING_MODES", ("IDL",))
    path = tmp_path / "rows.csv"
    study.main(path, "tune", ["uniform", "balanced_shares"])
    rows = study.read_rows(path)
    # Two rounds learn most at the highest rate, so the grid was extended.
    assert {row.rate for row in rows} > {0.05, 0.1, 0.2}
    best = study.learning_rates(rows)
    before = path.read_bytes()
    study.main(path, "tune", ["uniform", "balanced_shares"])
    assert path.read_bytes() == before
    assert study.chosen_rates(rows) == {method: (rate, 1) for method, rate in best.items()}
    study.main(path, "tune_server", ["uniform"])
    rows = study.read_rows(path)
    rates = study.chosen_rates(rows)
    grid = study.server_grid(rows, "tune", "uniform")
    assert rates["uniform"] == min(grid, key=grid.__getitem__)
    edges = [sorted({pair[axis] for pair in grid}) for axis in (0, 1)]
    assert all(
        best not in (edge[0], edge[-1]) for best, edge in zip(rates["uniform"], edges, strict=True)
    )
    assert rates["balanced_shares"] == (best["balanced_shares"], 1)
    study.main(path, "confirm", ["3"])
    confirmed = [row for row in study.read_rows(path) if row.part == "confirm"]
    assert {row.method: row.rates for row in confirmed} == rates
    assert all(row.bias >= 0 and row.lowest <= row.last for row in confirmed)
    # With M = N under IDL, every client has its share in every round.
    study.main(path, "tune_all", ["uniform", "deficit"])
    everybody = [row for row in study.read_rows(path) if row.part == "tune_all"]
    assert {row.method for row in everybody} == {"uniform", "deficit"}
    assert all(row.bias < 1e-6 and row.count_variance == 0 for row in everybody)


def test_a_server_rate_is_chosen_on_the_cells_of_its_grid(
    modules: tuple[ModuleType, ModuleType],
) -> None:
    study, summary = modules
    measured = dict.fromkeys(("last", "tail", "bias", "weight_variance", "count_variance"), 0.0)
    row = study.Row("tune", "11", "IDL", "md", 0.1, 1.0, 0, lowest=0.4, **measured)
    other = replace(row, part="tune_server")
    rows = [
        row,
        replace(row, data="15", lowest=0.1),  # not in the grid of the server rates
        replace(row, rate=0.2, lowest=0.5),
        replace(row, rate=0.2, data="15", lowest=0.5),
        *(
            replace(other, rate=0.1 * factor, server_rate=server, lowest=0.35 + 0.01 * factor)
            for factor, server in itertools.product((0.5, 1, 2), (0.5, 2.0))
        ),
    ]
    assert study.learning_rates(rows) == {"md": 0.1}
    assert study.chosen_rates(rows) == {"md": (0.05, 0.5)}  # the first of two equal ones
    assert study.chosen_rates(rows[:4]) == {"md": (0.1, 1)}
    assert summary.server_table(rows).splitlines()[2:] == [
        "| `md` | 0.5 | **0.355** | 0.360 | 0.370 |",
        "| `md` | 1 |  | 0.400 | 0.500 |",
        "| `md` | 2 | 0.355 | 0.360 | 0.370 |",
    ]


def test_every_setting_that_was_tried_runs_and_has_a_line_where_its_runs_are_complete(
    modules: tuple[ModuleType, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, summary = modules
    monkeypatch.setattr(study, "ROUNDS", 3)
    monkeypatch.setattr(study, "DESIGN_MODES", ("LN",))
    monkeypatch.setattr(study, "TUNING_FEDERATIONS", {"design": ("11",)})
    path = tmp_path / "rows.csv"
    study.main(path, "design", ["shares, shrunk"])
    first = path.read_bytes()
    study.main(path, "design", [])
    assert path.read_bytes().startswith(first)
    rows = study.read_rows(path)
    assert {row.method for row in rows} == set(study.SETTINGS)
    assert len(summary.design_table(rows, ["LN"], ["11"]).splitlines()) == 2 + len(study.SETTINGS)
    assert len(summary.design_table(rows[1:], ["LN"], ["11"]).splitlines()) == 1 + len(rows)


@pytest.mark.usefixtures("modules")
def test_a_recent_pair_is_apart_and_a_herd_follows_the_label_distribution() -> None:
    design = importlib.import_module("design")
    Apart, Herding = design.Apart, design.Herding
    labels = np.array([[8, 0], [8, 0], [0, 8], [0, 8]])
    clients = Clients(tuple("abcd"), np.full(4, 8), label_counts=labels)
    counts, rng = np.zeros(4, dtype=np.int64), np.random.default_rng(0)
    view = View(0, clients, np.arange(4), counts, 2, weighting_memory=Deficit().start(clients, 2))
    for cumulative in (True, False):
        mixed = Herding(cumulative=cumulative).select(view, rng).clients
        assert labels[mixed].sum(axis=0).tolist() == [8, 8]
    # "a" and "b" have had one round too much: the cohort of the others restores the labels.
    behind = {"deficit": np.array([-0.25, -0.25, 0.25, 0.25])}
    assert Herding().select(replace(view, weighting_memory=behind), rng).clients.tolist() == [2, 3]
    apart = Apart()
    memory = apart.start(clients)
    memory = apart.observe(memory, view, Outcome(np.array([0, 2]), np.full(2, 0.5)))
    assert memory["recency"][0, 2] == 1.0 and memory["recency"][0, 3] == 0.0
    for _ in range(8):  # without a recency all cohorts are equal, and ties are drawn
        assert apart.select(replace(view, memory=memory), rng).clients.tolist() != [0, 2]
    memory = apart.observe(memory, view, Outcome(np.array([1, 3]), np.full(2, 0.5)))
    assert memory["recency"][0, 2] == 0.5  # 1 - M/N


@pytest.mark.usefixtures("modules")
def test_the_least_bias_is_what_the_rate_of_the_largest_client_leaves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    feasible = importlib.import_module("feasible")
    clients = Clients(tuple("abcd"), np.array([70, 10, 10, 10]))
    bias, share, rate = feasible.least_bias(clients, "IDL", 200)
    assert (share, rate) == (0.7, 1.0) and bias < 0.01
    bias, share, rate = feasible.least_bias(clients, "LDF", 400)
    assert rate < 0.3 and bias == pytest.approx(share - rate, abs=0.06)
    monkeypatch.setattr(feasible, "ROUNDS", 5)
    feasible.main("3", ["LN", "YC"])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == ["LN", "YC"]


def test_the_tables_hold_differences_of_pairs_and_the_cells_that_miss_the_limit(
    modules: tuple[ModuleType, ModuleType], tmp_path: Path
) -> None:
    study, summary = modules
    numbers = {"last": 1.0, "tail": 1.0, "bias": 0.1, "weight_variance": 0.5, "count_variance": 2.0}
    row = study.Row("confirm", summary.PAPER, "IDL", "uniform", 0.1, 1.0, 0, lowest=0.5, **numbers)
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


def test_the_page_shows_the_stored_run_on_images() -> None:
    page = (ROOT / "docs" / "explanation" / "beyond-the-paper.md").read_text(encoding="utf-8")
    (run,), problems = read_runs(STORED.parent / "images")
    assert not problems
    losses = {r.round: r.test_loss for r in run.records if r.test_loss is not None}
    lowest, later = (f"{x:.3f}".lstrip("0") for x in (min(losses.values()), losses[200]))
    assert f"| `balanced_shares` | {lowest} | {later} |" in page


def test_the_grid_on_images_has_a_run_for_each_method_and_mode() -> None:
    configs = expand(read_config(FOLDER / "images.toml"), []).configs
    assert len(configs) == 18
