"""Ctrl-C, SIGTERM and SIGKILL at any time.

Whole rounds are saved, a message says how to resume, and no process stays behind.
"""

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch

import fedgs
from fedgs.checkpoint import State, load_checkpoint
from fedgs.clients import Clients
from fedgs.data import Federation
from fedgs.experiments import sinks
from fedgs.experiments.compare import compare
from fedgs.experiments.crew import Progress
from fedgs.experiments.grid import expand, parse_override
from fedgs.experiments.preparing import prepare
from fedgs.experiments.runner import run_all
from fedgs.experiments.sinks import FolderSink
from fedgs.records import Record, RunFolder
from fedgs.registry import load_plugin

PATIENCE = 60.0  # for what takes a second or two on a machine that does nothing else


def started(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    """A process in a session of its own, with its temporary files in the folder."""
    (folder / "scratch").mkdir(exist_ok=True)
    path = os.pathsep.join(
        [str(Path(fedgs.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "TMPDIR": str(folder / "scratch"),
        "OMP_NUM_THREADS": "1",
        "SLOW": "1",
    }
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Tests that a shell runs in the background ignore the signal, and so would this process.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def wait_until(true: Callable[[], Any], process: "subprocess.Popen[str]") -> None:
    until = time.monotonic() + PATIENCE
    while not true():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self/stat").exists()


def workers_of(folder: Path, kind: str) -> list[int]:
    return [int(path.name.removeprefix(kind)) for path in folder.glob(f"{kind}*")]


@pytest.fixture
def leaves_nothing(tmp_path: Path) -> Iterator[Path]:
    """A folder; all processes that noted their number in it must end by themselves."""
    yield tmp_path
    until = time.monotonic() + PATIENCE
    pids = workers_of(tmp_path, "worker-") + workers_of(tmp_path, "loading-")
    assert pids
    try:
        while any(is_running(pid) for pid in pids):
            assert time.monotonic() < until, "processes are left"
            time.sleep(0.02)
    finally:
        for pid in filter(is_running, pids):
            os.kill(pid, signal.SIGKILL)
    assert list((tmp_path / "scratch").glob("fedgs-*")) == []


SLOW = """
import os, time
from pathlib import Path
import fedgs

@fedgs.sampler("slow")
def slow(view, rng, *, skip: int = 0):
    if "SLOW" in os.environ:
        Path(f"worker-{os.getpid()}").touch()
        time.sleep(0.02)
    return view.available[skip : view.cohort_limit]
"""
LOADING = """
import os, time
from pathlib import Path
import fedgs

if "LOADED" in os.environ:
    Path(f"loading-{os.getpid()}").touch()
    time.sleep(300)
os.environ["LOADED"] = "1"

@fedgs.sampler("loading")
def loading(view, rng, *, skip: int = 0):
    return view.available[skip : view.cohort_limit]
"""
STUDY = """
import numpy as np, fedgs, loading
x, y = np.eye(8, dtype=np.float32), np.arange(8) % 2
federation = fedgs.Federation.from_arrays(x, y, client=np.arange(8) % 4, test=(x, y))
methods = {"a": {"name": "loading"}, "b": {"name": "loading", "skip": 1}}
settings = {"training": {"rounds": 2}, "execution": {"workers": 2}}
fedgs.compare(federation, methods=methods, **settings, out="out")
"""


@pytest.mark.long
def test_an_interrupt_while_workers_load_ends_them_without_a_word_of_theirs(
    leaves_nothing: Path,
) -> None:
    folder = leaves_nothing
    (folder / "loading.py").write_text(LOADING)
    (folder / "study.py").write_text(STUDY)
    study = started(folder, "study.py")
    wait_until(lambda: len(workers_of(folder, "loading-")) == 2, study)
    os.killpg(study.pid, signal.SIGINT)  # as a terminal does
    _, errors = study.communicate(timeout=PATIENCE)
    assert study.returncode == -signal.SIGINT
    assert errors.count("Traceback") == 1 and "loading.py" not in errors
    assert errors.endswith(
        "KeyboardInterrupt: the same call with out='out' resumes where this one stopped\n"
    )


COMMAND = ["-m", "fedgs", "run", "--plugin", "slow.py", "--out", "out"]
SETTINGS = [
    'method=[{name="slow"}, {name="slow", skip=1}]',
    "seed=0",
    "data.clients=6",
    "training.local_steps=1",
    "training.cohort_limit=3",
    "execution.engine=loop",
    "execution.checkpoint_every=100000",
    "availability=IDL",
]


def options(*settings: str) -> list[str]:
    return [word for setting in (*SETTINGS, *settings) for word in ("--set", setting)]


def stored(folder: Path) -> list[int]:
    """Rounds in the checkpoints, which belong to the records."""
    rounds = []
    for path in sorted((folder / "out").glob("*/config.toml")):
        run = RunFolder(path.parent)
        checkpoint = load_checkpoint(run, {})
        rounds.append(0 if checkpoint is None else checkpoint.state.round)
        assert checkpoint is None or checkpoint.records_bytes == run.size("rounds.jsonl")
        assert len(run.records()) == rounds[-1]
    return rounds


def has_written(folder: Path) -> bool:
    """Whether both runs have rounds on disk that no checkpoint has."""
    runs = [RunFolder(path.parent) for path in (folder / "out").glob("*/config.toml")]
    checkpoints = [load_checkpoint(run, {}) for run in runs]
    before = [0 if checkpoint is None else checkpoint.records_bytes for checkpoint in checkpoints]
    return len(runs) == 2 and all(
        run.size("rounds.jsonl") > size for run, size in zip(runs, before, strict=True)
    )


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX signals")
@pytest.mark.long
def test_workers_save_their_runs_however_the_study_ends_and_the_next_start_says_that_they_resume(
    leaves_nothing: Path,
) -> None:
    folder = leaves_nothing
    (folder / "slow.py").write_text(SLOW)
    before = [0, 0]
    for number, workers, code, said in (
        (
            signal.SIGINT,
            2,
            130,
            "fedgs: interrupted; the same command resumes where this one stopped\n",
        ),
        (
            signal.SIGTERM,
            1,
            143,
            "fedgs: terminated; the same command resumes where this one stopped\n",
        ),
        (signal.SIGKILL, 2, -9, ""),
    ):
        study = started(
            folder, *COMMAND, *options("training.rounds=100000", f"execution.workers={workers}")
        )
        wait_until(lambda: has_written(folder), study)
        study.send_signal(number)  # to the study alone
        printed, errors = study.communicate(timeout=PATIENCE)
        assert study.returncode == code and "Traceback" not in errors
        assert errors.endswith(said)
        low, high = min(before), max(before)
        where = f"round {low}" if low == high else f"rounds {low} to {high}"
        assert (f"2 of 2 runs resume at {where}\n" in printed) == (before != [0, 0])
        until = time.monotonic() + PATIENCE
        while any(
            is_running(pid) for pid in workers_of(folder, "worker-")
        ):  # after SIGKILL nobody waits for them
            assert time.monotonic() < until
            time.sleep(0.02)
        now = stored(folder)
        assert all(later > earlier for later, earlier in zip(now, before, strict=True))
        before = now
    rounds = min(before)
    load_plugin(folder / "slow.py")
    settings = [
        parse_override(text)
        for text in (*SETTINGS, f"training.rounds={rounds}", "execution.workers=1")
    ]
    run_all(prepare(expand(None, settings).configs), out=folder / "unbroken")
    for path in (folder / "unbroken").glob("*/rounds.jsonl"):
        lines = path.read_text().splitlines()[:-1]
        broken = (folder / "out" / path.parent.name / "rounds.jsonl").read_text().splitlines()
        assert lines == broken[: len(lines)] and len(lines) == rounds


def test_an_interrupted_call_says_how_to_resume_and_the_next_one_what_resumes(
    toy_federation: Federation, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.rounds == 9:
            raise KeyboardInterrupt

    settings: dict[str, Any] = {
        "methods": ["uniform", "md"],
        "training": {"rounds": 8, "local_steps": 1},
        "out": tmp_path,
    }
    with pytest.raises(KeyboardInterrupt) as stopped:
        compare(toy_federation, **settings, on_progress=interrupt)
    assert (
        str(stopped.value)
        == f"the same call with out={str(tmp_path)!r} resumes where this one stopped"
    )
    assert type(stopped.value) is KeyboardInterrupt  # Python ends by SIGINT for this type alone
    with caplog.at_level("INFO", logger="fedgs.runs"):
        assert all(run.finished for run in compare(toy_federation, **settings).runs)
    assert [record.getMessage() for record in caplog.records] == [
        "2 of 2 runs resume at rounds 4 to 5"
    ]
    caplog.clear()
    with caplog.at_level("INFO", logger="fedgs.runs"):
        compare(toy_federation, **settings)
    assert caplog.records == []
    with pytest.raises(KeyboardInterrupt) as stopped:
        compare(toy_federation, **{**settings, "out": None}, on_progress=interrupt)
    assert str(stopped.value) == ""  # nothing was stored


# An interrupt between the opening of a file and its `with` leaves the file to the collector.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_line_of_the_writing_leaves_records_that_belong_to_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(sinks, "FLUSH_SECONDS", -1.0)
    states = [State(t, torch.full((2,), float(t)), np.array([t]), {}) for t in range(5)]

    def drive(sink: FolderSink) -> None:
        for t in range(4):
            sink.on_round(states[t + 1], Record(t), {"train": 1.0})
        sink.on_end(states[4], Record(4), {})

    for line in itertools.count(1):
        folder = RunFolder(tmp_path / str(line))
        clients = Clients(("a",), np.array([3]))
        folder.create({"seed": 0}, clients, {})
        sink = FolderSink(folder, clients, "loop", {}, 3)
        left = line

        def interrupt_at_a_line(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal left
            if frame.f_code.co_filename not in (
                sinks.__file__,
                sys.modules[RunFolder.__module__].__file__,
            ):
                return None
            if event == "line":
                left -= 1
                if left == 0:
                    sys.settrace(None)
                    raise KeyboardInterrupt
            return interrupt_at_a_line

        tracer = sys.gettrace()
        try:
            sys.settrace(interrupt_at_a_line)
            drive(sink)
        except KeyboardInterrupt:
            sys.settrace(tracer)
            sink.interrupt()
        finally:
            sys.settrace(tracer)
        if left > 0:
            break
        checkpoint = load_checkpoint(folder, {})
        if checkpoint is None:
            assert sink._state is None
            continue
        assert sink._state is not None and checkpoint.state.round == sink._state.round
        text = (folder.path / "rounds.jsonl").read_bytes()[: checkpoint.records_bytes].decode()
        assert text == "".join(Record(t).to_json() + "\n" for t in range(checkpoint.state.round))
        last = folder.last_record()
        assert last is None or last.round < 4 or checkpoint.state.round == 4
    assert line > 50
