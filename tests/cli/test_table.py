"""`fedgs table`: the comparison of methods in its forms."""

import csv
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.report import folders
from typer.testing import CliRunner

from fedgs.cli.report import report
from fedgs.cli.table import table
from fedgs.errors import ConfigError, OutputError

app = typer.Typer()
app.command("table")(table)
app.command("report")(report)


def invoke(*words: object) -> Any:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0
    return result


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = folders.write_study(
        tmp_path_factory.mktemp("study"), methods=("uniform", "fedgs"), seeds=2
    )
    (out / "holiday").mkdir()
    return out


def test_table_prints_the_table_and_what_could_not_be_read(study: Path) -> None:
    result = invoke("table", study)
    assert result.stdout.splitlines()[1].startswith("fedgs ")
    assert "vs uniform [95 %]" in result.stdout
    assert result.stderr == "holiday: not a run's folder (no config.toml)\n"


@pytest.mark.parametrize(
    ("form", "start"),
    [("markdown", "**Synthetic"), ("csv", "data,availability,method"), ("latex", "% Methods")],
)
def test_table_has_other_forms(study: Path, form: str, start: str) -> None:
    assert invoke("table", study, "--format", form).stdout.startswith(start)


def test_table_can_be_written_to_a_file_and_is_the_same_each_time(
    study: Path, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        assert (
            invoke("table", study, "--format", "csv", "--out", tmp_path / name / "t.csv").stdout
            == ""
        )
    first, second = ((tmp_path / name / "t.csv").read_bytes() for name in ("a", "b"))
    assert first == second
    assert [row["method"] for row in csv.DictReader(first.decode().splitlines())] == [
        "fedgs",
        "uniform",
    ]


def test_table_against_another_method(study: Path) -> None:
    assert "vs fedgs [95 %]" in invoke("table", study, "--against", "fedgs").stdout
    with pytest.raises(
        OutputError, match="against must be one of the methods 'fedgs', 'uniform'; got 'fedavg'"
    ):
        invoke("table", study, "--against", "fedavg")


def test_table_has_the_rounds_to_a_target(study: Path) -> None:
    assert "rounds to test loss 9.000" in invoke("table", study, "--target-loss", 9).stdout
    printed = invoke("table", study, "--target-accuracy", "0", "--format", "csv").stdout
    rows = list(csv.DictReader(printed.splitlines()))
    assert [(row["rounds_to_target_median"], row["reached"]) for row in rows] == [("0.0", "2")] * 2
    with pytest.raises(ConfigError, match="--target-loss, .* exclude each other"):
        invoke("table", study, "--target-loss", 1, "--target-accuracy", 0.5)


def test_hours_need_a_clock_and_an_accuracy_is_a_share(study: Path) -> None:
    for words, message in (
        (("--at-hours", "1"), r"--at-hours needs runs with a clock, .*; got '1'"),
        (("--target-accuracy", "5"), r"test accuracy must be in \[0, 1\], a share, got 5"),
    ):
        with pytest.raises(ConfigError, match=message):
            invoke("table", study, *words)
