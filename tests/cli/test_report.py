"""`fedgs report`: one page in one file."""

from pathlib import Path
from typing import Any

import pytest
import typer
from tests.report import folders
from typer.testing import CliRunner

from fedgs.cli.report import report
from fedgs.cli.table import table

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


def test_report_writes_one_file_that_the_next_reading_does_not_mind(study: Path) -> None:
    result = invoke("report", study)
    assert result.stdout.startswith(f"{study / 'report.html'}: 4 runs, ")
    assert (study / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert invoke("table", study).stderr == "holiday: not a run's folder (no config.toml)\n"


def test_report_goes_where_it_is_asked_to(study: Path, tmp_path: Path) -> None:
    invoke("report", study, "--out", tmp_path / "new" / "page.html")
    assert (tmp_path / "new" / "page.html").stat().st_size > 4_000_000
