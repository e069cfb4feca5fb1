import hashlib
import json
import re
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgs.clients import Clients
from fedgs.errors import OutputError
from fedgs.records import Members, Record, RunFolder, write_atomically


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "run")
    clients = Clients(
        ("a", 7), np.array([3, 4]), np.array([[1, 2], [4, 0]]), np.array([[0.5], [1.5]])
    )
    made.create({"seed": 3, "method": {"name": "uniform"}}, clients, {"distance": np.eye(2)})
    return made


def full_disk() -> None:
    """Files of this process can have 100 bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


@pytest.mark.parametrize(
    "write",
    [
        "write_atomically(path, bytes(200))",
        "save_arrays(path, {'a': np.ones(9999)})",
        "RunFolder(path.parent).append('x', ['a' * 200])",
    ],
)
def test_a_full_disk_names_the_file(write: str, tmp_path: Path) -> None:
    imports = (
        "from pathlib import Path\nimport numpy as np\n"
        "from fedgs.records import RunFolder, save_arrays, write_atomically"
    )
    code = f"{imports}\npath = Path('x').resolve()\n{write}"
    process = subprocess.run(  # preexec_fn: no other thread runs here
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=full_disk,
    )
    assert process.returncode == 1
    sentence = r"^OSError: \[Errno \d+\] .+: '" + str(tmp_path / "x")
    assert re.search(sentence, process.stderr, re.MULTILINE)


def test_what_is_created_is_read_back(folder: RunFolder) -> None:
    clients = folder.clients()
    assert folder.exists()
    assert folder.config() == {"seed": 3, "method": {"name": "uniform"}}
    assert clients.names == ("a", 7)
    assert clients.data_sizes.tolist() == [3, 4]
    assert clients.label_counts is not None and clients.label_counts.tolist() == [[1, 2], [4, 0]]
    assert clients.features is not None and clients.features.tolist() == [[0.5], [1.5]]
    assert folder.arrays("memory")["distance"].tolist() == [[1, 0], [0, 1]]
    assert folder.arrays("nothing") == {}


def test_records_go_through_json_unchanged() -> None:
    record = Record(3, ["a", 2], 2, [2], [3], [1.0], "optimal", 0.1 + 0.2, 0.5, 1 / 3, 0.25, None)
    assert Record.from_json(record.to_json()) == record


def test_a_line_that_was_cut_off_is_left_out_anywhere_it_is_cut(folder: RunFolder) -> None:
    lines = [Record(round=t, cohort=["a"], test_loss=0.5).to_json() for t in range(3)]
    folder.append("rounds.jsonl", lines)
    whole = (folder.path / "rounds.jsonl").read_bytes()
    ends = np.cumsum([len(line) + 1 for line in lines])
    for size in range(len(whole) + 1):
        (folder.path / "rounds.jsonl").write_bytes(whole[:size])
        assert len(folder.records()) == int(np.sum(ends <= size))


def test_a_whole_line_that_is_no_record_is_an_error(folder: RunFolder) -> None:
    folder.append("rounds.jsonl", ["{}"])
    with pytest.raises(OutputError, match="not a record of a round"):
        folder.records()


def test_rounds_out_of_order_are_an_error(folder: RunFolder) -> None:
    folder.append("rounds.jsonl", [Record(round=0).to_json(), Record(round=2).to_json()])
    with pytest.raises(OutputError, match="line 2 is round 2, not 1"):
        folder.records()


def test_damaged_files_are_named(folder: RunFolder) -> None:
    (folder.path / "config.toml").write_text("seed = ")
    (folder.path / "clients.npz").write_bytes(b"PK")
    with pytest.raises(OutputError, match=r"config.toml is not readable"):
        folder.config()
    with pytest.raises(OutputError, match=r"clients.npz is not readable"):
        folder.clients()


def test_writing_atomically_replaces_the_whole_file(tmp_path: Path) -> None:
    target = tmp_path / "file"
    write_atomically(target, b"old and long")
    write_atomically(target, b"new")
    assert target.read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_members_are_written_as_a_digest() -> None:
    inside = np.arange(2000) % 3 == 0
    record = Record(0, available=Members(tuple(range(2000)), inside), num_available=667)
    expected = hashlib.blake2b(np.packbits(inside).tobytes(), digest_size=8).hexdigest()
    assert json.loads(record.to_json())["available"] == {"digest": expected}


@pytest.mark.parametrize(
    "available", ['{"digest":3}', '{"bits":true}', '{"digest":"ab"},"num_available":"7"']
)
def test_a_digest_that_is_none_is_refused(available: str, folder: RunFolder) -> None:
    folder.append("rounds.jsonl", [f'{{"round":0,"available":{available}}}'])
    with pytest.raises(OutputError, match="not a record of a round"):
        folder.records()


def test_what_is_no_number_word_or_list_is_refused() -> None:
    with pytest.raises(TypeError, match="a record holds numbers, words and lists of them, got set"):
        Record(0, cohort={1, 2}).to_json()  # type: ignore[arg-type]


@given(st.integers(1, 5), st.integers(0, 200_000))
@settings(max_examples=30, deadline=None)
def test_last_record_is_the_last_of_all_records(count: int, width: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder(Path(folder))
        run.append(
            "rounds.jsonl", [Record(t, cohort=["x" * width]).to_json() for t in range(count)]
        )
        assert run.last_record() == run.records()[-1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", None), ('{"round":0}\n{"round":1', None), ('{"round":0}\n{"ro', None)],
)
def test_there_is_no_last_record_where_the_line_is_cut_off(
    tmp_path: Path, text: str, expected: None
) -> None:
    (tmp_path / "rounds.jsonl").write_text(text)
    assert RunFolder(tmp_path).last_record() is expected


@pytest.mark.parametrize(
    "line", ["{}", "[]", '{"round":"1"}', "what", '{"round":1,"colour":2}', "\udcff"]
)
def test_last_line_that_is_no_record_is_a_named_error(tmp_path: Path, line: str) -> None:
    (tmp_path / "rounds.jsonl").write_text('{"round":0}\n' + line + "\n", errors="surrogateescape")
    with pytest.raises(OutputError, match="not a record of a round"):
        RunFolder(tmp_path).last_record()


@pytest.mark.parametrize(
    "line", ['{"round":1},{"round":2}', "", "1", '{"round":1}]', "[", '{"round":1,"colour":2}']
)
def test_damaged_line_among_good_ones_is_found(folder: RunFolder, line: str) -> None:
    folder.append("rounds.jsonl", ['{"round":0}', line, '{"round":2}'])
    with pytest.raises(OutputError, match="not a record of a round"):
        folder.records()
