"""Worker processes serve any program.

They do not import its main module, and what it defines reaches them.
"""

import code
import logging
import os
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest
import torch

import fedgs
from fedgs.data import Federation
from fedgs.experiments import workers
from fedgs.experiments.compare import compare

# Every kind of part, defined in the main module of a script without a guard.
SCRIPT = """
import enum, os, sys, types
from pathlib import Path
import numpy as np
from pydantic import Field, field_validator
from torch import nn
import fedgs
import neighbour
from fedgs.availability import Availability
from fedgs.data import Data
from fedgs.experiments.grid import build_config
from fedgs.experiments.preparing import prepare
from fedgs.experiments.runner import run_all
from fedgs.machine import physical_cores
from fedgs.registry import build

with open("starts.txt", "a") as file:
    file.write("started\\n")
OFFSET = 1
rng = np.random.default_rng(0)
x = rng.normal(size=(60, 1, 4, 4)).astype(np.float32)
y, client = rng.integers(0, 3, 60), rng.integers(0, 6, 60)

handmade = types.ModuleType("handmade")
exec("def first(view):\\n    return view.available[: view.cohort_limit]", handmade.__dict__)
sys.modules["handmade"] = handmade

def here():
    with open(f"pid-{os.getpid()}", "a"):
        pass

class Side(enum.Enum):
    LEFT = "left"
    RIGHT = "right"

@fedgs.sampler("script-first")
def first(view, rng, *, skip: int = 0):
    here()
    return fedgs.Selection(handmade.first(view)[skip:])

class Last(fedgs.Sampler):
    side: Side = Field(default=Side.RIGHT, strict=False)
    weights: np.ndarray = Field(exclude=True)

    @field_validator("side")
    @classmethod
    def _known(cls, value):
        return Side(value)

    def select(self, view, rng):
        assert self.side is Side.RIGHT and self.weights.shape == (6,) and OFFSET == 1
        return fedgs.Selection(view.available[-view.cohort_limit:])

class Inherited(fedgs.MD):
    def select(self, view, rng):
        # By its name, in the worker too.
        assert type(build("method", "script-first")).__name__ == "first"
        return super().select(view, rng)

class Panel(Availability):
    matrix: np.ndarray = Field(exclude=True)
    def rates(self, round, clients):
        return self.matrix[:, round].astype(float)

class Mine(Data):
    scale: float = 1.0
    def load(self, data_dir=None):
        scaled = x * self.scale
        return fedgs.Federation.from_arrays(scaled, y, client=client, test=(x, y), name="mine")

@fedgs.model("script-net")
def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 3))

def wide(width):
    def build():
        return nn.Sequential(nn.Flatten(), nn.Linear(16, width), nn.Linear(width, 3))
    return build

panel = Panel(matrix=np.arange(18).reshape(6, 3) % 4 > 0)
np.save("who.npy", panel.matrix)
from_file = fedgs.AvailabilityFile(path="who.npy")
common = {"data": Mine(scale=2.0), "training": {"rounds": 3, "local_steps": 1},
          "execution": {"engine": "loop", **({} if physical_cores() > 1 else {"workers": 2})}}
parts = [
    {"method": first, "availability": panel, "model": net},
    {"method": {"name": "script-first", "skip": 1}, "availability": "LDF", "model": "script-net"},
    {"method": Last(weights=np.ones(6)), "availability": from_file, "model": wide(4)},
    {"method": Inherited(), "availability": panel, "model": wide(5)},
    {"method": neighbour.middle, "availability": neighbour.Half(), "model": neighbour.net},
    {"method": "md", "availability": "IDL", "model": "logistic"},
]
from fedgs.models import as_model
configs = [build_config({**common, **part, "model": as_model(part["model"])}) for part in parts]
spread = run_all(prepare(configs))
print("processes", len(list(Path().glob("pid-*"))), Path(f"pid-{os.getpid()}").exists())
one_process = {"execution": fedgs.Execution(engine="loop", workers=1)}
alone = run_all(prepare([config.model_copy(update=one_process) for config in configs]))
print("failures", [run.failure for run in spread if run.failure])
pairs = zip(spread, alone)
same = [a.records == b.records and a.config["method"] == b.config["method"] for a, b in pairs]
print("same", same)
print("tables", [run.config["data"] for run in spread][0])
"""
NEIGHBOUR = """
import numpy as np
import fedgs
from fedgs.availability import Availability
from torch import nn

@fedgs.sampler("neighbour-middle")
def middle(view, rng):
    return view.available[1 : 1 + view.cohort_limit]

class Half(Availability):
    def rates(self, round, clients):
        return np.full(len(clients), 0.5)

def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
"""

# One sampler of the main module, two runs in two workers; no compound statement at the end, so that
# a REPL takes it too.
SHORT = """
import os, numpy as np, fedgs
starts = os.open("starts.txt", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
_ = os.write(starts, b"started\\n"), os.close(starts)
x, y = np.eye(8, dtype=np.float32), np.arange(8) % 2
federation = fedgs.Federation.from_arrays(x, y, client=np.arange(8) % 4, test=(x, y))
def note(): return open(f"pid-{os.getpid()}", "a").close()

@fedgs.sampler("mine")
def mine(view, rng, *, skip: int = 0): return (note(), view.available[skip:view.cohort_limit])[1]

methods = {"a": {"name": "mine"}, "b": {"name": "mine", "skip": 1}}
training = {"rounds": 2, "cohort_limit": 2, "local_steps": 1}
settings = {"training": training, "execution": {"workers": 2, "engine": "loop"}}
runs = fedgs.compare(federation, methods=methods, availability="IDL", **settings).runs
cohorts, noted = [run.records[0].cohort for run in runs], os.path.exists(f"pid-{os.getpid()}")
print("finished", [run.finished for run in runs], cohorts, noted)
"""
SHORT_OUTPUT = "finished [True, True] [[0, 1], [1]] False"


def python(folder: Path, *arguments: str, stdin: str | None = None) -> str:
    source = str(Path(fedgs.__file__).parents[1])
    path = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.long
def test_every_kind_of_part_of_a_script_without_a_guard_works_in_workers(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "neighbour.py").write_text(NEIGHBOUR)
    lines = dict(line.split(" ", 1) for line in python(tmp_path, "script.py").splitlines())
    assert lines["failures"] == "[]"
    assert lines["same"] == str([True] * 6)
    assert lines["tables"] == "{'seed': 0, 'scale': 2.0}"
    assert int(lines["processes"].split()[0]) >= 1 and lines["processes"].endswith("False")
    assert (tmp_path / "starts.txt").read_text() == "started\n"


@pytest.mark.long
@pytest.mark.parametrize("kind", ["stdin", "module", "command", "interactive"])
def test_workers_do_not_start_the_main_module_again(kind: str, tmp_path: Path) -> None:
    (tmp_path / "short.py").write_text(SHORT)
    arguments, stdin = {
        "module": (["-m", "short"], None),
        "stdin": (["-"], SHORT),
        "command": (["-c", SHORT], None),
        "interactive": (["-i", "-q"], SHORT),
    }[kind]
    assert SHORT_OUTPUT in python(tmp_path, *arguments, stdin=stdin)
    assert (tmp_path / "starts.txt").read_text() == "started\n"


@pytest.mark.long
def test_a_notebook_whose_main_module_has_no_file_uses_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", notebook)
    monkeypatch.chdir(tmp_path)
    shell = code.InteractiveInterpreter(notebook.__dict__)
    for cell in SHORT.split("\n\n"):
        shell.runcode(compile(cell, "<cell>", "exec"))  # type: ignore[arg-type]
    assert SHORT_OUTPUT in capsys.readouterr().out
    assert (tmp_path / "starts.txt").read_text() == "started\n"


@pytest.mark.parametrize("part", ["method", "availability", "model"])
def test_runs_with_a_part_that_cannot_be_sent_stay_in_this_process(
    part: str, toy_federation: Federation, caplog: pytest.LogCaptureFixture
) -> None:
    lock, processes = threading.Lock(), set()

    def used() -> None:
        with lock:
            processes.add(os.getpid())

    @fedgs.sampler("locked")
    def locked(view: fedgs.View, rng: object) -> fedgs.Selection:
        used()
        return fedgs.Selection(view.available[: view.cohort_limit])

    class Locked(fedgs.Ideal):
        def rates(self, round, clients):  # type: ignore[no-untyped-def]
            used()
            return super().rates(round, clients)

    def net() -> torch.nn.Module:
        used()
        return torch.nn.Linear(6, 3)

    settings = {
        "method": {"methods": [locked, "md"]},
        "availability": {"availability": Locked()},
        "model": {"model": net},
    }[part]
    with caplog.at_level(logging.WARNING, logger="fedgs"):
        runs = compare(
            toy_federation,
            **{"methods": ["uniform", "md"], **settings},
            training={"rounds": 2, "local_steps": 1},
            execution={"workers": 2, "engine": "loop"},
        ).runs
    assert all(run.finished for run in runs)
    assert processes == {os.getpid()}
    (warning,) = [
        record.getMessage()
        for record in caplog.records
        if "stay in this process" in record.getMessage()
    ]
    assert f"{part} '" in warning and "cannot pickle '_thread.lock' object" in warning


def test_runs_stay_in_this_process_where_the_temporary_folder_is_full(
    toy_federation: Federation, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object) -> None:
        raise OSError("296280 requested and 718 written")  # as NumPy says it

    monkeypatch.setattr("fedgs.experiments.transfer.to_folder", full)
    with caplog.at_level(logging.WARNING, logger="fedgs"):
        runs = compare(
            toy_federation,
            methods=["uniform", "md"],
            training={"rounds": 2},
            execution={"workers": 2},
        ).runs
    assert [len(run.records) for run in runs] == [3, 3]
    assert "the disk may be full" in caplog.text
    assert "TMPDIR" in caplog.text


@pytest.mark.long
def test_a_thread_of_the_users_that_does_not_end_is_not_waited_for(
    toy_federation: Federation, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "EXIT_SECONDS", 0.5)

    @fedgs.sampler("threaded")
    def threaded(view: fedgs.View, rng: object) -> fedgs.Selection:
        threading.Thread(target=time.sleep, args=(60,)).start()
        return fedgs.Selection(view.available[: view.cohort_limit])

    begun = time.monotonic()
    runs = compare(
        toy_federation, methods=[threaded, "md"], training={"rounds": 1}, execution={"workers": 2}
    ).runs
    assert time.monotonic() - begun < 50
    assert [len(run.records) for run in runs] == [2, 2]
    assert caplog.text == ""
