"""The page on exports runs: its Python blocks and its commands, with the printed lines."""

import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from fedgs import listeners
from fedgs.cli.export import export
from fedgs.export import TARGETS
from fedgs.export.rows import METRICS, TYPES

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "export.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for kind, text in FENCE.findall(PAGE) if kind == language]


@pytest.mark.filterwarnings("ignore")  # of the libraries
def test_the_python_blocks_and_the_commands_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for target in TARGETS.values():
        if target.needs:
            pytest.importorskip(target.needs, exc_type=ImportError)
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(listeners, "_listeners", {})  # the page registers a function
    names: dict[str, object] = {}
    for number, text in enumerate(blocks("python")):
        exec(compile(text, f"block {number}", "exec"), names)
    assert "Name: test_loss" in capsys.readouterr().out
    app = typer.Typer()
    app.command("export")(export)
    done: list[str] = []
    for text in blocks("console"):
        for line in text.splitlines():
            if line.startswith("$ "):
                assert done == []
                result = CliRunner().invoke(app, shlex.split(line)[3:], catch_exceptions=False)
                assert result.exit_code == 0, result.output
                done = result.stdout.splitlines()
            else:
                assert done.pop(0) == line.replace("/home/me", str(tmp_path))
    assert done == []


def test_the_page_names_every_tool_and_metric() -> None:
    for name in TARGETS:
        assert f"--to {name}" in PAGE
    for name in ("cohort_size", *METRICS):
        assert f"`{name}`" in PAGE
    assert f"| `round`, `available`, ..., `{list(TYPES)[-1]}` |" in PAGE
