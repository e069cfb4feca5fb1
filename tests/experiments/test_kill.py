"""A real SIGKILL at five phases of a round.

Started again, the run's records are those of an unbroken run, byte for byte.
"""

import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.commands import fedgs

# Loaded as a plug-in: wraps one function of the package so that its n-th call kills the process,
# once.
KILLER = """
import os, signal
from pathlib import Path

import numpy as np

phase, marker = os.environ.get("KILL_PHASE"), Path(os.environ.get("KILL_MARKER", "unused"))
calls = {"n": 0}

def due(n):
    calls["n"] += 1
    if calls["n"] != n or marker.exists():
        return False
    marker.touch()
    return True

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def before(owner, name, n):
    original = getattr(owner, name)
    def wrapped(*arguments, **named):
        if due(n):
            die()
        return original(*arguments, **named)
    setattr(owner, name, wrapped)

if phase == "selection":
    from fedgs.sampling import Uniform
    before(Uniform, "select", 6)
elif phase == "training":
    from fedgs.aggregation import WeightedMean
    before(WeightedMean, "add", 11)  # some clients of a round have trained, others have not
elif phase == "aggregation":
    from fedgs.aggregation import WeightedMean
    before(WeightedMean, "finish", 6)
elif phase == "record":
    from fedgs.records import RunFolder
    append = RunFolder.append
    def half(self, name, lines):
        if lines and due(3):
            with (self.path / name).open("a") as file:
                file.write(lines[0][: len(lines[0]) // 2])
            die()
        append(self, name, lines)
    RunFolder.append = half
elif phase == "checkpoint":
    savez = np.savez
    def torn(file, **arrays):
        if "header" in arrays and due(2):
            file.write(b"half a checkpoint")
            file.flush()
            die()
        savez(file, **arrays)
    np.savez = torn
elif phase == "row":
    from fedgs.aggregation.row_file import RowFile
    row = RowFile._row
    def torn_row(self, place):
        values = row(self, place)
        if due(8):
            values[: len(values) // 2] = np.nan
            die()
        return values
    RowFile._row = torn_row
elif phase == "rows-synced":
    import fedgs.checkpoint
    before(fedgs.checkpoint, "save_arrays", 3)  # the rows are on the disk, the checkpoint is not
elif phase == "checkpoint-written":
    from fedgs.aggregation import ClientTable
    before(ClientTable, "keep", 2)

if os.environ.get("KILL_MAPPED"):
    import fedgs.checkpoint
    fedgs.checkpoint.MAPPED_NUMBERS = 0  # also small tables are in files
"""
SETTINGS = [
    "method=uniform",
    "seed=0",
    "data.clients=6",
    "training.rounds=9",
    "training.proportion=0.5",
    "execution.checkpoint_every=2",
    "execution.engine=loop",
]
WORDS = [
    *["run", "--plugin", "killer.py", "--out", "out"],
    *[argument for setting in SETTINGS for argument in ("--set", setting)],
]


STUDY = [
    "--set",
    'method=["fedgs", "md"]',
    "--set",
    "seed=[0, 1]",
    "--set",
    "execution.engine=auto",
]


def run(folder: Path, phase: str | None, more: Sequence[str] = (), *, mapped: bool = False) -> int:
    environment = {"KILL_MARKER": str(folder / "killed"), "KILL_PHASE": phase or ""}
    if mapped:
        environment["KILL_MAPPED"] = "1"
    done = fedgs(folder, *WORDS, *more, **environment)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def records(folder: Path) -> dict[str, bytes]:
    return {
        file.parent.name: file.read_bytes()
        for file in sorted((folder / "out").rglob("rounds.jsonl"))
    }


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("unbroken")
    (folder / "killer.py").write_text(KILLER)
    assert run(folder, None) == 0
    return records(folder)


LONG = [
    pytest.param(phase, marks=pytest.mark.long)
    for phase in ("selection", "training", "aggregation", "record")
]


@pytest.mark.parametrize("phase", ["checkpoint", *LONG])
def test_a_killed_run_goes_on_to_the_same_records(
    phase: str, unbroken: dict[str, bytes], tmp_path: Path
) -> None:
    (tmp_path / "killer.py").write_text(KILLER)
    assert run(tmp_path, phase) == -signal.SIGKILL
    assert (tmp_path / "killed").exists()
    assert records(tmp_path) != unbroken
    assert run(tmp_path, phase) == 0
    assert records(tmp_path) == unbroken


@pytest.mark.long
def test_a_killed_study_of_several_stacked_runs_goes_on_too(tmp_path: Path) -> None:
    for name in ("unbroken", "broken"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "killer.py").write_text(KILLER)
    assert run(tmp_path / "unbroken", None, STUDY) == 0
    assert run(tmp_path / "broken", "checkpoint", STUDY) == -signal.SIGKILL
    assert run(tmp_path / "broken", "checkpoint", STUDY) == 0
    assert records(tmp_path / "broken") == records(tmp_path / "unbroken")
    assert len(records(tmp_path / "broken")) == 4


TABLES = [
    ("row", "stale"),
    ("rows-synced", "gossip"),
    ("checkpoint", "scaffold"),
    ("checkpoint-written", "scaffold"),
]


@pytest.mark.long
@pytest.mark.parametrize(("phase", "aggregation"), TABLES)
def test_a_killed_run_with_a_table_in_a_file_goes_on_to_the_same_records(
    phase: str, aggregation: str, tmp_path: Path
) -> None:
    more = ["--set", f"aggregation={aggregation}", "--set", "method.weighting=equal"]
    more += ["--set", "training.objective=equal"]
    for name in ("memory", "broken"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "killer.py").write_text(KILLER)
    assert run(tmp_path / "memory", None, more) == 0
    assert run(tmp_path / "broken", phase, more, mapped=True) == -signal.SIGKILL
    assert records(tmp_path / "broken") != records(tmp_path / "memory")
    assert len(list((tmp_path / "broken").rglob("table-*.bin"))) == 1
    assert run(tmp_path / "broken", phase, more, mapped=True) == 0
    assert records(tmp_path / "broken") == records(tmp_path / "memory")
