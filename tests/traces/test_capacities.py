"""FedScale's speeds of devices: values, refusals, and the command."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from fedgs.cli.trace import profile
from fedgs.errors import DataError
from fedgs.system.profile import read_profile
from fedgs.traces import convert_capacities
from fedgs.traces.capacities import capacity_file, read_capacities

GOOD = {"computation": 162.0, "communication": 5648}


def test_the_command_writes_a_profile_with_three_times_the_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "capacity").write_bytes(pickle.dumps({1: GOOD, "b": {**GOOD, "computation": 10}}))
    out = tmp_path / "phones.csv"
    profile(tmp_path / "capacity", out)
    assert "2 devices" in capsys.readouterr().out
    devices = read_profile(out)
    assert devices.names == ("1", "b")
    assert devices.example_seconds.tolist() == pytest.approx([0.486, 0.03])
    assert devices.down.tolist() == devices.up.tolist() == [5_648_000.0] * 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "at least one device, got none"),
        ([1], "must hold a dict of devices, got list"),
        ({1.5: GOOD}, "ids of devices must be int or str, got float"),
        ({1: 3}, "device '1' must have a dict, got int"),
        ({1: {"computation": 1.0}}, "device '1' must have a number > 0 'communication', got None"),
        ({1: {**GOOD, "computation": 0}}, "a number > 0 'computation', got 0"),
        ({1: {**GOOD, "computation": float("inf")}}, "a number > 0 'computation', got inf"),
        ({1: {**GOOD, "computation": True}}, "a number > 0 'computation', got True"),
        ({1: GOOD, "1": GOOD}, "ids of devices must be distinct as texts"),
        ({"1": GOOD, 1: GOOD}, "ids of devices must be distinct as texts"),
    ],
)
def test_records_that_do_not_fit_are_refused(content: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_capacities(pickle.dumps(content))


class Bomb:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("exploded"),)


def test_a_pickle_that_calls_something_is_refused_and_nothing_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bomb").write_bytes(pickle.dumps({1: Bomb()}))
    with pytest.raises(DataError, match="which can execute code"):
        convert_capacities(tmp_path / "bomb")
    assert not (tmp_path / "exploded").exists()
    with pytest.raises(DataError, match="does not exist"):
        convert_capacities(tmp_path / "absent")
    (tmp_path / "large").write_bytes(b"")
    with (tmp_path / "large").open("r+b") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(DataError, match="at most 64 MB"):
        capacity_file(tmp_path / "large")


@pytest.mark.parametrize(
    ("out", "message"), [("p.txt", r"must end in \.csv"), ("absent/p.csv", "does not exist")]
)
def test_a_profile_that_cannot_be_written_is_refused(
    tmp_path: Path, out: str, message: str
) -> None:
    (tmp_path / "capacity").write_bytes(pickle.dumps({1: GOOD}))
    with pytest.raises(DataError, match=message):
        profile(tmp_path / "capacity", tmp_path / out)
