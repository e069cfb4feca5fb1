"""`fedgs trace convert | stats | fetch`, and what `data describe` says of a trace."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from fedgs.cli.data import describe
from fedgs.cli.trace import convert, fetch, stats
from fedgs.errors import ConfigError, DataError
from fedgs.traces import DAY, read_traces, write_traces

app = typer.Typer()
app.command("convert")(convert)
app.command("stats")(stats)
app.command("fetch")(fetch)
app.command("describe")(describe)

FLASH = json.dumps({"a": {"messages": "2020-01-28 10:00:00\twifi\nx\n2020-01-28 11:00:00\t4g\n"}})


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)


def write(path: Path) -> Path:
    path.write_text("device,on,off\na,0,60\n")
    return path


def converted(folder: Path) -> Path:
    run("convert", write(folder / "a.csv"), folder / "a.npz")
    return folder / "a.npz"


@pytest.fixture
def phones(tmp_path: Path) -> Path:
    lines = [f"phone-{d},{d * 900},{DAY + d}" for d in range(40)]
    (tmp_path / "phones.csv").write_text("\n".join(["device,on,off", "phone-3,0,60", *lines]))
    return tmp_path / "phones.csv"


def test_convert_writes_what_the_mode_reads(phones: Path, tmp_path: Path) -> None:
    result = run("convert", phones, tmp_path / "phones.npz")
    assert "40 devices, 41 intervals\n" in result.output
    assert f"Written: {tmp_path}/phones.npz" in result.output
    assert len(read_traces(tmp_path / "phones.npz")) == 40


def test_convert_takes_a_form_and_a_rule_and_tells_repairs(tmp_path: Path) -> None:
    (tmp_path / "states").write_text(FLASH)
    result = run(
        "convert", tmp_path / "states", tmp_path / "a.npz", "--from", "flash", "--rule", "wifi"
    )
    assert "rule            wifi\n" in result.output
    assert "repaired        1 malformed\n" in result.output
    assert read_traces(tmp_path / "a.npz").on.tolist() == [36_000]


def test_nothing_is_written_where_something_is_wrong(phones: Path, tmp_path: Path) -> None:
    for arguments, error, message in (
        ((phones, tmp_path / "a.json"), DataError, r"must end in \.npz, got '.*a\.json'"),
        ((phones, tmp_path / "none" / "a.npz"), DataError, r"the folder of .* does not exist"),
        ((phones, tmp_path / "a.npz", "--rule", "wifi"), ConfigError, "a rule applies to the form"),
        ((phones, tmp_path / "a.npz", "--from", "flash"), DataError, "not readable JSON"),
    ):
        with pytest.raises(error, match=message):
            run("convert", *arguments)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["phones.csv"]


def test_stats_as_text_and_as_json(phones: Path, tmp_path: Path) -> None:
    run("convert", phones, tmp_path / "phones.npz")
    text = run("stats", tmp_path / "phones.npz").output
    assert text.startswith("40 devices, 41 intervals, 2 days; observed for ")
    assert "source          phones.csv" in text
    found = json.loads(run("stats", tmp_path / "phones.npz", "--json").stdout)
    assert found["devices"] == 40 and found["origin"]["form"] == "csv"
    with pytest.raises(DataError, match=r"phones\.csv' is not a readable \.npz file of traces"):
        run("stats", phones)


@pytest.mark.parametrize("key", ["a", "fifteen_letters", "many_more_letters_than_that"])
def test_the_origin_is_told_with_a_space_after_any_name(key: str, tmp_path: Path) -> None:
    traces = read_traces(converted(tmp_path))
    write_traces(replace(traces, origin={**traces.origin, key: 751}), tmp_path / "other.npz")
    lines = run("stats", tmp_path / "other.npz").output.splitlines()
    assert [key, "751"] in [line.split() for line in lines]


def test_fetch_writes_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traces = read_traces(converted(tmp_path))
    monkeypatch.setattr("fedgs.data.trace_files.fetch_flame", lambda: traces)
    monkeypatch.chdir(tmp_path)
    assert "Written: flame.npz" in run("fetch", "flame").output
    assert read_traces("flame.npz").digest == traces.digest


def test_describe_tells_the_correlation_that_resulted(phones: Path, tmp_path: Path) -> None:
    run("convert", phones, tmp_path / "phones.npz")
    settings = {
        "data.clients": 8,
        "availability.name": "trace",
        "availability.path": tmp_path / "phones.npz",
        "availability.min_days": 0,
        "availability.unobserved": "away",
        "availability.couple": "data_size",
        "availability.coupling": 1,
    }
    options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    output = run("describe", *options).output
    assert "trace           8 of 40 devices used\n" in output
    assert "coupling        rank correlation of data size and availability 1.000 (" in output


def test_a_hostile_file_is_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "bomb.pkl").write_bytes(b"cos\nsystem\n(S'echo executed'\ntR.")
    command = [sys.executable, "-m", "fedgs", "trace", "convert", "bomb.pkl", "a.npz"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("fedgs: 'bomb.pkl' is not readable as fedscale: its pickle must")
    assert [path.name for path in tmp_path.iterdir()] == ["bomb.pkl"]
