"""Files of others in a process of their own: hostile ones end in one sentence."""

import json
import os
import pickle
import pickletools
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.traces.material import damaged

from fedgs.errors import ConfigError, DataError, UserError
from fedgs.traces import convert, convert_capacities, read_traces, write_traces
from fedgs.traces.capacities import read_capacities
from fedgs.traces.collected import Collected
from fedgs.traces.csv_text import read_csv
from fedgs.traces.fedscale import read_fedscale
from fedgs.traces.flame import KEY, read_trainers, read_yaml
from fedgs.traces.flash import read_flash

RECORD = {"active": [0, 100], "inactive": [10, 110], "finish_time": 300, "model": "x"}
PICKLE = pickle.dumps({1: RECORD, "b": RECORD})
FLASH = b'{"a": {"messages": "2020-01-28 10:00:00\\twifi\\n2020-01-28 11:00:00\\t4g\\n"}}'
FLAME = json.dumps({"hyperparameters": {KEY: "[(5, 'AVL_TRAIN'), (9, 'UN_AVL')]"}}).encode()
YAML = b"traces:\n  a:\n    states_2st:\n    - - 6\n      - AVL_TRAIN\n    - - 9\n      - UN_AVL\n"
CSV = b"device,on,off\na,0,60\nb,30,90\n"

READERS: dict[str, tuple[bytes, Callable[[bytes], Collected]]] = {
    "fedscale": (PICKLE, read_fedscale),
    "old pickle": (pickle.dumps({1: RECORD}, 0), read_fedscale),
    "flash": (FLASH, lambda content: read_flash(content, "wifi")),
    "flame": (FLAME, lambda content: read_trainers([("1", content)])),
    "yaml": (YAML, read_yaml),
    "csv": (CSV, read_csv),
    "changes": (b"id,state\na,1,60,90\nb,0,5\n", read_csv),
}


class Bomb:
    """Executes when it is unpickled."""

    exploded = False

    def __init__(self, code: str) -> None:
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        return exec, (self.code,)


def sentence(read: Callable[[], object]) -> str:
    """What refuses a file; empty where it is read."""
    try:
        read()
    except UserError as error:
        return str(error)
    return ""


# Fuzzed


@pytest.mark.parametrize("name", READERS)
@given(data=st.data())
def test_damaged_files_end_in_one_sentence(name: str, data: st.DataObject) -> None:
    content, read = READERS[name]
    whole = data.draw(damaged(content))
    cut = whole[: data.draw(st.integers(len(whole) // 2, len(whole)))]
    found = sentence(lambda: read(cut).traces({}))
    assert "\n" not in found and len(found) < 600


@pytest.mark.parametrize("name", READERS)
@given(content=st.binary(max_size=300))
def test_any_bytes_end_in_one_sentence(name: str, content: bytes) -> None:
    found = sentence(lambda: READERS[name][1](content).traces({}))
    assert "\n" not in found and len(found) < 600


OPCODES = [operation.code.encode("latin-1") for operation in pickletools.opcodes]
PIECES = st.one_of(
    st.sampled_from(OPCODES),
    st.sampled_from([b"cos\nsystem\n", b"\x8c\x02os\x8c\x06system\x93", b"ibuiltins\nexec\n"]),
    st.binary(max_size=5),
)


@settings(max_examples=300)
@given(pieces=st.lists(PIECES, max_size=30))
def test_any_operations_are_read_or_refused(pieces: list[bytes]) -> None:
    content = b"".join([*pieces, b"."])
    for read in (lambda: read_fedscale(content).traces({}), lambda: read_capacities(content)):
        found = sentence(read)
        assert "\n" not in found and len(found) < 600


def named(name: str) -> dict[str, bytes]:
    """A device of a name in each form."""
    text = json.dumps(name)
    return {
        "old pickle": pickle.dumps({name: RECORD, "b": RECORD}, 0),
        "fedscale": pickle.dumps({name: RECORD, "b": RECORD}),
        "flash": FLASH.replace(b'"a"', text.encode()),
        "csv": f"device,on,off\n{name},0,60\n".encode("utf-8", "replace"),
        "changes": f"id,state\n{name},1,60\n".encode("utf-8", "replace"),
    }


@pytest.mark.parametrize("reader", named("a"))
@pytest.mark.parametrize(
    "name", ["", "\0", "a\0", "\ud800", "x" * 201, "x" * 100_000], ids=range(6)
)
def test_names_that_arrays_cannot_hold_are_refused(reader: str, name: str) -> None:
    """In the array form each name takes the place of the longest, and ends before a last NUL."""
    content = named(name)[reader]
    if name == "\ud800" and reader in ("csv", "changes"):
        return  # no UTF-8
    with pytest.raises(DataError, match=r"a device must have a name|a line must be") as refusal:
        READERS[reader][1](content)
    assert "\n" not in str(refusal.value) and len(str(refusal.value)) < 600


@pytest.mark.parametrize("name", ["x" * 200, "phone 1", "Gerät\u00a07", "a,b\n"], ids=range(4))
def test_other_names_are_kept(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.pkl").write_bytes(pickle.dumps({name: RECORD, "b": RECORD}))
    traces = convert(tmp_path / "a.pkl")
    assert read_traces(write_traces(traces, tmp_path / "a.npz")).names == (name, "b")


@pytest.mark.parametrize("name", READERS)
def test_what_is_fuzzed_can_be_read(name: str) -> None:
    content, read = READERS[name]
    assert len(read(content).traces({}).on) > 0


# Pickles that would execute


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_nothing_in_a_pickle_is_executed(tmp_path: Path, protocol: int) -> None:
    mark = tmp_path / "executed"
    bomb = Bomb(f"open({str(mark)!r}, 'w').close()")
    for place in ({1: bomb}, {1: {**RECORD, "model": bomb}}, bomb):
        content = pickle.dumps(place, protocol)
        with pytest.raises(DataError, match=r"the operation \w+ at byte \d+, which can execute"):
            read_fedscale(content)
    (tmp_path / "bomb.pkl").write_bytes(content)
    with pytest.raises(DataError, match=r"bomb\.pkl' is not readable as fedscale: its pickle must"):
        convert(tmp_path / "bomb.pkl")
    assert not mark.exists()
    pickle.loads(content)
    assert mark.exists()  # the bomb works


@pytest.mark.parametrize(
    ("content", "operation"),
    [
        (b"cos\nsystem\n(S'x'\ntR.", "GLOBAL"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "STACK_GLOBAL"),
        (b"(S'x'\nios\nsystem\n.", "INST"),
        (b"(cos\nsystem\nS'x'\no.", "GLOBAL"),
        (b"(o.", "OBJ"),
        (b")R.", "REDUCE"),
        (b"}}b.", "BUILD"),
        (b")\x81.", "NEWOBJ"),
        (b")\x92.", "NEWOBJ_EX"),
        (b"\x82\x01.", "EXT1"),
        (b"\x83\x01\x00.", "EXT2"),
        (b"\x84\x01\x00\x00\x00.", "EXT4"),
        (b"Px\n.", "PERSID"),
        (b"NQ.", "BINPERSID"),
        (b"\x8f.", "EMPTY_SET"),
        (b"\x97.", "NEXT_BUFFER"),
        (b"]2.", "DUP"),
        (b"\x8b\x01\x00\x00\x00\x05.", "LONG4"),
        (b"\x96\x01\x00\x00\x00\x00\x00\x00\x00x.", "BYTEARRAY8"),
    ],
)
def test_operations_that_make_objects_are_named(content: bytes, operation: str) -> None:
    with pytest.raises(DataError, match=rf"the operation {operation} at byte \d+, which can"):
        read_fedscale(content)


@pytest.mark.parametrize("content", [b"]r\xff\xff\xff\xff.", b"]p99999\n.", b"]p-1\n."])
def test_places_beyond_the_length_of_the_file_are_refused(content: bytes) -> None:
    with pytest.raises(DataError, match=r"its pickle has the memo index -?\d+ at byte 1"):
        read_fedscale(content)


def test_every_operation_that_python_has_is_allowed_or_refused_by_name() -> None:
    """A new version of Python may have new ones."""
    contents = {operation.name: alone(operation) for operation in pickletools.opcodes}
    allowed = {name for name, content in contents.items() if not is_refused(content)}
    assert not allowed & {
        "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1",
        "EXT2", "EXT4", "PERSID", "BINPERSID", "NEXT_BUFFER", "READONLY_BUFFER",
    }  # fmt: skip


def is_refused(content: bytes) -> bool:
    """Whether a pickle is refused for an operation."""
    return "which can execute" in sentence(lambda: read_fedscale(content))


def alone(operation: pickletools.OpcodeInfo) -> bytes:
    """A pickle of one operation, with an argument that can be read."""
    code = operation.code.encode("latin-1")
    for argument in (
        b"",
        b"\x00",
        b"\x00" * 2,
        b"\x00" * 4,
        b"\x00" * 8,
        b"1\n",
        b"'a'\n",
        b"a\nb\n",
    ):
        try:
            list(pickletools.genops(code + argument + b"."))
        except Exception:
            continue
        return code + argument + b"."
    raise AssertionError(operation.name)


# Too much memory and time


def bomb_of_the_memo() -> bytes:
    """An index that asks for a gigabyte of places, at most as large as the file."""
    padding = b"X" + struct.pack("<I", 62 << 20) + b"a" * (62 << 20)
    return padding + b"r" + struct.pack("<I", 62 << 20) + b"."


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("memo.pkl", bomb_of_the_memo()),
        ("lists.json", b'{"messages": [' + b"{}," * (20 << 20) + b"{}]}"),
    ],
)
def test_bombs_of_memory_end_in_one_sentence(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match="it needs more than 1 GB of memory to be read$"):
        convert(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("deep.pkl", b"(" * (1 << 20) + b"l" * (1 << 20) + b"."),
        ("tuples.pkl", b")" + b"\x85" * (1 << 20) + b"."),
        ("index.pkl", b"]r\xff\xff\xff\xff."),
        ("deep.json", b'{"messages": ' + b"[" * (1 << 20)),
        ("cut.pkl", PICKLE[:-9]),
        ("cut.json", FLASH[:-9]),
        ("empty.pkl", b""),
        ("empty.csv", b""),
    ],
)
def test_deep_and_truncated_files_end_in_one_sentence(
    tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    found = sentence(lambda: convert(tmp_path / name))
    assert f"{name}' is not readable as " in found
    assert "\n" not in found and len(found) < 600


@pytest.mark.long
def test_a_pickle_of_equal_hashes_ends_within_the_time(tmp_path: Path) -> None:
    keys = (k * (2**61 - 1) for k in range(1, 200_000))  # the hash of each is 0
    items = b"".join(b"\x8a\x0a" + key.to_bytes(10, "little") + b"N" for key in keys)
    (tmp_path / "equal.pkl").write_bytes(b"}(" + items + b"u.")
    with pytest.raises(DataError, match=r"it takes more than 25 s of processor time, or was stop"):
        convert(tmp_path / "equal.pkl")


# What is asked of `convert`


def test_the_origin_says_where_traces_come_from(tmp_path: Path) -> None:
    (tmp_path / "some.json").write_bytes(FLASH)
    origin = convert(tmp_path / "some.json", rule="wifi", origin={"licence": "x"}).origin
    assert origin["form"] == "flash" and origin["rule"] == "wifi" and origin["licence"] == "x"
    assert origin["size"] == len(FLASH) and len(str(origin["sha256"])) == 64
    assert origin["known"] == "unknown" and origin["repairs"] == {}


def test_a_folder_is_converted(tmp_path: Path) -> None:
    (tmp_path / "trainer_1.json").write_bytes(FLAME)
    traces = convert(tmp_path)
    assert (traces.on.tolist(), traces.off.tolist()) == ([5], [9])


def test_wrong_requests_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(CSV)
    with pytest.raises(DataError, match=r"none\.csv' does not exist"):
        convert(tmp_path / "none.csv")
    with pytest.raises(DataError, match=r"none\.pkl' does not exist"):
        convert_capacities(tmp_path / "none.pkl")
    with pytest.raises(DataError, match=r"' is not a file"):
        convert_capacities(tmp_path)
    with pytest.raises(ConfigError, match="one of csv, fedscale, flash, flame, got 'excel'"):
        convert(tmp_path / "a.csv", form="excel")
    with pytest.raises(ConfigError, match=r"^a rule applies to the form flash alone"):
        convert(tmp_path / "a.csv", rule="wifi")
    with pytest.raises(DataError, match=r"a\.csv' is not readable as flash: it is not readable J"):
        convert(tmp_path / "a.csv", form="flash")
    with pytest.raises(
        DataError, match="is not readable as csv: it cannot be read: Is a directory"
    ):
        convert(tmp_path, form="csv")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for form in (None, "csv"):
        with pytest.raises(DataError, match="pipe' is neither a file nor a folder"):
            convert(tmp_path / "pipe", form=form)
    with pytest.raises(DataError, match="pipe' is not a file"):
        convert_capacities(tmp_path / "pipe")


def test_a_module_beside_the_file_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('imported')")
    (tmp_path / "a.csv").write_bytes(CSV)
    monkeypatch.chdir(tmp_path)
    assert np.array_equal(convert("a.csv").on, [0, 30])
