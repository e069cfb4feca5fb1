"""One writer at a time in an output folder, with and without locks of the file system."""

import errno
import fcntl
import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fedgs.data import Federation
from fedgs.errors import OutputError
from fedgs.experiments.compare import compare
from fedgs.experiments.locks import LOCK_FILE
from fedgs.experiments.output import claim

WITHOUT_LOCKS = ["ENOSYS", "ENOTSUP", "EOPNOTSUPP", "ENOLCK", "EINVAL"]


def no_lock(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    def flock(*arguments: Any) -> None:
        number = getattr(errno, code)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)


@pytest.mark.parametrize("code", WITHOUT_LOCKS)
def test_a_lock_file_takes_the_place_of_locks_that_the_system_does_not_have(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_lock(monkeypatch, code)
    with claim(tmp_path / "out"):
        about = json.loads((tmp_path / "out" / LOCK_FILE).read_text())
        assert (about["host"], about["pid"]) == (socket.gethostname(), os.getpid())
        writer = rf"process {os.getpid()} on .* is writing to '.*out'"
        with pytest.raises(OutputError, match=rf"{writer}; .* remove .*{re.escape(LOCK_FILE)}'"):
            claim(tmp_path / "out").__enter__()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["fedgs.json"]
    with claim(tmp_path / "out"):
        pass


def test_runs_are_written_where_there_are_no_locks(
    toy_federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_lock(monkeypatch, "ENOSYS")
    for rounds in (2, 3):
        (run,) = compare(
            toy_federation,
            methods=["md"],
            training={"rounds": rounds, "local_steps": 1},
            out=tmp_path,
        ).runs
        assert run.finished and len(run.records) == rounds + 1
    assert not (tmp_path / LOCK_FILE).exists()


def test_both_kinds_of_lock_exclude_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as without:
        no_lock(without, "ENOLCK")
        held = claim(tmp_path)
        held.__enter__()
    with pytest.raises(OutputError, match=f"process {os.getpid()} on"):
        claim(tmp_path).__enter__()
    held.__exit__(None, None, None)
    with claim(tmp_path):
        pass


HOLD = """
import fcntl, sys, time
from pathlib import Path
from fedgs.experiments.output import claim
def flock(*arguments): raise OSError(38, "Function not implemented")
fcntl.flock = flock
with claim(Path("out")):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("locks", [True, False])
def test_the_lock_file_of_a_process_excludes_others_until_it_is_killed(
    locks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not locks:
        no_lock(monkeypatch, "ENOSYS")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as other:
        try:
            assert other.stdout is not None and other.stdout.readline() == "held\n"
            with pytest.raises(
                OutputError,
                match=rf"process {other.pid} on {re.escape(socket.gethostname())} is writing",
            ):
                claim(tmp_path / "out").__enter__()
        finally:
            other.kill()
            other.wait(10)
    assert (tmp_path / "out" / LOCK_FILE).exists()
    with claim(tmp_path / "out"):
        pass
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["fedgs.json"]


def stored(**about: Any) -> str:
    return json.dumps(
        {"host": socket.gethostname(), "pid": os.getpid(), "started": "1", "token": "t", **about}
    )


@pytest.mark.parametrize(
    ("content", "age", "free"),
    [
        (stored(), 0, True),  # the number of this process, given to another one before
        (stored(host="another"), 600, False),
        (stored(host="another"), 1000, True),  # a live process touches its lock file
        (stored(pid=2**40), 0, True),  # no process has such a number
        (stored(started=None), 0, False),
        ("", 0, False),
        ("", 3600, True),
        ('{"host": 3}', 0, False),
        ('["host"]', 3600, True),
        (stored(pid=-1), 3600, True),
    ],
    ids=[
        "number given again",
        "another host",
        "another host, not touched",
        "no such process",
        "alive",
        "empty, new",
        "empty, old",
        "no host name",
        "a list",
        "pid below 0",
    ],
)
def test_only_a_lock_file_that_is_known_to_be_left_over_is_replaced(
    content: str, age: int, free: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_lock(monkeypatch, "ENOTSUP")
    with claim(tmp_path):
        pass
    path = tmp_path / LOCK_FILE
    path.write_text(content)
    os.utime(path, (time.time() - age, time.time() - age))
    if free:
        with claim(tmp_path):
            assert json.loads(path.read_text())["pid"] == os.getpid()
        assert not path.exists()
    else:
        with pytest.raises(OutputError, match="is writing to"):
            claim(tmp_path).__enter__()
        assert path.read_text() == content


RACE = """
import fcntl, sys, time
from pathlib import Path
from fedgs.errors import OutputError
from fedgs.experiments.output import claim
def flock(*arguments): raise OSError(38, "Function not implemented")
fcntl.flock = flock
entered = 0
until = time.monotonic() + 1.5
while time.monotonic() < until:
    try:
        with claim(Path("out")):
            try:
                Path("inside").mkdir()  # fails where another process is inside, too
                Path("inside").rmdir()
                entered += 1
            except OSError as error:
                sys.exit(f"two at once: {error}")
    except OutputError:
        pass
print(entered)
"""


def test_processes_that_compete_for_a_lock_file_are_never_inside_together(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RACE]
    racing = [
        subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    results = [process.communicate(timeout=60) for process in racing]
    assert [process.returncode for process in racing] == [0, 0, 0], results
    assert sum(int(out) for out, _ in results) > 10


@pytest.mark.parametrize("code", ["EIO", "ESTALE", "EPERM"])
def test_every_other_error_of_the_lock_names_the_folder(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_lock(monkeypatch, code)
    message = os.strerror(getattr(errno, code))
    with pytest.raises(OutputError, match=rf"--out '.*out' cannot be locked: {message}"):
        claim(tmp_path / "out").__enter__()


@pytest.mark.parametrize("code", ["EACCES", "EAGAIN", "EWOULDBLOCK"])
def test_a_lock_that_another_process_holds_is_said_to_be_in_use(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_lock(monkeypatch, code)
    with pytest.raises(OutputError, match="another process is writing to"):
        claim(tmp_path).__enter__()


def test_an_error_inside_the_block_is_not_one_of_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_lock(monkeypatch, "ENOSYS")
    with pytest.raises(OSError, match="disk full"), claim(tmp_path):
        raise OSError(errno.ENOSPC, "disk full")
    assert not (tmp_path / LOCK_FILE).exists()


def test_a_folder_that_cannot_be_made_or_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    for folder in (
        tmp_path / "file" / "out",
        tmp_path / ("x" * 300),
        Path("/proc/out"),
        tmp_path / "a\0b",
    ):
        with pytest.raises(OutputError, match=r"--out .* cannot be written: "):
            claim(folder).__enter__()
    read_only = Path.open

    def refuse(self: Path, *arguments: Any, **named: Any) -> Any:
        if self.parent == tmp_path / "out":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self))
        return read_only(self, *arguments, **named)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(
        OutputError, match=r"--out '.*out' cannot be written: Read-only file system"
    ):
        claim(tmp_path / "out").__enter__()
