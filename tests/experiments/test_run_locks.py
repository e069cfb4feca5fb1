"""One writer at a time of each run in a shared folder, with and without locks of the system."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.experiments.test_locks import no_lock

from fedgs.errors import OutputError
from fedgs.experiments import lock_files
from fedgs.experiments.output import claim
from fedgs.experiments.runner import part_of

HOLD = """
import fcntl, sys, time
from pathlib import Path
from fedgs.experiments.output import claim
if sys.argv[1] == "False":
    def flock(*arguments): raise OSError(38, "Function not implemented")
    fcntl.flock = flock
with claim(Path("out"), sys.argv[2].split(",") if sys.argv[2] else None):
    print("held", flush=True)
    time.sleep(60)
"""


@contextlib.contextmanager
def holding(
    folder: Path, runs: str, *, locks: bool, monkeypatch: pytest.MonkeyPatch
) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds these runs of `folder / "out"`, or the whole folder."""
    if not locks:
        no_lock(monkeypatch, "ENOSYS")
    command = [sys.executable, "-c", HOLD, str(locks), runs]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None and other.stdout.readline() == "held\n"
            yield other
        finally:
            other.kill()
            other.wait(10)


@pytest.mark.parametrize("locks", [True, False])
def test_each_run_has_one_writer(
    locks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    with holding(tmp_path, "a,b", locks=locks, monkeypatch=monkeypatch):
        with claim(out, ["c", "d"]):
            pass
        with pytest.raises(OutputError, match=r"is writing to '.*out/b'"):
            claim(out, ["c", "b"]).__enter__()
        with claim(out, ["c"]):  # what was taken before the refusal is free again
            pass
        with pytest.raises(OutputError, match=r"is writing to '.*out'"):
            claim(out).__enter__()
    with claim(out, ["a", "b"]):  # the process was killed
        pass
    with claim(out):
        pass
    assert {path.name for path in out.iterdir()} <= {"fedgs.json", ".fedgs.runs"}


@pytest.mark.parametrize("locks", [True, False])
def test_who_holds_the_whole_folder_keeps_parts_out(
    locks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        holding(tmp_path, "", locks=locks, monkeypatch=monkeypatch),
        pytest.raises(OutputError, match=r"is writing to '.*out'"),
    ):
        claim(tmp_path / "out", ["a"]).__enter__()


def test_a_lock_file_is_touched_while_it_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_files, "TOUCH_SECONDS", 0.01)
    no_lock(monkeypatch, "ENOSYS")
    with claim(tmp_path, ["a"]):
        path = tmp_path / ".fedgs.runs.a"
        os.utime(path, (0, 0))
        until = time.monotonic() + 10
        while path.stat().st_mtime == 0 and time.monotonic() < until:
            time.sleep(0.01)
        assert time.time() - path.stat().st_mtime < 5
    assert not path.exists()
    assert threading.active_count() == 1 or "_touch" not in str(threading.enumerate())


@given(st.integers(0, 30), st.integers(1, 12))
def test_parts_hold_each_run_once(runs: int, parts: int) -> None:
    dealt = [part_of(range(runs), (number, parts)) for number in range(1, parts + 1)]
    assert sorted(run for part in dealt for run in part) == list(range(runs))
    sizes = [len(part) for part in dealt]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.long
@pytest.mark.parametrize("locks", [True, False])
def test_parts_that_begin_at_the_same_time_all_begin(locks: bool, tmp_path: Path) -> None:
    for attempt in range(5):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        commands = [[sys.executable, "-c", HOLD, str(locks), f"run{i}"] for i in range(6)]
        started = [
            subprocess.Popen(
                one, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for one in commands
        ]
        try:
            for process in started:
                assert process.stdout is not None and process.stderr is not None
                assert process.stdout.readline() == "held\n", process.stderr.read()
        finally:
            for process in started:
                process.kill()
                process.communicate()
