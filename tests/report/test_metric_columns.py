"""Metrics in tables, targets, curves and the page, each by its own direction."""

import math
from pathlib import Path
from typing import Any

import pytest

from fedgs.cli.table import _target
from fedgs.errors import ConfigError
from fedgs.records import Record
from fedgs.report.history import curve
from fedgs.report.labels import labelled
from fedgs.report.metric_columns import best_and_last, better_of
from fedgs.report.page_data import page_data
from fedgs.report.run_view import Run
from fedgs.report.tables import comparison
from fedgs.report.targets import Target, rounds_to

DIRECTIONS = {"auc": "higher", "mean_absolute_error": "lower"}


def run(method: str, seed: int, values: list[tuple[float, float]], **changes: Any) -> Run:
    """Records with these AUCs and errors, one a round."""
    records = [
        Record(
            t,
            cohort=None if t == len(values) - 1 else [1],
            test_loss=1.0,
            test_metrics=dict(zip(DIRECTIONS, pair, strict=True)),
        )
        for t, pair in enumerate(values)
    ]
    config = {"method": {"name": method}, "seed": seed, "run": {"metrics": DIRECTIONS}}
    return Run(config, records, **changes)


RUNS = [
    run("md", 0, [(0.5, 9.0), (0.9, 2.0), (0.7, 3.0)]),
    run("md", 1, [(0.5, 9.0), (0.7, 4.0), (0.7, 4.0)]),
    run("uniform", 0, [(0.5, 9.0), (0.6, 1.0), (0.6, 5.0)]),
]


def cells(text: str) -> dict[str, list[str]]:
    """Label -> the cells of its row in CSV."""
    header, *rows = (line.split(",") for line in text.splitlines())
    return {name: [row[place] for row in rows] for place, name in enumerate(header)}


def test_best_and_last_values_follow_the_direction_of_each_metric() -> None:
    table = comparison(RUNS)
    csv = cells(table.csv())
    assert csv["method"] == ["md", "uniform"]  # of equal losses, by name
    assert [float(cell) for cell in csv["best_auc_mean"]] == pytest.approx([0.8, 0.6])
    assert [float(cell) for cell in csv["best_mean_absolute_error_mean"]] == [3.0, 1.0]
    assert [float(cell) for cell in csv["last_mean_absolute_error_mean"]] == [3.5, 5.0]
    assert float(csv["best_auc_sd"][0]) == pytest.approx(math.sqrt(0.02))
    assert csv["best_auc_seeds"] == ["2", "1"]
    (block,) = table.blocks
    titles = [column.title for column in table.columns]
    marks = {row[0].text: dict(zip(titles, [cell.mark for cell in row], strict=True))
             for row in block.rows}  # fmt: skip
    assert marks["md"]["highest auc"] == "best" and marks["uniform"]["highest auc"] == ""
    assert marks["uniform"]["lowest mean_absolute_error"] == "best"


def test_tables_of_runs_without_metrics_have_no_such_columns() -> None:
    plain = [Run({"method": {"name": "md"}}, [Record(0, test_loss=0.5)])]
    assert "auc" not in comparison(plain).csv() and better_of(plain) == {}


def test_values_that_are_not_finite_are_left_out() -> None:
    broken = run("md", 0, [(0.5, 9.0), (math.nan, math.inf)])
    assert best_and_last(broken, "auc", 1) == (0.5, 0.5)
    assert best_and_last(Run({}, ()), "auc", 1) is None


def test_a_target_of_a_metric_is_reached_by_its_direction() -> None:
    reached = run("md", 0, [(0.5, 9.0), (0.8, 3.0), (0.9, 2.0)])
    assert rounds_to(reached, Target(0.8, "test_auc", "higher")) == 1
    assert rounds_to(reached, Target(3.0, "test_mean_absolute_error", "lower")) == 1
    assert rounds_to(reached, Target(0.95, "test_auc", "higher")) is None
    assert Target(0.8, "test_auc", "higher").title == "rounds to test auc .800"
    with pytest.raises(ConfigError, match="or that of a metric with the direction `better`"):
        Target(0.8, "test_auc")


def test_the_command_line_names_a_target_by_the_metric() -> None:
    target = _target(RUNS, None, None, "mean_absolute_error=2.5")
    assert target == Target(2.5, "test_mean_absolute_error", "lower")
    for given in ("f1=0.5", "auc", "auc=high", "auc=nan"):
        with pytest.raises(ConfigError, match=r"metric of the runs \(auc, mean_absolute_error\)"):
            _target(RUNS, None, None, given)
    with pytest.raises(ConfigError, match="exclude each other"):
        _target(RUNS, 0.5, None, "auc=0.5")


def test_curves_and_the_page_hold_metrics() -> None:
    drawn = curve(RUNS[:2], "test_auc")
    assert drawn.mean.tolist() == pytest.approx([0.5, 0.8, 0.7])
    page = page_data(labelled(RUNS), [])
    (group,) = page["groups"]  # type: ignore[misc]
    assert {"test_loss", "test_auc", "test_mean_absolute_error"} == set(group["curves"])


def test_loss_curves_draw_a_metric_that_runs_have(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from fedgs.report.figures import loss_curves

    drawing = loss_curves(labelled(RUNS), figure="test_auc")
    assert drawing.axes[0].get_ylabel() == "test auc"
    with pytest.raises(ConfigError, match="'test_auc', 'test_mean_absolute_error'; got 'test_f1'"):
        loss_curves(labelled(RUNS), figure="test_f1")


def validated() -> Run:
    """A run whose AUC was computed on validation parts, too."""
    records = [
        Record(t, test_loss=1.0, test_metrics={"auc": 0.5}, valid_metrics={"auc": value})
        for t, value in enumerate((0.6, 0.9, 0.95))
    ]
    about = {"metrics": {"auc": "higher"}, "metric_ranges": {"auc": [0.0, 1.0]}}
    return Run({"method": {"name": "md"}, "seed": 0, "run": about}, records)


def test_metrics_of_validation_parts_have_columns_targets_and_curves() -> None:
    csv = cells(comparison([validated()], target=Target(0.9, "valid_auc", "higher")).csv())
    assert csv["best_valid_auc_mean"] == ["0.95"] and csv["best_auc_mean"] == ["0.5"]
    assert float(csv["rounds_to_target_median"][0]) == 1
    assert Target(0.9, "valid_auc", "higher").title == "rounds to validation auc .900"
    assert "best_valid_auc_mean" not in comparison(RUNS).csv()
    (group,) = page_data(labelled([validated()]), [])["groups"]  # type: ignore[misc]
    assert {"test_loss", "test_auc", "valid_auc"} == set(group["curves"])


def test_targets_of_the_command_line_are_in_range_and_of_the_runs() -> None:
    runs = [validated()]
    assert _target(runs, None, None, "valid_auc=0.9") == Target(0.9, "valid_auc", "higher")
    assert _target(runs, None, None, "", valid_loss=0.5) == Target(0.5, "valid_loss")
    with pytest.raises(ConfigError, match="must be at least 0 and at most 1 for 'auc', got 7"):
        _target(runs, None, None, "auc=7")
    with pytest.raises(ConfigError, match="names 'valid_auc', which no run has a value of"):
        _target(RUNS, None, None, "valid_auc=0.5")
    with pytest.raises(ConfigError, match="exclude each other"):
        _target(runs, 0.5, None, "", valid_loss=0.5)
