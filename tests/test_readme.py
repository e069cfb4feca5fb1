"""The README: Python blocks, files, and commands of first screen and table, in an empty folder."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from tests.commands import Done, fedgs, python

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for kind, text in FENCE.findall(README) if kind == language]


def commands() -> list[str]:
    """Every `fedgs ...` command: of shell blocks, of the table, and of the text."""
    lines = [line for text in blocks("sh") for line in joined(text).splitlines()]
    commands = [line.split(" && ")[-1] for line in lines]
    commands += re.findall(r"`(fedgs [a-z][^`]*)`", README)
    commands += re.findall(r"^# \S+ +(fedgs run .*)$", README, re.MULTILINE)
    unique = [command for command in dict.fromkeys(commands) if command.startswith("fedgs ")]
    # Runs come before the commands that read them.
    return sorted(unique, key=lambda command: not command.startswith("fedgs run"))


def joined(text: str) -> str:
    """A shell block with each command in one line."""
    return re.sub(r" \\\n +", " ", text)


def output(done: Done) -> str:
    assert done.returncode == 0, f"{done.args}: {done.stdout}\n{done.stderr}"
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
    output(python(folder, f"block{number}.py"))


def images_are_here() -> bool:
    return Path("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz").is_file()


def test_commands_run(folder: Path) -> None:
    assert len(commands()) >= 8
    for command in commands():
        if "fashion_mnist" in command:
            continue  # the same command with few rounds is tested with the images
        if command == MAIN:
            continue  # it has a test of its own
        output(fedgs(folder, *shlex.split(command)[1:]))


PREPARE = (
    "git clone https://github.com/OWNER/fedgs.git fedgs && cd fedgs"
    " && python3 -m venv .venv && . .venv/bin/activate"
    " && pip install -c constraints.txt torch --index-url https://download.pytorch.org/whl/cpu"
)
MAIN = "fedgs run --set availability=YMF --set training.rounds=1000"


def test_the_two_first_commands_are_the_main_job_and_the_tests_on_a_fresh_machine() -> None:
    assert [joined(text).strip() for text in blocks("sh")[:2]] == [
        f'{PREPARE} && pip install -c constraints.txt -e ".[sim,report]" && {MAIN}',
        f'{PREPARE} && pip install -c constraints.txt -e ".[test]" && pytest',
    ]


def test_ci_finds_the_command_that_runs_the_tests() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (expression,) = re.findall(r"sed -n '(s/.*)' README.md", script)
    found = subprocess.run(
        ["sed", "-n", expression, str(ROOT / "README.md")], capture_output=True, text=True
    )
    assert found.stdout == 'pip install -c constraints.txt -e ".[test]" && pytest\n'


def rows(table: str) -> dict[str, tuple[float, float]]:
    """Method -> (lowest test loss, count variance) of a printed table."""
    found = re.findall(r"^(\w+) +(\.\d+) ± .* (\d+\.\d)$", table, re.MULTILINE)
    return {name: (float(loss), float(variance)) for name, loss, variance in found}


@pytest.fixture(scope="module")
def main_job(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder in which the main job ran, and what it printed."""
    made = tmp_path_factory.mktemp("main")
    return made, output(fedgs(made, *shlex.split(MAIN)[1:]))


def test_the_main_job_prints_the_table_of_the_first_screen(main_job: tuple[Path, str]) -> None:
    printed, shown = rows(main_job[1]), rows(blocks("text")[0])
    assert next(iter(shown)) == "fedgs" and len(shown) == 5
    assert list(printed) == list(shown)
    for name, (loss, variance) in shown.items():
        # Last digits of sums may differ between processors, and 15,000 rounds carry them along.
        assert printed[name][0] == pytest.approx(loss, abs=0.003)
        assert printed[name][1] == pytest.approx(variance, rel=0.02)


def test_the_lines_below_the_table_are_those_that_the_main_job_prints(
    main_job: tuple[Path, str],
) -> None:
    printed, shown = (
        text.strip().split("power_of_choice ")[1].splitlines()[1:]
        for text in (main_job[1], blocks("text")[0])
    )
    assert printed == shown and len(shown) == 5


def test_the_tutorial_shows_the_same_table() -> None:
    tutorial = (ROOT / "docs" / "tutorial" / "first-study.md").read_text(encoding="utf-8")
    assert f"$ {MAIN}\n{blocks('text')[0]}" in tutorial


def test_the_picture_is_made_by_the_command_beside_it(main_job: tuple[Path, str]) -> None:
    folder, _ = main_job
    (command,) = re.findall(r"`python (examples/\S+ fedgs-runs docs/\S+)`", README)
    program, runs, picture = command.split()
    assert f"]({picture})" in README and (ROOT / picture).is_file()
    (folder / picture).parent.mkdir(parents=True, exist_ok=True)
    output(python(folder, ROOT / program, runs, picture))
    assert (folder / picture).read_bytes().startswith(b"\x89PNG")


def test_no_address_points_at_this_machine() -> None:
    assert not re.search(r"file://|localhost|127\.0\.0\.1|/home/|/root/|/work/", README)


@pytest.mark.long
@pytest.mark.skipif(not images_are_here(), reason="the FashionMNIST files are not on this machine")
def test_the_same_command_trains_on_fashion_mnist(tmp_path: Path) -> None:
    command = (
        "fedgs run --set data=fashion_mnist --set availability=YMF --set method=fedgs "
        "--set seed=0 --set training.rounds=2 --set training.local_steps=2 "
        "--set evaluation.every=1000"
    )
    out = output(fedgs(tmp_path, *shlex.split(command)[1:]))
    assert "FashionMNIST, 100 clients, YMF 0.9: 1 method x 1 seed x 2 rounds" in out


def test_every_link_leads_somewhere() -> None:
    for page in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]:
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)#\s]+)", text):
            if "://" not in target:
                assert (page.parent / target).exists(), (
                    f"{page.relative_to(ROOT)} links to {target}"
                )
