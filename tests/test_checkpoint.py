"""Checkpoints: what is stored, what a start reads of them, and damaged ones."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.oracles.states import equal_states

from fedgs import checkpoint as checkpoint_module
from fedgs.aggregation import ClientTable
from fedgs.checkpoint import (
    State,
    load_checkpoint,
    save_checkpoint,
    stored_round,
    with_table_files,
)
from fedgs.errors import OutputError
from fedgs.records import Record, RunFolder, read_arrays, save_arrays

START = {"distance": np.eye(2), "last": np.zeros(2)}


@pytest.fixture
def state() -> State:
    memory = {**START, "last": np.array([1.0, np.nan])}
    return State(2, torch.tensor([0.5, -1.0]), np.array([2, 1]), memory)


@pytest.fixture
def folder(tmp_path: Path, state: State) -> RunFolder:
    """A run of two rounds with a checkpoint after them."""
    folder = RunFolder(tmp_path)
    folder.append("rounds.jsonl", [Record(0).to_json(), Record(1).to_json()])
    save_checkpoint(folder, state, engine="loop", start_memory=state.memory | START)
    return folder


def change_header(folder: RunFolder, **changes: object) -> None:
    """Replace entries of the checkpoint's header; None removes an entry."""
    arrays = read_arrays(folder.path / "checkpoint.npz")
    header = {**json.loads(str(arrays["header"])), **changes}
    header_entries = {key: value for key, value in header.items() if value is not None}
    save_arrays(folder.path / "checkpoint.npz", {**arrays, "header": json.dumps(header_entries)})


def test_a_state_is_loaded_as_it_was_saved(folder: RunFolder, state: State) -> None:
    checkpoint = load_checkpoint(folder, START)
    assert checkpoint is not None
    assert equal_states(checkpoint.state, state)
    assert checkpoint.engine == "loop"
    assert checkpoint.records_bytes == folder.size("rounds.jsonl")
    assert checkpoint.timings_bytes == 0


def test_arrays_of_the_start_are_not_stored_again(folder: RunFolder, state: State) -> None:
    start = {"distance": state.memory["distance"], "last": np.zeros(2)}
    save_checkpoint(folder, state, engine="loop", start_memory=start)
    assert "memory.distance" not in folder.arrays("checkpoint")
    checkpoint = load_checkpoint(folder, start)
    assert checkpoint is not None and equal_states(checkpoint.state, state)


def test_without_a_checkpoint_a_run_starts_at_round_0(tmp_path: Path) -> None:
    assert load_checkpoint(RunFolder(tmp_path), {}) is None
    assert stored_round(RunFolder(tmp_path)) == 0


def test_a_start_resumes_at_the_stored_round_if_its_records_are_complete(
    folder: RunFolder,
) -> None:
    assert stored_round(folder) == 2
    folder.truncate("rounds.jsonl", folder.size("rounds.jsonl") - 1)
    assert stored_round(folder) == 0


def test_another_format_is_refused(folder: RunFolder) -> None:
    change_header(folder, format=99)
    with pytest.raises(OutputError, match="has format 99, this version reads 1"):
        load_checkpoint(folder, START)


def test_a_missing_entry_is_named(folder: RunFolder) -> None:
    change_header(folder, round=None)
    with pytest.raises(OutputError, match="lacks 'round'; remove the run's folder"):
        load_checkpoint(folder, START)
    assert stored_round(folder) == 0


def test_a_damaged_file_is_no_stored_round(folder: RunFolder) -> None:
    (folder.path / "checkpoint.npz").write_bytes(b"PK damaged")
    assert stored_round(folder) == 0
    with pytest.raises(OutputError, match=r"checkpoint.npz is damaged"):
        load_checkpoint(folder, START)


def with_table(count: int) -> State:
    vectors = {"stale": ClientTable.zeros(count), "mean": torch.zeros(2)}
    return State(0, torch.zeros(2), np.zeros(count, dtype=np.int64), {}, {}, vectors)


def test_tables_are_in_files_from_a_number_of_numbers_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_module, "MAPPED_NUMBERS", 10)
    for count, files in ((4, []), (5, ["table-stale.bin"])):
        folder = RunFolder(tmp_path / str(count))
        folder.path.mkdir()
        state = with_table_files(folder, with_table(count))
        table = state.vectors["stale"]
        assert isinstance(table, ClientTable)
        table = table.replaced(np.array([1]), torch.ones(1, 2))
        assert [path.name for path in folder.path.iterdir()] == files
        save_checkpoint(
            folder, replace(state, vectors={"stale": table}), engine="loop", start_memory={}
        )
        assert ("table.stale.values" in folder.arrays("checkpoint")) == (not files)
        checkpoint = load_checkpoint(folder, {})
        assert checkpoint is not None
        again = checkpoint.state.vectors["stale"]
        assert isinstance(again, ClientTable)
        rows = again.stacked(np.arange(count), like=torch.zeros(2)).tolist()
        assert rows == [[0, 0], [1, 1], *[[0, 0]] * (count - 2)]


def test_a_run_that_starts_anew_removes_the_checkpoint_that_refers_to_its_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_module, "MAPPED_NUMBERS", 1)
    folder = RunFolder(tmp_path)
    first = with_table_files(folder, with_table(3))
    save_checkpoint(folder, first, engine="loop", start_memory={})
    with_table_files(folder, with_table(3))
    assert load_checkpoint(folder, {}) is None


def test_the_name_of_a_table_may_hold_any_character(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_module, "MAPPED_NUMBERS", 1)
    state = replace(with_table(3), vectors={"a/../b": ClientTable([torch.ones(2)] * 3)})
    placed = with_table_files(RunFolder(tmp_path), state)
    assert [path.name for path in tmp_path.iterdir()] == ["table-a%2F..%2Fb.bin"]
    save_checkpoint(RunFolder(tmp_path), placed, engine="loop", start_memory={})
    checkpoint = load_checkpoint(RunFolder(tmp_path), {})
    assert checkpoint is not None and list(checkpoint.state.vectors) == ["a/../b"]
