"""A SuperLink and SuperNodes of Flower on 127.0.0.1, for fault tests and benchmarks."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

__all__ = [
    "CLIENTS",
    "FLOWER",
    "CaseFailed",
    "Deployment",
    "deployed",
    "expect",
    "free_ports",
    "listens",
    "send_signal",
]

FLOWER = tuple(int(part) for part in version("flwr").split(".")[:2])
BIN = Path(sys.executable).parent
EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "flower"
CLIENTS = 4  # that a run waits for, unless it is told another number


class CaseFailed(Exception):
    """What a case promised did not hold."""


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class Deployment:
    """A SuperLink and its SuperNodes, all of one folder, all ended when it is over."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.records = folder / "records"
        self.state = folder / "state.npz"
        self.app = folder / "app"
        self.connection = "t"
        self.nodes: dict[int, subprocess.Popen[bytes]] = {}
        self.home.mkdir(parents=True)
        shutil.copytree(EXAMPLE, self.app, ignore=shutil.ignore_patterns("__pycache__"))
        quiet = {
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "OMP_NUM_THREADS": "1",
            "NO_COLOR": "1",
        }
        self.environment = {
            **os.environ,
            **quiet,
            "FLWR_HOME": str(self.home),
            "PATH": f"{BIN}:{os.environ['PATH']}",
        }

    def start(self) -> None:
        """Start the SuperLink and say where it is."""
        first, second, third = free_ports(3)
        if FLOWER >= (1, 40):
            arguments = [
                "--host",
                "127.0.0.1",
                "--port",
                str(first),
                "--disable-runtime-dependency-installation",
            ]
            self.fleet = self.control = f"127.0.0.1:{first}"
        else:
            self.fleet, self.control = f"127.0.0.1:{first}", f"127.0.0.1:{second}"
            arguments = ["--fleet-api-address", self.fleet, "--control-api-address", self.control]
            arguments += ["--serverappio-api-address", f"127.0.0.1:{third}"]
            if FLOWER >= (1, 37):
                arguments.append("--disable-runtime-dependency-installation")
        self._spawn("superlink", ["flower-superlink", "--insecure", *arguments])
        connection = f'address = "{self.control}"\ninsecure = true\n'
        (self.home / "config.toml").write_text(f"[superlink.t]\n{connection}")
        if FLOWER < (1, 26):
            with (self.app / "pyproject.toml").open("a") as file:
                table = "tool.flwr.federations"
                file.write(f'\n[{table}]\ndefault = "t"\n[{table}.t]\n{connection}')
        self.wait_for(
            lambda: listens(self.control) and listens(self.fleet),
            60,
            "the SuperLink does not listen",
        )

    def start_node(self, index: int, *, delay: float = 0.0, more: str = "") -> None:
        """Start SuperNode `index`.

        Args:
            index: of its client, site-INDEX.
            delay: seconds that pass before it trains.
            more: of its configuration.
        """
        (port,) = free_ports(1)
        where = (
            ["--port", str(port)]
            if FLOWER >= (1, 40)
            else ["--clientappio-api-address", f"127.0.0.1:{port}"]
        )
        config = f'client-id="site-{index}" delay={float(delay)} {more}'.strip()
        command = [
            "flower-supernode",
            "--insecure",
            "--superlink",
            self.fleet,
            *where,
            "--node-config",
            config,
        ]
        self.nodes[index] = self._spawn(f"node-{index}", command)

    def end_node(self, index: int, how: signal.Signals) -> None:
        """SIGTERM ends it in order; SIGKILL is for the node and everything that it started."""
        leader = self.nodes.pop(index).pid
        for pid in self.processes(session=leader) if how == signal.SIGKILL else [leader]:
            send_signal(pid, how)

    def submit(self, **config: Any) -> int:
        """`flwr run`: the id of the run."""
        given = {
            "records": str(self.records),
            "state": str(self.state),
            "fraction_evaluate": 0.0,
            "num_clients": CLIENTS,
            **config,
        }
        settings = self.folder / "run.toml"
        settings.write_text(
            "".join(
                f"{name.replace('_', '-')} = {json.dumps(value)}\n" for name, value in given.items()
            )
        )
        before = {run["run-id"] for run in self.runs()}
        self._flwr("run", str(self.app), self.connection, "--run-config", str(settings))
        return int(next(run["run-id"] for run in self.runs() if run["run-id"] not in before))

    def runs(self) -> list[dict[str, Any]]:
        """What `flwr list` says."""
        where = ["list", self.connection] if FLOWER >= (1, 26) else ["ls", str(self.app), "t"]
        output = self._flwr(*where, "--format", "json")
        found = json.loads(output[output.index("{") :]).get(
            "runs", []
        )  # none at all before the first run
        return [{**run, "run-id": int(run["run-id"])} for run in found]

    def finish(
        self, run: int, *, rounds: int, seconds: float, end: str = "finished:completed"
    ) -> None:
        """Wait until a run of so many rounds in all has ended so.

        `flwr list` is slow, so the records are watched.
        """
        asked = time.monotonic()

        def ended() -> bool:
            nonlocal asked
            if len(self.lines("rounds")) <= rounds and time.monotonic() < asked + 30:
                return False
            asked = time.monotonic()
            status = next(one["status"] for one in self.runs() if one["run-id"] == run)
            if status.startswith("finished") and status != end:
                raise CaseFailed(f"the run ended as {status}")
            return bool(status == end)

        self.wait_for(ended, seconds, f"the run has not ended within {seconds:g} s", pause=1.0)

    def wait_for_round(self, number: int, *, seconds: float) -> None:
        """Wait until the record of a round is written."""
        self.wait_for(
            lambda: len(self.lines("rounds")) > number,
            seconds,
            f"round {number} is not over within {seconds:g} s",
        )

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The objects of one of the records' files."""
        path = self.records / f"{name}.jsonl"
        return (
            [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
        )

    def processes(self, *, session: int | None = None) -> list[int]:
        """Living processes with this deployment's FLWR_HOME; with `session`, its own only."""
        mark, found = f"FLWR_HOME={self.home}".encode(), []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    alive = entry.joinpath("stat").read_text().rpartition(")")[2].split()[0] != "Z"
                    ours = mark in entry.joinpath("environ").read_bytes().split(b"\0")
                    if (
                        alive
                        and ours
                        and (session is None or os.getsid(int(entry.name)) == session)
                    ):
                        found.append(int(entry.name))
                except (OSError, ValueError):
                    continue
        return found

    def server_apps(self) -> list[int]:
        """Processes that run the ServerApp."""
        return [
            pid
            for pid in self.processes()
            if b"flwr-serverapp\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]

    def stop(self) -> None:
        """End every process: the nodes, then the link, then whatever they left.

        Raises:
            CaseFailed: a process does not end.
        """
        for how, patience in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
            for pid in sorted(self.processes(), reverse=True):
                send_signal(pid, how)
            end = time.monotonic() + patience
            while self.processes() and time.monotonic() < end:
                time.sleep(0.2)
        if left := self.processes():
            raise CaseFailed(f"processes {left} are left")

    def _spawn(self, name: str, command: list[str]) -> "subprocess.Popen[bytes]":
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [str(BIN / command[0]), *command[1:]],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=self.environment,
                cwd=self.folder,
                start_new_session=True,
            )

    def shell(self, commands: str) -> str:
        """Run commands of a page in the deployment's folder; returns what they print."""
        done = subprocess.run(
            ["bash", "-ec", commands],
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=self.folder,
            timeout=120,
        )
        expect(done.returncode == 0, f"{commands} failed: {done.stdout} {done.stderr}")
        return done.stdout + done.stderr

    def make_key(self, key: str) -> None:
        """Make the key of a node."""
        self.shell(f'ssh-keygen -q -t ecdsa -b 384 -N "" -C "{key}" -f {key}')

    def register(self, key: str) -> int:
        """Register the key of a node; returns its node id."""
        output = self.shell(f"flwr supernode register {key}.pub {self.connection}")
        found = re.search(r"\d{6,}", output)
        if found is None:
            raise CaseFailed(f"no node id: {output}")
        return int(found.group())

    def background(self, name: str, command: str) -> None:
        """Start a command of a page."""
        self._spawn(name, shlex.split(command.replace("\\\n", " ")))

    def _flwr(self, *arguments: str) -> str:
        done = subprocess.run(
            [str(BIN / "flwr"), *arguments],
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=self.folder,
            timeout=120,
        )
        if done.returncode != 0:
            raise CaseFailed(f"flwr {arguments[0]}: {(done.stdout + done.stderr)[-600:]}")
        return done.stdout

    def wait_for(
        self, condition: Callable[[], bool], seconds: float, complaint: str, pause: float = 0.5
    ) -> None:
        """Wait for a condition; `CaseFailed` with the complaint after so many seconds."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise CaseFailed(complaint)
            time.sleep(pause)


def listens(address: str) -> bool:
    """Whether a server accepts connections."""
    host, port = address.split(":")
    with socket.socket() as one:
        one.settimeout(1)
        return one.connect_ex((host, int(port))) == 0


def send_signal(pid: int, how: signal.Signals) -> None:
    """Send a signal to a process that may have ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, how)


def expect(condition: bool, what: str) -> None:
    """A promise of a case."""
    if not condition:
        raise CaseFailed(what)


@contextmanager
def deployed(folder: Path) -> Iterator[Deployment]:
    """A deployment that leaves no process behind."""
    deployment = Deployment(folder)
    try:
        deployment.start()
        yield deployment
    finally:
        deployment.stop()
