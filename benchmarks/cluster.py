"""Measure studies on a Ray cluster of this computer: its start, a grid, and two nodes against one.

    python benchmarks/cluster.py start            # seconds until an own cluster is ready
    python benchmarks/cluster.py grid             # worker processes against a cluster of one node
    python benchmarks/cluster.py nodes            # one node of one core against two, images

Wall-clock times mean something on an idle computer alone, so the load is printed with each of them.
Kinds alternate, and each ratio is that of the medians. Records of all kinds are compared. Needs
`pip install "fedgs[sim,cluster]"`.
"""

import argparse
import os
import secrets
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import fedgs
from fedgs.cluster import open_cluster
from fedgs.data import Federation
from fedgs.experiments.grid import expand
from fedgs.experiments.study import prepare_study

METHODS = ["fedgs", "uniform", "md", "power_of_choice"]
MODES = ["IDL", "MDF", "LDF", "YMF", "YC", "LN", "SLN"]


def grid(out: Path, rounds: int, execution: dict[str, Any]) -> float:
    """Seconds of the Synthetic grid of the paper's Table 2, with fewer rounds."""
    axes = {"method": METHODS, "availability": MODES, "seed": list(range(5))}
    tables = {"data": "synthetic", "training": {"rounds": rounds}, "execution": execution}
    study = prepare_study(expand({**tables, "grid": axes}).configs)
    started = time.monotonic()
    study.run(out=out)
    return time.monotonic() - started


def images(out: Path, rounds: int, execution: dict[str, Any]) -> float:
    """Seconds of a grid of convolutional models on random images."""
    draws = np.random.default_rng(0)
    x = draws.integers(0, 256, size=(3000, 1, 28, 28), dtype=np.uint8)
    y, owners = draws.integers(0, 10, size=3000), np.arange(3000) % 30
    scaling = fedgs.Normalization(scale=255.0, mean=(0.5,), sd=(0.5,))
    federation = Federation.from_arrays(
        x, y, client=owners, test=(x[:300], y[:300]), normalization=scaling
    )
    started = time.monotonic()
    fedgs.compare(
        federation,
        methods=["uniform", "md"],
        availability="IDL",
        model="fashion_cnn",
        seeds=range(4),
        training={"rounds": rounds, "local_steps": 5, "batch_size": 20, "learning_rate": 0.01},
        execution=execution,
        out=out,
    )
    return time.monotonic() - started


def records(out: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in out.glob("*/rounds.jsonl")}


def compared(kinds: dict[str, Callable[[Path], float]], repeats: int) -> None:
    """Print the seconds of each kind and the ratio of their medians."""
    seconds: dict[str, list[float]] = {name: [] for name in kinds}
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(repeats):
            stored = []
            for name, kind in kinds.items():
                out = Path(folder) / f"{name}-{repeat}".replace(" ", "-")
                seconds[name].append(kind(out))
                stored.append(records(out))
                load = os.getloadavg()[0]
                print(f"{name}: {seconds[name][-1]:.1f} s, load {load:.1f}", flush=True)
            print("records are", "equal" if stored[0] == stored[1] else "DIFFERENT")
    first, second = (statistics.median(times) for times in seconds.values())
    one, other = kinds
    print(f"{one} {first:.1f} s, {other} {second:.1f} s: {first / second:.2f}x")


@contextmanager
def started_nodes(count: int) -> Iterator[str]:
    """The address of a head without processors and so many nodes, each bound to a core."""
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = 20_000 + free.getsockname()[1] % 10_000  # not among those of Ray's workers
    program = [str(Path(sys.executable).parent / "ray"), "start", "--block"]
    common = ["--disable-usage-stats", "--node-ip-address=127.0.0.1"]
    common += ["--object-store-memory=200000000"]
    head = ["--head", f"--port={port}", "--num-cpus=0", "--include-dashboard=false"]
    cores = sorted(os.sched_getaffinity(0))
    with ExitStack() as stack:
        folder = tempfile.TemporaryDirectory(prefix="r-", dir="/tmp", ignore_cleanup_errors=True)
        temporary = stack.enter_context(folder)  # names of sockets must be short
        stack.enter_context(process([*program, *common, *head, f"--temp-dir={temporary}"]))
        wait_for(port)
        for number in range(count):
            bound = ["taskset", "-c", str(cores[number % len(cores)])]
            join = [f"--address=127.0.0.1:{port}", "--num-cpus=1"]
            stack.enter_context(process([*bound, *program, *common, *join]))
        yield f"127.0.0.1:{port}"


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
            return
        except OSError:
            time.sleep(0.2)
    raise SystemExit("the head does not listen")


@contextmanager
def process(command: list[str]) -> Iterator[None]:
    """A process that is ended with its group."""
    running = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield
    finally:
        os.killpg(running.pid, signal.SIGTERM)
        try:
            running.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()


def start(repeats: int) -> None:
    """Print how long an own cluster takes, each time in a process of its own."""
    code = (
        "import time\nstarted = time.monotonic()\nfrom fedgs.cluster import open_cluster\n"
        "with open_cluster('local') as cluster:\n"
        "    print(f'{time.monotonic() - started:.1f}', len(cluster.nodes()))"
    )
    for _ in range(repeats):
        program = [sys.executable, "-c", code]
        done = subprocess.run(program, capture_output=True, text=True, check=True)
        seconds = done.stdout.split()[0]
        print(f"start of an own cluster: {seconds} s, load {os.getloadavg()[0]:.1f}", flush=True)


def main() -> None:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("what", choices=["start", "grid", "nodes"])
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if options.what == "start":
        start(options.repeats)
    elif options.what == "grid":
        rounds = options.rounds or 1000
        with open_cluster("local"):  # stays open, so that its start is not counted
            kinds = {
                "cluster": lambda out: grid(out, rounds, {"cluster": "local"}),
                "worker processes": lambda out: grid(out, rounds, {}),
            }
            compared(kinds, options.repeats)
    else:
        rounds = options.rounds or 20
        with started_nodes(2) as address:
            kinds = {
                name: lambda out, count=count: images(
                    out, rounds, {"cluster": address, "workers": count, "threads": 1}
                )
                for name, count in (("one node", 1), ("two nodes", 2))
            }
            compared(kinds, options.repeats)


if __name__ == "__main__":
    main()
