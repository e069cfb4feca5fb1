import csv
import io

import numpy as np
import pytest
from tests.report.material import run

from fedgs.report.run_view import Run
from fedgs.report.table import Block, Cell, Column, Table
from fedgs.report.tables import ALL_FIGURES, comparison


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


def test_a_block_without_keys_has_no_title() -> None:
    columns = (Column("method", numeric=False), Column("loss"))
    table = Table("Losses", columns, (Block((), ((Cell("md"), Cell("-.5")),)),))
    assert table.latex().splitlines() == [
        "% Losses",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"method & loss \\",
        r"\midrule",
        r"md & $-$.5 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]
    assert table.markdown().startswith("| method | loss |\n|---|---:|\n| md | -.5 |\n")


def test_hyphens_in_words_are_no_minus_signs_in_latex() -> None:
    table = Table("T", (Column("a"),), (Block((), ((Cell("FedGS-2 -3 a_b"),),)),))
    assert r"FedGS-2 $-$3 a\_b \\" in table.latex()


def test_a_table_that_is_wider_than_the_terminal_is_written_in_parts(
    three_seeds: list[Run],
) -> None:
    table = comparison(three_seeds, figures=ALL_FIGURES)
    whole, narrow = table.text(), table.text(60)
    assert max(map(len, whole.splitlines())) > 100
    assert max(map(len, narrow.splitlines())) <= 60
    assert sum(line.startswith("method") for line in narrow.splitlines()) > 1
    for words in (whole.split(), narrow.split()):
        assert {"fedgs", ".330", "variance", "interval"} <= set(words)
    assert table.text(400) == whole


def test_columns_with_a_meaning_are_explained_in_every_form() -> None:
    columns = (
        Column("method", numeric=False),
        Column("h", meaning="the height"),
        Column("w", shown=False, meaning="the width"),
    )
    table = Table("T", columns, (Block((), ((Cell("md"), Cell("1"), Cell("2")),)),))
    for text in (table.text(), table.markdown(), table.latex()):
        assert text.rstrip().endswith("h: the height.") and "the width" not in text
