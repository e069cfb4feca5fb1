"""`fedgs reproduce` as a user meets it."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from fedgs.cli.common import exit_codes
from fedgs.cli.reproduce import reproduce
from fedgs.data import export
from fedgs.data.federation import Federation

FAST = ["--rounds", "3", "--seeds", "2", "--modes", "LDF", "--workers", "1"]
FAST += ["--set", "training.proportion=0.4", "--set", "training.local_steps=2"]


@pytest.fixture(scope="module")
def toy_file(toy_federation: Federation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(toy_federation, tmp_path_factory.mktemp("data") / "toy.npz")


def fedgs(*arguments: object) -> Result:
    """The command with the exit codes of `fedgs`; its messages are part of the output."""
    app = typer.Typer()
    app.command("reproduce")(reproduce)

    @app.callback()
    def with_exit_codes(context: typer.Context) -> None:
        context.with_resource(exit_codes())

    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


def test_a_table_is_printed_written_and_not_trained_twice(toy_file: Path, tmp_path: Path) -> None:
    command = [
        "table2",
        "--data",
        toy_file,
        *FAST,
        "--methods",
        "uniform,fedgs-1",
        "--out",
        tmp_path / "paper",
    ]
    done = fedgs(*command)
    assert done.exit_code == 0, done.output
    assert "Table 2: lowest test loss, toy" in done.output and "LDF 0.7: fedgs 1 is " in done.output
    assert "4 runs  3/3" in done.output
    again = fedgs(*command)
    assert "already complete" in again.output and "all" in again.output
    page = fedgs("document", "--out", tmp_path / "paper")
    assert page.exit_code == 0
    text = (tmp_path / "paper" / "reproduction.md").read_text()
    assert (
        "`fedgs reproduce table2 --data toy.npz --modes LDF --methods uniform,fedgs-1 --rounds 3"
        in " ".join(text.split())
    )
    assert str(tmp_path) not in text and str(toy_file.parent) not in text, (
        "the page does not say where files lie"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table5"], "NAME must be one of table1"),
        (["table2", "--data", "nowhere.npz"], "there is no file 'nowhere.npz'"),
        (["table2", "--modes", "LFD"], "did you mean 'LDF'?"),
        (["table2", "--seeds", "many"], "--seeds must be how many (3) or which (0,1,2)"),
        (["table2", "--scale", "huge"], "--scale must be cohort or paper"),
        (["theorem1", "--rounds", "3"], "--rounds means nothing for theorem1; it takes --seeds"),
        (["gamma", "--ours"], "--ours means nothing for gamma"),
        (["table2", "--set", "nonsense"], "--set takes KEY=VALUE"),
        (["document", "--out", "nowhere"], "'nowhere' is not a folder"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = fedgs(*arguments)
    assert done.exit_code == 2 and message in done.output, done.output
    assert "Traceback" not in done.output and list(tmp_path.iterdir()) == []


def test_missing_images_are_one_sentence_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(b"not gzip")
    for name in (
        "train-labels-idx1-ubyte.gz",
        "t10k-images-idx3-ubyte.gz",
        "t10k-labels-idx1-ubyte.gz",
    ):
        (tmp_path / name).write_bytes(b"not gzip")
    before = sorted(path.name for path in tmp_path.iterdir())
    for name in ("fig7", "table2"):
        done = fedgs(name, "--data", "fashion_mnist", "--data-dir", tmp_path)
        assert done.exit_code == 2 and "train-images-idx3-ubyte.gz" in done.output, done.output
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_failed_run_ends_the_command_with_code_1_after_the_tables(
    toy_file: Path, tmp_path: Path
) -> None:
    options = [
        "--rounds",
        "2",
        "--seeds",
        "1",
        "--modes",
        "LDF",
        "--workers",
        "1",
        "--methods",
        "md",
    ]
    done = fedgs(
        "table2",
        "--data",
        toy_file,
        *options,
        "--set",
        "training.learning_rate=1e38",
        "--out",
        tmp_path / "out",
    )
    assert done.exit_code == 1, done.output
    assert "Table 2: lowest test loss, toy" in done.output and "Written to " in done.output
    assert "seed 0 failed in round 0, client 'site-" in done.output


def test_records_that_cannot_be_read_are_named(toy_file: Path, tmp_path: Path) -> None:
    assert fedgs("gamma", "--data", toy_file, "--out", tmp_path / "out").exit_code == 0
    (tmp_path / "out" / "notes.json").write_text("{}")
    done = fedgs("document", "--out", tmp_path / "out")
    assert done.exit_code == 0 and "notes.json: not the manifest of an experiment" in done.output
