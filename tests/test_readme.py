"""The README: Python blocks, files, and commands of first screen and table, in an empty folder."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for kind, text in FENCE.findall(README) if kind == language]


def commands() -> list[str]:
    """Every `fedgs ...` command: of console blocks, of the table, and of the text."""
    lines = [
        line[2:]
        for text in blocks("console")
        for line in text.splitlines()
        if line.startswith("$ ")
    ]
    commands = [line.split(" && ")[-1] for line in lines]
    commands += re.findall(r"`(fedgs [a-z][^`]*)`", README)
    commands += re.findall(r"^# \S+ +(fedgs run .*)$", README, re.MULTILINE)
    unique = [command for command in dict.fromkeys(commands) if command.startswith("fedgs ")]
    # Runs come before the commands that read them.
    return sorted(unique, key=lambda command: not command.startswith("fedgs run"))


def in_folder(folder: Path, command: list[str]) -> str:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("readme")
    for language in ("python", "toml"):
        for text in blocks(language):
            named = re.match(r"# (\S+\.(?:py|toml))", text)
            if named:
                (made / named[1]).write_text(text)
    return made


@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_python_block_runs(number: int, folder: Path) -> None:
    (folder / f"block{number}.py").write_text(blocks("python")[number])
    in_folder(folder, [sys.executable, f"block{number}.py"])


def images_are_here() -> bool:
    return Path("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz").is_file()


def test_commands_run(folder: Path) -> None:
    assert len(commands()) >= 8
    for command in commands():
        if "fashion_mnist" in command:
            continue  # the same command with few rounds is tested with the images
        in_folder(folder, [sys.executable, "-m", *shlex.split(command)])


def test_the_two_first_commands_are_the_installation_and_the_tests() -> None:
    first = [line for line in blocks("console")[0].splitlines() if line.startswith("$ ")]
    assert first == [
        '$ pip install -c constraints.txt -e ".[sim]" && fedgs run',
        '$ pip install -c constraints.txt -e ".[test]" && pytest',
    ]


@pytest.mark.long
@pytest.mark.skipif(not images_are_here(), reason="the FashionMNIST files are not on this machine")
def test_the_same_command_trains_on_fashion_mnist(tmp_path: Path) -> None:
    command = (
        "fedgs run --set data=fashion_mnist --set availability=YMF --set method=fedgs "
        "--set seed=0 --set training.rounds=2 --set training.local_steps=2 "
        "--set evaluation.every=1000"
    )
    out = in_folder(tmp_path, [sys.executable, "-m", *shlex.split(command)])
    assert "FashionMNIST, 100 clients, YMF 0.9: 1 method x 1 seed x 2 rounds" in out


def test_every_link_leads_somewhere() -> None:
    root = Path(__file__).parents[1]
    for page in [
        root / "README.md",
        root / "CONTRIBUTING.md",
        *sorted((root / "docs").rglob("*.md")),
    ]:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), (
                    f"{page.relative_to(root)} links to {target}"
                )
