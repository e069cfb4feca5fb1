"""The array form of traces: look-ups, checks and the file."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles.traces import is_on
from tests.traces.material import intervals_of, traces_of_days

from fedgs.errors import DataError
from fedgs.traces import DAY, Traces, read_traces, write_traces

TWO = Traces([0, 100, 20], [10, 110, 50], [0, 2, 3], [0, 5], [300, 60], ["a", "b"])
VALID: dict[str, object] = {
    "on": [0, 100, 20],
    "off": [10, 110, 50],
    "offsets": [0, 2, 3],
    "seen_from": [0, 5],
    "seen_to": [300, 60],
    "names": ["a", "b"],
}


@given(traces_of_days(), st.lists(st.integers(0, 5 * DAY), min_size=1, max_size=20))
def test_look_ups_are_those_of_plain_python(traces: Traces, seconds: list[int]) -> None:
    devices = np.arange(len(seconds)) % len(traces)
    expected = [
        is_on(intervals_of(traces, d), second)
        for d, second in zip(devices.tolist(), seconds, strict=True)
    ]
    assert traces.is_on(devices, np.array(seconds)).tolist() == expected
    expected_times = [
        sum(max(0, min(off, second) - on) for on, off in intervals_of(traces, d) if on < second)
        for d, second in zip(devices.tolist(), seconds, strict=True)
    ]
    assert traces.on_time(devices, np.array(seconds)).tolist() == expected_times
    # Many look-ups at once are made in arrays, few one by one.
    many, moments = np.tile(devices, 40), np.tile(np.array(seconds), 40)
    assert traces.is_on(many, moments).tolist() == 40 * expected
    assert traces.on_time(many, moments).tolist() == 40 * expected_times


def test_intervals_are_half_open() -> None:
    seconds = np.array([0, 9, 10, 99, 100, 109, 110])
    assert TWO.is_on(np.zeros(7, int), seconds).tolist() == [
        True, True, False, False, True, True, False,
    ]  # fmt: skip


def test_a_device_without_intervals_is_never_there_beside_others() -> None:
    traces = Traces([0, 0], [9, 9], [0, 1, 1, 2], [0] * 3, [9] * 3, ["a", "b", "c"])
    assert traces.is_on(np.array([0, 1, 2]), np.array([5, 5, 5])).tolist() == [True, False, True]
    assert traces.shares.tolist() == [1.0, 0.0, 1.0]
    none = Traces([], [], [0, 0], [0], [0], ["a"])
    assert none.is_on(np.array([0]), np.array([5])).tolist() == [False]
    assert none.shares.tolist() == [0.0]


def test_shares_are_of_the_observed_time() -> None:
    assert TWO.shares == pytest.approx([20 / 300, 30 / 55])


@given(traces_of_days())
def test_a_file_gives_the_same_traces(
    tmp_path_factory: pytest.TempPathFactory, traces: Traces
) -> None:
    path = tmp_path_factory.mktemp("traces") / "some.npz"
    read = read_traces(write_traces(traces, path))
    assert read.digest == traces.digest
    assert read.names == traces.names
    assert read.origin == traces.origin
    assert [entry.name for entry in path.parent.iterdir()] == ["some.npz"]


def test_the_digest_is_of_the_numbers_alone() -> None:
    named = Traces(**{**VALID, "names": ["c", "d"]}, origin={"source": "elsewhere"})
    assert named.digest == Traces(**VALID).digest
    for change in ({"on": [0, 100, 21]}, {"seen_to": [300, 61]}, {"zone_seconds": [0, 60]}):
        assert Traces(**{**VALID, **change}).digest != named.digest


@pytest.mark.parametrize(
    ("second_0", "expected"), [("18:00 local", 64_800), ("06:30", 23_400), ("noon", 0), (7, 0)]
)
def test_the_origin_gives_the_time_of_day(second_0: object, expected: int) -> None:
    assert Traces(**VALID, origin={"second_0": second_0}).second_0 == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": []}, "a trace must have at least one device, got none"),
        ({"names": ["a", "a"]}, "names of devices must be distinct, got 'a' twice"),
        ({"seen_from": [0]}, "seen_from must have 2 entries, one a device, got 1"),
        ({"zone_seconds": [0]}, "zone_seconds must have 2 entries, one a device, got 1"),
        ({"offsets": [0, 3]}, "offsets must ascend .* in 3 entries, .* got 2 offsets, 3 on and 3"),
        ({"offsets": [0, 4, 3]}, "offsets must ascend"),
        ({"offsets": [1, 2, 3]}, "offsets must ascend"),
        ({"offsets": [0, 2, 2]}, "offsets must ascend"),
        ({"off": [10, 110]}, "offsets must ascend"),
        ({"on": [0.5, 100, 20]}, r"on must be a list of integers, got float64 of shape \(3,\)"),
        ({"on": [[0]]}, r"on must be a list of integers, got int64 of shape \(1, 1\)"),
        ({"on": [-1, 100, 20]}, "on must be in 0 to 2147483647, got -1"),
        ({"seen_to": [300, 2**31]}, "seen_to must be in 0 to 2147483647, got 2147483648"),
        ({"seen_to": [300, 4]}, "seen_to must be at least seen_from, device 'b' has 5 and 4"),
        ({"off": [10, 100, 50]}, r"must end after it begins, device 'a' has \[100, 100\)"),
        ({"on": [0, 9, 20]}, r"disjoint, device 'a' has \[0, 10\) before \[9, 110\)"),
        ({"seen_to": [300, 49]}, r"device 'b' has \[20, 50\) outside \[5, 49\)"),
        ({"seen_from": [1, 5]}, r"device 'a' has \[0, 10\) outside \[1, 300\)"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Traces(**{**VALID, **change})


def test_touching_intervals_are_allowed() -> None:
    assert len(Traces([0, 10], [10, 20], [0, 2], [0], [20], ["a"]).on) == 2


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04 broken", b"\x93NUMPY\x01\x00"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "some.npz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"^trace '.*some\.npz' is not a readable \.npz file of t"):
        read_traces(path)


@given(st.data())
def test_damaged_files_end_in_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = write_traces(TWO, tmp_path_factory.mktemp("traces") / "some.npz")
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content[: data.draw(st.integers(0, len(content)))]))
    assert "\n" not in outcome(path)


def outcome(path: Path) -> str:
    """The sentence that refuses a file; empty where it is read."""
    try:
        read_traces(path)
    except DataError as error:
        return str(error)
    return ""


def test_a_missing_file_and_missing_arrays_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"availability\.path must be a file, got .*which does not"):
        read_traces(tmp_path / "none.npz", setting="availability.path")
    np.savez(tmp_path / "some.npz", on=np.zeros(3, int))
    with pytest.raises(
        DataError, match=r"must hold the arrays on, .*, off is missing; fedgs trace"
    ):
        read_traces(tmp_path / "some.npz")


@pytest.mark.parametrize("path", ["\0", "\0.npz", "a" * 300 + ".npz", "a/" * 3000, ""])
def test_any_text_is_a_path_that_does_not_exist(path: str) -> None:
    with pytest.raises(DataError, match=r"^trace must be a file, got '.*, which (does not|is a f)"):
        read_traces(path)


def test_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="must be a file, got .*, which is a folder"):
        read_traces(tmp_path)
    (tmp_path / "some.npz").mkdir()
    with pytest.raises(DataError, match=r"some\.npz' must be a file to write, and is a folder"):
        write_traces(TWO, tmp_path / "some.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["some.npz"]


def test_pickled_objects_are_refused(tmp_path: Path) -> None:
    names = np.array(["a", {"b": 1}], dtype=object)
    np.savez(tmp_path / "some.npz", **{**VALID, "zone_seconds": [0, 0], "names": names})
    with pytest.raises(DataError, match="is not a readable .npz file of traces: Object arrays"):
        read_traces(tmp_path / "some.npz")


@pytest.mark.parametrize("origin", ["[]", "{", "[" * 100_000])
def test_an_origin_that_is_no_object_is_refused(tmp_path: Path, origin: str) -> None:
    np.savez(tmp_path / "some.npz", **{**VALID, "zone_seconds": [0, 0]}, origin=origin)
    with pytest.raises(DataError, match=r"^trace '.*some\.npz' "):
        read_traces(tmp_path / "some.npz")


def test_errors_of_the_content_name_the_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "some.npz", **{**VALID, "zone_seconds": [0, 0], "on": [0, 9, 20]})
    with pytest.raises(DataError, match=r"^trace '.*some\.npz': intervals must be ascending"):
        read_traces(tmp_path / "some.npz")


def test_the_file_must_be_an_npz(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"must end in \.npz, got '.*some\.json'"):
        write_traces(TWO, tmp_path / "some.json")
    assert json.dumps(dict(TWO.origin)) == "{}"
