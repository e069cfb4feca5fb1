"""The page on tables, figures and the report runs: its Python blocks and its commands."""

import re
import shlex
from pathlib import Path

import pytest
import typer
from tests.report import folders
from typer.testing import CliRunner

from fedgs.cli.figures import figures as figures_command
from fedgs.cli.report import report
from fedgs.cli.table import table
from fedgs.report import figures

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "report.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for kind, text in FENCE.findall(PAGE) if kind == language]


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folders.write_study(tmp_path / "fedgs-runs", methods=("uniform", "fedgs"), seeds=2)
    folders.write_run(tmp_path / "fedgs-runs", "uniform", 0, availability__name="MDF")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.long
def test_the_python_blocks_run_in_order_and_write_what_they_name(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, object] = {}
    for number, text in enumerate(blocks("python")):
        exec(compile(text, f"block {number}", "exec"), names)
    assert "vs uniform [95 %]" in capsys.readouterr().out
    for name, suffix in re.findall(r'"figures/([\w-]+)(\.pdf)?"\)', PAGE):
        forms = [suffix] if suffix else [".pdf", ".png"]
        for form in forms:
            assert (study / "figures" / f"{name}{form}").stat().st_size > 1000, name
    assert not (study / "figures" / "counts.png").exists()


def test_every_function_for_figures_is_on_the_page_with_an_example() -> None:
    examples = "".join(blocks("python"))
    for name in figures.__all__:
        assert f"{name}(" in examples, name


@pytest.mark.long
def test_the_commands_run(study: Path) -> None:
    app = typer.Typer()
    app.command("table")(table)
    app.command("report")(report)
    app.command("figures")(figures_command)
    commands = [
        line[2:]
        for text in blocks("console")
        for line in text.splitlines()
        if line.startswith("$ ")
    ]
    assert len(commands) == 3
    for command in commands:
        done = CliRunner().invoke(app, shlex.split(command)[1:], catch_exceptions=False)
        assert done.exit_code == 0, command
