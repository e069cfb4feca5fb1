"""When a run's records and checkpoints reach the disk."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fedgs.checkpoint import State, load_checkpoint
from fedgs.clients import Clients
from fedgs.experiments import sinks
from fedgs.experiments.sinks import FolderSink
from fedgs.records import Record, RunFolder

CLIENTS = Clients(("a",), np.array([3]))


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "run")
    made.create({"seed": 0}, CLIENTS, {})
    return made


def after(round: int) -> tuple[State, Record]:
    return State(round + 1, torch.zeros(2), np.array([round]), {}), Record(round)


def stored_round(folder: RunFolder) -> int | None:
    checkpoint = load_checkpoint(folder, {})
    return None if checkpoint is None else checkpoint.state.round


def test_without_a_number_of_rounds_checkpoints_come_by_time(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = FolderSink(folder, CLIENTS, "loop", {}, None)
    sink.on_round(*after(0), {})
    assert stored_round(folder) is None  # ten seconds have not passed
    monkeypatch.setattr(sinks, "CHECKPOINT_SECONDS", -1.0)
    sink.on_round(*after(1), {})
    assert stored_round(folder) == 2 and len(folder.records()) == 2


def test_with_a_number_of_rounds_time_plays_no_part(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "CHECKPOINT_SECONDS", -1.0)
    sink = FolderSink(folder, CLIENTS, "loop", {}, 3)
    rounds = []
    for t in range(4):
        sink.on_round(*after(t), {})
        rounds.append(stored_round(folder))
    assert rounds == [None, None, 3, 3]


def test_an_interrupted_run_saves_its_last_round_also_where_its_lines_are_written_already(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "FLUSH_SECONDS", -1.0)
    sink = FolderSink(folder, CLIENTS, "loop", {}, None)
    for t in range(3):
        sink.on_round(*after(t), {})
    assert len(folder.records()) == 3 and stored_round(folder) is None
    sink.interrupt()
    assert stored_round(folder) == 3
