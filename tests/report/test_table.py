import csv
import io

import numpy as np
import pytest
from tests.report.material import run

from fedgs.report.run_view import Run
from fedgs.report.tables import comparison


def test_csv_holds_every_figure_at_full_precision(three_seeds: list[Run]) -> None:
    rows = list(csv.DictReader(io.StringIO(comparison(three_seeds).csv())))
    assert [row["method"] for row in rows] == ["fedgs", "md", "uniform"]
    assert float(rows[0]["test_loss_mean"]) == np.mean([0.32, 0.335, 0.335])
    assert float(rows[0]["final_accuracy_mean"]) == pytest.approx(0.67)
    assert rows[2]["difference_low"] == ""


def test_latex_escapes_and_marks(three_seeds: list[Run]) -> None:
    text = comparison([*three_seeds, run("power_of_choice", 0, 0.5)]).latex()
    assert r"power\_of\_choice" in text
    assert r"fedgs & \textbf{.330 $\pm$ .009} & $-$.030 [$-$.042, $-$.018]" in text
    assert r"md & \underline{.353 $\pm$ .012}" in text


def test_markdown_marks_and_says_what_marks_mean(three_seeds: list[Run]) -> None:
    text = comparison(three_seeds).markdown()
    assert "| fedgs | **.330 ± .009** | -.030 [-.042, -.018] |" in text
    assert "Bold: best, italics: second best of the column." in text


def test_text_keeps_digits_of_a_column_below_each_other(three_seeds: list[Run]) -> None:
    lines = str(comparison(three_seeds)).splitlines()
    assert {line.index("±") for line in lines if "±" in line} == {lines[1].index("±")}
    assert lines[1].startswith("fedgs ")
    assert ".330 ± .009*" in lines[1]
