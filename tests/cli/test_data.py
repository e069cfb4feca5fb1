"""`fedgs data describe | export | verify`."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import typer
from tests.commands import fedgs
from typer.testing import CliRunner, Result

from fedgs.cli.data import describe, export_, verify
from fedgs.cli.run import run as run_command
from fedgs.data import Synthetic
from fedgs.errors import UserError

app = typer.Typer()
app.command("describe")(describe)
app.command("export")(export_)
app.command("verify")(verify)
run_app = typer.Typer()
run_app.command("run")(run_command)

SMALL = ("--set", "data.clients=4")
FINGERPRINT = Synthetic(clients=4).load().fingerprint


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_describe_prints_totals_labels_and_fingerprint() -> None:
    result = run("describe", *SMALL)
    assert result.exit_code == 0
    assert result.output.startswith("Synthetic(0.5, 0.5): 4 clients, ")
    assert FINGERPRINT in result.output
    assert len(result.output.split("client  ")[1].split("\n\n")[0].splitlines()) == 1 + 4


def test_a_grid_of_several_data_sets_is_refused_and_other_axes_are_not(tmp_path: Path) -> None:
    lines = ["flu,cold,age,ward", *(f"{k % 2},{k % 3 % 2},{k},{k % 4}" for k in range(40))]
    path = tmp_path / "wards.csv"
    path.write_text("\n".join(lines))
    table = [
        *("--set", "data=table", "--set", f"data.path={path}", "--set", "data.client=ward"),
        *("--set", "data.task=multilabel", "--set", "data.features=age"),
    ]
    kept = str(tmp_path / "kept.npz")
    for command in (["describe"], ["export", kept], ["verify", kept]):
        result = run(*command, *table, "--set", 'data.label=["flu", "cold"]')
        assert isinstance(result.exception, UserError)
        assert str(result.exception) == (
            "data.label must have one value for this command, got ['flu'] and ['cold'] of a grid; "
            "a list as one value is data.label=[[...]]"
        )
        assert run(*command, *table, "--set", 'data.label=[["flu", "cold"]]').exit_code == 0
    assert "2 targets" in run("describe", *table, "--set", 'data.label=[["flu", "cold"]]').output
    other = run("describe", *SMALL, "--set", "seed=[0, 1]", "--set", 'method=["md", "uniform"]')
    assert other.exit_code == 0
    for axes in ("data.seed=[0, 1]", 'data=["synthetic", "synthetic_clustered"]'):
        assert isinstance(run("describe", "--set", axes).exception, UserError)


def test_describe_as_json_has_every_client_and_nothing_else() -> None:
    result = run("describe", "--set", "data.clients=25", "--json")
    assert len(json.loads(result.stdout)["clients"]) == 25


def test_describe_shows_twenty_clients_or_all() -> None:
    assert "... and 5 more clients" in run("describe", "--set", "data.clients=25").output
    assert "more clients" not in run("describe", "--set", "data.clients=25", "--all").output


def test_the_bias_is_for_the_cohort_of_the_training_settings() -> None:
    assert (
        "uniform cohorts of 3 "
        in run("describe", *SMALL, "--set", "training.cohort_limit=3").output
    )


def test_describe_writes_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "labels.svg"
    assert f"Picture: {picture}" in run("describe", *SMALL, "--plot", str(picture)).output.replace(
        "\n", ""
    )
    assert picture.stat().st_size > 1000


@pytest.mark.parametrize("format_", ["npz", "leaf"])
def test_what_is_exported_is_verified_and_loads_back(format_: str, tmp_path: Path) -> None:
    out = str(tmp_path / ("kept.npz" if format_ == "npz" else "kept"))
    exported = run("export", out, *SMALL, "--format", format_)
    assert FINGERPRINT in exported.output
    assert run("verify", out, *SMALL).exit_code == 0
    name = "file" if format_ == "npz" else "leaf"
    assert (
        FINGERPRINT in run("describe", "--set", f"data={name}", "--set", f"data.path={out}").output
    )


def test_verify_names_the_first_difference_and_exits_with_one(tmp_path: Path) -> None:
    out = str(tmp_path / "kept.npz")
    run("export", out, *SMALL)
    result = run("verify", out, *SMALL, "--set", "data.seed=1")
    assert result.exit_code == 1
    assert "is not the federation of" in result.output
    assert "client 0 has" in result.output


def test_verify_takes_a_fingerprint() -> None:
    assert run("verify", FINGERPRINT[:12], *SMALL).exit_code == 0
    assert run("verify", "0" * 12, *SMALL).exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("describe", "--set", "data=file", "--set", "data.path=/nowhere/x.npz"),
            "data.path: no file",
        ),
        (("describe", "--set", "data.partition=iid"), "data.partition is not a setting"),
        (("verify", "12345"), "verify needs an exported .npz"),
        (("verify", "/nowhere/x.npz"), "data.path: no file"),
    ],
)
def test_bad_input_is_one_sentence_for_exit_code_two(
    arguments: tuple[str, ...], message: str
) -> None:
    result = run(*arguments)
    assert isinstance(result.exception, UserError)  # the main command turns it into exit code 2
    assert message in str(result.exception)


def test_a_partition_of_own_data_can_be_set_from_the_command_line(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "own.npz"
    np.savez(
        path, x=rng.normal(size=(200, 3)), y=np.arange(200) % 4, split=np.repeat([0, 2], [160, 40])
    )
    result = run(
        "describe",
        *("--set", "data=file"),
        *("--set", f"data.path={path}"),
        *("--set", "data.partition=dirichlet_over_classes"),
        *("--set", "data.partition.concentration=0.5"),
        *("--set", "data.clients=8"),
    )
    assert result.exit_code == 0
    assert "own: 8 clients, 128 training, 32 validation and 40 test examples" in result.output
    assert "total 0.5, 0.125 a class" in result.output


@pytest.mark.parametrize(
    ("arrays", "settings", "message"),
    [
        (
            {"x": np.full((4, 1, 2, 2), 200, dtype=np.uint8)},
            (),
            "x of type uint8 and shape .* must have a normalization",
        ),
        (
            {"x": np.full((4, 2, 2, 1), 200, dtype=np.uint8)},
            ("data.normalization={scale=255.0, mean=[0.5], sd=[0]}",),
            "sd must be above 0",
        ),
        (
            {"x": np.zeros((4, 2, 2, 3))},
            ("data.normalization={mean=[0,0,0], sd=[1,1,1]}",),
            r"np.moveaxis\(x, 3, 1\)",
        ),
        ({}, ("data.normalization=mnist",), "normalization must be a table"),
        ({}, ("data.classes=1",), "data.classes must be an integer above the largest label"),
        ({}, ("data.classes=0",), "data.classes should be greater than or equal to 1"),
        ({"y": np.array([0, 1, 0, 500])}, (), "confirm it with data.classes = 501"),
        (
            {"y": np.array([0, 1, np.inf, 1])},
            (),
            "as task 'classes' needs, got inf in row 2",
        ),
        ({"client": np.array([0, np.nan, 0, -1])}, (), "got nan in row 1"),
        (
            {"client": np.array(["a", "b", None, "c"], dtype=object)},
            (),
            "client must be an array of numbers or texts",
        ),
        ({"x": np.full((4, 2), 1e300)}, (), "must be within float32's range"),
    ],
)
def test_run_refuses_bad_data_before_anything_is_written(
    tmp_path: Path, arrays: dict[str, np.ndarray], settings: tuple[str, ...], message: str
) -> None:
    ended = CliRunner().invoke(run_app, arguments(tmp_path, arrays, settings))
    assert isinstance(ended.exception, UserError)
    assert re.search(message, str(ended.exception))
    assert not (tmp_path / "out").exists()


def arguments(
    folder: Path, arrays: dict[str, np.ndarray], settings: tuple[str, ...] = ()
) -> list[str]:
    """What follows `fedgs run` for four rows of which some arrays are changed."""
    plain = {"x": np.eye(4), "y": np.array([0, 1, 0, 1]), "client": np.array([0, 1, 0, -1])}
    np.savez(folder / "mine.npz", **{**plain, **arrays})  # type: ignore[arg-type]
    sets = (
        "data=file",
        f"data.path={folder / 'mine.npz'}",
        "method=uniform",
        "training.rounds=1",
        *settings,
    )
    return [
        "--out",
        str(folder / "out"),
        *(part for setting in sets for part in ("--set", setting)),
    ]


def test_the_exit_code_is_2_without_a_traceback(tmp_path: Path) -> None:
    refused = arguments(tmp_path, {"client": np.array([0, np.nan, 0, -1])})
    ended = fedgs(tmp_path, "run", *refused)
    assert ended.returncode == 2
    assert "got nan in row 1" in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "out").exists()
