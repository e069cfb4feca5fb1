"""What changes in a run's folder arrives in another one, in an order that does no harm."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedgs.errors import OutputError
from fedgs.experiments.mirror import BLOCK, FileChange, Mirror, apply_changes, content_of
from fedgs.records import RunFolder, write_atomically


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "here" / "run"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def there(tmp_path: Path) -> Path:
    return tmp_path / "there" / "run"


def test_new_grown_cut_replaced_and_removed_files_arrive(here: Path, there: Path) -> None:
    mirror = Mirror()
    steps: list[Callable[[], object]] = [
        lambda: (here / "rounds.jsonl").write_text("one\ntwo\n"),
        lambda: append(here / "rounds.jsonl", "three\n"),
        lambda: os.truncate(here / "rounds.jsonl", 4),
        lambda: write_atomically(here / "checkpoint.npz", b"first"),
        lambda: write_atomically(here / "checkpoint.npz", b"other"),
        lambda: write_atomically(here / "failure.json", b"{}"),
        lambda: (here / "failure.json").unlink(),
    ]
    for step in steps:
        step()
        apply_changes(there, mirror.changes(here))
        assert content(there) == content(here)
    assert mirror.changes(here) == []
    append(here / "rounds.jsonl", "four\n")
    assert mirror.changes(here) == [FileChange("rounds.jsonl", 4, b"four\n", 9)]


def test_the_checkpoint_follows_the_records_and_the_configuration_is_last(here: Path) -> None:
    for name in ("checkpoint.npz", "config.toml", "rounds.jsonl", "best.npz", "clients.npz"):
        (here / name).write_text(name)
    (here / "checkpoint.npz.part").write_text("not whole")
    names = [change.name for change in Mirror().changes(here)]
    assert names == ["clients.npz", "best.npz", "rounds.jsonl", "checkpoint.npz", "config.toml"]


def test_of_a_file_that_is_changed_in_place_only_changed_blocks_are_sent(
    here: Path, there: Path
) -> None:
    mirror, path = Mirror(), here / "table-rows.bin"
    path.write_bytes(bytes(3 * BLOCK + 5))
    apply_changes(there, mirror.changes(here))
    rows = np.memmap(path, mode="r+", dtype=np.uint8)
    rows[BLOCK + 3] = 7
    rows[-1] = 9
    rows.flush()
    changes = mirror.changes(here)
    assert [change.offset for change in changes] == [BLOCK, 3 * BLOCK]
    apply_changes(there, changes)
    assert content(there) == content(here)


def test_a_file_that_runs_share_is_sent_once_and_kept_where_it_is(here: Path, there: Path) -> None:
    mirror = Mirror()
    (here.parent / "graphs").mkdir()
    (here.parent / "graphs" / "key.npz").write_bytes(b"distances")
    RunFolder(here).share("memory", here.parent / "graphs" / "key.npz")
    changes = mirror.changes(here)
    assert [(change.name, change.shared) for change in changes] == [
        ("key.npz", True),
        ("memory.json", False),
    ]
    (there.parent / "graphs").mkdir(parents=True)
    (there.parent / "graphs" / "key.npz").write_bytes(b"of another member")
    apply_changes(there, changes)
    assert (there.parent / "graphs" / "key.npz").read_bytes() == b"of another member"
    second = here.parent / "second"
    second.mkdir()
    RunFolder(second).share("memory", here.parent / "graphs" / "key.npz")
    assert [change.name for change in mirror.changes(second)] == ["memory.json"]


def test_what_a_resumed_run_needs_has_the_size_of_its_records_and_not_their_text(
    here: Path, there: Path
) -> None:
    assert content_of(RunFolder(here), set()) == []
    (here / "config.toml").write_text("seed = 1")
    (here / "rounds.jsonl").write_text("a long line\n" * 1000)
    (here / "checkpoint.npz").write_bytes(b"arrays")
    sent = content_of(RunFolder(here), set())
    assert sum(len(change.content or b"") for change in sent) < 20
    apply_changes(there, sent)
    assert RunFolder(there).size("rounds.jsonl") == 12_000
    mirror = Mirror()
    mirror.know(there)
    os.truncate(there / "rounds.jsonl", 12)  # as a run does that resumes at its checkpoint
    apply_changes(here, mirror.changes(there))
    append(there / "rounds.jsonl", "new\n")
    apply_changes(here, mirror.changes(there))
    assert (here / "rounds.jsonl").read_text() == "a long line\n" + "new\n"


def test_a_file_that_runs_share_is_sent_with_one_of_them(here: Path) -> None:
    (here.parent / "graphs").mkdir()
    (here.parent / "graphs" / "key.npz").write_bytes(b"distances")
    second = here.parent / "second"
    second.mkdir()
    before, names = set[str](), []
    for folder in (here, second):
        (folder / "config.toml").write_text("seed = 1")
        RunFolder(folder).share("memory", here.parent / "graphs" / "key.npz")
        names.append([change.name for change in content_of(RunFolder(folder), before)])
    assert names == [["memory.json", "config.toml", "key.npz"], ["memory.json", "config.toml"]]


@pytest.mark.parametrize("name", ["../out", "a/b", "/etc/x", "", "..", "."])
def test_a_name_that_leads_out_of_the_folder_is_refused(there: Path, name: str) -> None:
    with pytest.raises(OutputError, match="sent a file named"):
        apply_changes(there, [FileChange(name, None, b"")])
    assert content(there.parent) == {}
