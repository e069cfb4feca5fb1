"""The commands of the example's README, in its order, in simulation and on real nodes.

Ports and folders are others.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

from fedgs.records import RunFolder

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower"
README = (EXAMPLE / "README.md").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        tuple(map(int, version("flwr").split(".")[:2])) < (1, 40),
        reason="the commands are those of Flower 1.40 and later",
    ),
]


def blocks(title: str) -> list[str]:
    """The indented blocks of a section."""
    section = README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    found = re.findall(r"(?:^    .*\n)+", section, re.MULTILINE)
    assert found, title
    return [textwrap.dedent(block) for block in found]


def free_ports(count: int) -> list[str]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [str(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


def wait_for(port: str) -> None:
    """Wait until a SuperLink listens."""
    end = time.monotonic() + 180
    while time.monotonic() < end:
        with suppress(OSError), socket.create_connection(("127.0.0.1", int(port)), timeout=1):
            return
        time.sleep(0.5)
    raise TimeoutError(f"nobody listens at port {port}")


class Shell:
    """The reader's folder, with a home and ports of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder / "example", folder / "home"
        self.home.mkdir()
        self.terminals: list[subprocess.Popen[bytes]] = []
        shutil.copytree(EXAMPLE, self.folder, ignore=shutil.ignore_patterns("__pycache__"))
        control, link = free_ports(2)  # of Flower's own local SuperLink
        self.environment = {
            **os.environ,
            "HOME": str(self.home),
            "FLWR_HOME": str(self.home / ".flwr"),
            "FLWR_LOCAL_CONTROL_API_PORT": control,
            "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": link,
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "RAY_DISABLE_IMPORT_WARNING": "1",
            "NO_COLOR": "1",
            "OMP_NUM_THREADS": "1",
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        }

    def run(self, commands: str, *, seconds: float) -> str:
        """Run commands one after the other; returns what they print."""
        for _ in range(5):
            code, text = self._carried_out(commands, seconds)
            if "Failed to start local SuperLink" not in text:
                break
            self.end()  # Flower kills it after 15 s, which a busy machine may need to start it
        assert code == 0, text[-3000:]
        return text

    def _carried_out(self, commands: str, seconds: float) -> tuple[int, str]:
        output = self.home / "output"
        with output.open("w") as file:  # not a pipe, which a process in the background would hold
            code = subprocess.run(
                ["bash", "-euc", commands],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=self.environment,
                cwd=self.folder,
                timeout=seconds,
            ).returncode
        return code, output.read_text(encoding="utf-8")

    def start(self, command: str, log: str) -> None:
        """Run a command in a terminal of its own."""
        with (self.home / log).open("w") as file:
            terminal = subprocess.Popen(
                ["bash", "-euc", f"exec {command}"],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=self.environment,
                cwd=self.folder,
                start_new_session=True,
            )
        self.terminals.append(terminal)

    def processes(self) -> list[int]:
        """Living processes with this home."""
        mark, found = f"HOME={self.home}".encode(), []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                    found += [] if state == "Z" else [int(entry.name)]
        return found

    def end(self) -> None:
        """End what is in the background."""
        began = time.monotonic()
        while (left := self.processes()) and time.monotonic() < began + 60:
            in_order = time.monotonic() < began + 20
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM if in_order else signal.SIGKILL)
            time.sleep(1)
        assert not left
        for terminal in self.terminals:
            terminal.wait(timeout=10)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    try:
        yield shell
    finally:
        shell.end()


@pytest.mark.skipif(find_spec("ray") is None, reason="needs Flower's extra `simulation`")
def test_the_simulation_has_ten_nodes_and_cohorts_of_two(shell: Shell) -> None:
    install, simulate = blocks("In simulation")
    assert install.split() == ["pip", "install", '"flwr[simulation]"']
    printed = shell.run(simulate, seconds=1200)
    rounds = re.findall(r"round (\d+) of 10 \(record \d+\): fedgs selects 2 of (\d+)", printed)
    assert [int(number) for number, _ in rounds] == list(range(1, 11))
    assert int(rounds[-1][1]) == 10


def test_the_deployment_writes_records_that_are_read(shell: Shell, tmp_path: Path) -> None:
    nodes, connection, run, *_ = blocks("On real nodes")  # others are for older versions
    ports = ["9090", "9101", "9102", "9103", "9104"]
    free = free_ports(len(ports))
    for port, other in zip(ports, free, strict=True):
        nodes, connection = nodes.replace(port, other), connection.replace(port, other)
    commands = nodes.splitlines()
    assert len(commands) == len(ports)
    for number, command in enumerate(commands):
        shell.start(command, f"terminal-{number}")
    wait_for(free[0])
    (shell.home / ".flwr").mkdir(exist_ok=True)
    (shell.home / ".flwr" / "config.toml").write_text(connection, encoding="utf-8")
    out = tmp_path / "fedgs"
    assert "/tmp/fedgs" in run
    printed = shell.run(run.replace("/tmp/fedgs", str(out)), seconds=1800)
    folder = RunFolder(out / "records")
    records = folder.records()
    assert [record.round for record in records] == list(range(11))
    assert folder.clients().names == tuple(f"site-{k}" for k in range(4))
    assert all(len(record.cohort or []) == 2 for record in records[:-1])
    assert min(record.test_loss for record in records[1:]) < records[0].test_loss  # type: ignore[type-var, operator]
    assert (out / "state.npz").is_file()
    assert (out / "records" / "report.html").is_file()
    assert "lowest test loss" in printed  # the table's head
