"""FedScale's speeds of devices: values, refusals, and the command."""

import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.traces.material import damaged

from fedgs.cli.trace import profile
from fedgs.errors import DataError
from fedgs.system.profile import profile_of, read_profile, write_profile
from fedgs.traces import convert_capacities
from fedgs.traces.capacities import (
    capacity_file,
    read_capacities,
    stored_capacities,
    write_capacities,
)

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
        (
            {1: {"computation": 1.0}},
            "device '1' must have a number from .* as 'communication', got None",
        ),
        ({1: {**GOOD, "computation": 0}}, "1e-09 to 1e\\+12 as 'computation', got 0"),
        ({1: {**GOOD, "computation": float("inf")}}, "1e-09 to 1e\\+12 as 'computation', got inf"),
        ({1: {**GOOD, "computation": True}}, "1e-09 to 1e\\+12 as 'computation', got True"),
        ({1: GOOD, "1": GOOD}, "ids of devices must be distinct as texts"),
        ({"1": GOOD, 1: GOOD}, "ids of devices must be distinct as texts"),
        ({"a": GOOD, " a": GOOD}, "devices must be distinct, got device 'a' twice"),
        ({"": GOOD}, "a name of 1 to 200 characters, got 0 characters"),
        ({" ": GOOD}, "a name of 1 to 200 characters, got 0 characters"),
        ({"a" * 201: GOOD}, "a name of 1 to 200 characters, got 201 characters"),
        ({"a\0": GOOD}, "without NUL and surrogates"),
        ({"\ud800": GOOD}, "without NUL and surrogates"),
        ({10**500: GOOD}, "ids of devices must be at most 9223372036854775807"),
        ({1: {**GOOD, "computation": 10**400}}, "device '1' .* as 'computation', got 10000"),
        ({1: {**GOOD, "communication": 1e308}}, "device '1' .* as 'communication', got 1e\\+308"),
        ({1: {**GOOD, "communication": 1e-300}}, "device '1' .* as 'communication', got 1e-300"),
    ],
)
def test_records_that_do_not_fit_are_refused(content: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_capacities(pickle.dumps(content))


NUMBERS = st.one_of(st.integers(), st.floats(), st.sampled_from([1e-9, 1e12, 10**400]))


@given(
    content=st.dictionaries(
        st.one_of(st.integers(), st.text(max_size=5)),
        st.fixed_dictionaries({"computation": NUMBERS, "communication": NUMBERS}),
        max_size=3,
    )
)
def test_a_profile_that_is_written_can_be_read(content: Any) -> None:
    try:
        capacities = read_capacities(pickle.dumps(content))
    except DataError:
        return
    with tempfile.TemporaryDirectory() as folder:
        write_capacities(capacities, Path(folder, "a.npz"))
        stored = stored_capacities(Path(folder, "a.npz"))
        devices = read_profile(write_profile(profile_of(stored), Path(folder, "a.csv")))
    assert devices.names == tuple(str(identity).strip() for identity in content)
    assert devices.down.tolist() == (1000.0 * capacities.kilobits).tolist()


@given(content=damaged(pickle.dumps({1: GOOD, "b": GOOD})))
def test_damaged_files_end_in_one_sentence(content: bytes) -> None:
    try:
        read_capacities(content)
    except DataError as error:
        message = str(error)
    else:
        message = ""
    assert "\n" not in message and len(message) < 600


@given(content=damaged(b'device,example_seconds,down,up\na,0.5,1e6,5e5\n"b ""c",1,2,3\n'))
def test_damaged_profiles_end_in_one_sentence(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.csv").write_bytes(content)
        try:
            found = read_profile(Path(folder, "a.csv"))
        except DataError as error:
            assert "\n" not in str(error) and len(str(error)) < 800  # noqa: PT017
        else:
            assert (np.stack([found.example_seconds, found.down, found.up]) > 0).all()


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
