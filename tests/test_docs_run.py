"""Python and shell blocks of the documentation run, in their order, page by page.

A block that is not run has a comment `<!-- not run: REASON -->` before it, which readers of the
page do not see; `NOT_RUN` lists them. Files that a page shows (`# name.py` in the first line) lie
in the folder that the page runs in.
"""

import os
import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from tests import commands

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

# Page -> the reasons of its blocks that are not run.
NOT_RUN = {
    "examples.md": {
        "downloads CIFAR10",
        "is the program of the command above",
        "takes longer than a minute",
    },
    "explanation/beyond-the-paper.md": {"takes longer than a minute"},
    "explanation/published-results.md": {"takes longer than a minute"},
    "explanation/realistic-availability.md": {"takes longer than a minute"},
    "how-to/a-million-clients.md": {"takes longer than a minute"},
    "how-to/flower.md": {
        "installs packages",
        "needs a running deployment",
        "runs in scripts/flower-faults, case tls",
        "starts a node of a deployment",
    },
    "how-to/scale-out.md": {"needs a cluster", "takes longer than a minute"},
    "how-to/use-a-trace.md": {"downloads files"},
    "how-to/write-a-loss.md": {"needs torchmetrics"},
    "reference/models.md": {"needs a file of weights", "needs stored runs"},
    "tutorial/first-study.md": {"installs packages"},
}
# Page -> the test that runs it with runs of its own.
ELSEWHERE = {
    "how-to/export.md": "tests/export/test_howto.py",
    "how-to/report.md": "tests/report/test_howto.py",
}

FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+) -->\n)?```(?P<kind>\w*)[^\n]*\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
KINDS = {"python": "python", "sh": "shell", "console": "shell"}


class Block(NamedTuple):
    """A block of a page: "python" or "shell", and why it is not run, if so."""

    kind: str
    text: str
    reason: str | None


def blocks(page: str) -> list[Block]:
    found = FENCE.finditer((DOCS / page).read_text(encoding="utf-8"))
    return [
        Block(KINDS[fence["kind"]], typed(fence["kind"], fence["text"]), fence["reason"])
        for fence in found
        if fence["kind"] in KINDS
    ]


def typed(kind: str, text: str) -> str:
    """The commands of a console block, without what they print; other blocks as they are."""
    if kind != "console":
        return text
    lines = [line for line in text.splitlines() if line.startswith(("$ ", "    --"))]
    return "\n".join(line.removeprefix("$ ") for line in lines)


def source(text: str) -> str:
    """The code of a block, without prompts and results."""
    lines = text.splitlines()
    typed = [line[4:] for line in lines if line.startswith((">>> ", "... "))]
    return "\n".join(typed or lines) + "\n"


def write_files(page: str, folder: Path) -> None:
    for fence in FENCE.finditer((DOCS / page).read_text(encoding="utf-8")):
        code = source(fence["text"])
        if named := re.match(r"# (\S+\.(?:py|toml))\n", code):
            (folder / named[1]).write_text(code)


def pages(*, with_commands: bool) -> list[str]:
    found = []
    for path in sorted(DOCS.rglob("*.md")):
        page = path.relative_to(DOCS).as_posix()
        kinds = {block.kind for block in blocks(page) if block.reason is None}
        if kinds and page not in ELSEWHERE and ("shell" in kinds) == with_commands:
            found.append(page)
    return found


def run_page(page: str, folder: Path) -> None:
    write_files(page, folder)
    for name in ("examples", "docs"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "bin").mkdir()
    for name, arguments in (("fedgs", " -m fedgs"), ("python", "")):
        program = folder / "bin" / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}"{arguments} "$@"\n')
        program.chmod(0o755)
    done = commands.page(
        folder,
        [(kind, text) for kind, text, reason in blocks(page) if reason is None],
        PATH=f"{folder / 'bin'}:{os.environ['PATH']}",
        PYTHONPATH=f"{ROOT / 'src'}:{folder}",
    )
    assert done.returncode == 0, f"{page}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


@pytest.mark.parametrize("page", pages(with_commands=False))
def test_the_python_blocks_of_a_page_run(page: str, tmp_path: Path) -> None:
    run_page(page, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("page", pages(with_commands=True))
def test_the_commands_and_python_blocks_of_a_page_run(page: str, tmp_path: Path) -> None:
    run_page(page, tmp_path)


def test_blocks_that_are_not_run_are_listed_with_their_reasons() -> None:
    found: dict[str, set[str]] = {}
    for path in sorted(DOCS.rglob("*.md")):
        page = path.relative_to(DOCS).as_posix()
        if reasons := {block.reason for block in blocks(page) if block.reason is not None}:
            found[page] = reasons
    assert found == NOT_RUN


def test_every_comment_that_excludes_a_block_stands_before_one() -> None:
    for path in sorted(DOCS.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        excluded = sum(fence["reason"] is not None for fence in FENCE.finditer(text))
        assert text.count("<!-- not run:") == excluded, path.relative_to(ROOT)


def test_pages_that_run_elsewhere_have_a_test_there() -> None:
    for page, test in ELSEWHERE.items():
        assert Path(page).name in (ROOT / test).read_text(encoding="utf-8")


def test_no_command_hides_in_an_indented_block() -> None:
    for path in sorted(DOCS.rglob("*.md")):
        text = FENCE.sub("", path.read_text(encoding="utf-8"))
        assert not re.findall(r"^    (?:\$ )?(?:fedgs|python|pip) .*$", text, re.MULTILINE), path
