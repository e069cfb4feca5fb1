"""The page on exports runs: its Python blocks and its commands, with the printed lines."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedgs import listeners
from fedgs.export import TARGETS
from fedgs.export.rows import METRICS, TYPES

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "export.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for kind, text in FENCE.findall(PAGE) if kind == language]


def commands() -> Iterator[tuple[list[str], list[str]]]:
    """The commands of the console blocks, and the lines that the page says they print."""
    for text in blocks("console"):
        for part in text.split("$ ")[1:]:
            command, *printed = part.splitlines()
            yield shlex.split(command), printed


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
    for text in blocks("python"):
        if named := re.match(r"# (\S+\.py)\n", text):
            (tmp_path / named[1]).write_text(text)
    for command, printed in commands():
        done = subprocess.run(
            [sys.executable, "-m", *command], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        lines = done.stdout.replace(str(tmp_path), "/home/me").splitlines()
        assert not printed or lines == printed
    assert "uniform 0 3 " in done.stdout  # of the plug-in, in the last block


def test_the_page_names_every_tool_and_metric() -> None:
    for name in TARGETS:
        assert f"--to {name}" in PAGE
    for name in ("cohort_size", *METRICS):
        assert f"`{name}`" in PAGE
    assert f"| `round`, `available`, ..., `{list(TYPES)[-1]}` |" in PAGE
