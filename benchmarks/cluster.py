"""Measure studies on a Ray cluster of this computer: its start, a grid, and two nodes against one.

    python benchmarks/cluster.py           # everything, within ten minutes
    python benchmarks/cluster.py start     # seconds until an own cluster is ready
    python benchmarks/cluster.py grid      # a cluster of one node against worker processes
    python benchmarks/cluster.py nodes     # two nodes of one core against one, a grid of images
    python benchmarks/cluster.py cohorts   # the same for one run of images with cohorts of 128
    python benchmarks/cluster.py --tiny    # a few rounds of each, which says nothing about time

Wall-clock times mean something on an idle computer alone, so the load is printed with each of them.
Kinds alternate as long as the time of a part lasts, and each ratio is that of the medians. Records
of all kinds are compared. Needs `pip install "fedgs[sim,cluster]"`.
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
from functools import cache
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


def grid(out: Path, rounds: int, execution: dict[str, Any], seeds: int) -> float:
    """Seconds of the Synthetic grid of the paper's Table 2, with fewer rounds."""
    axes = {"method": METHODS, "availability": MODES, "seed": list(range(seeds))}
    tables = {"data": "synthetic", "training": {"rounds": rounds}, "execution": execution}
    study = prepare_study(expand({**tables, "grid": axes}).configs)
    started = time.monotonic()
    study.run(out=out)
    return time.monotonic() - started


def images_of(clients: int) -> Federation:
    """Random images of so many clients."""
    draws = np.random.default_rng(0)
    count = 100 * clients
    x = draws.integers(0, 256, size=(count, 1, 28, 28), dtype=np.uint8)
    y, owners = draws.integers(0, 10, size=count), np.arange(count) % clients
    scaling = fedgs.Normalization(scale=255.0, mean=(0.5,), sd=(0.5,))
    return Federation.from_arrays(
        x, y, client=owners, test=(x[:300], y[:300]), normalization=scaling
    )


def images(
    out: Path,
    rounds: int,
    execution: dict[str, Any],
    *,
    clients: int = 30,
    cohort: int = 3,
    steps: int = 5,
) -> float:
    """Seconds of convolutional models on random images: a grid, or one run of a large cohort."""
    large = cohort > 32
    federation = images_of(clients)
    started = time.monotonic()
    fedgs.compare(
        federation,
        methods=["uniform"] if large else ["uniform", "md"],
        availability="IDL",
        model="fashion_cnn",
        seeds=range(1 if large else 4),
        training={
            "rounds": rounds,
            "cohort_limit": cohort,
            "local_steps": steps,
            "batch_size": 20,
            "learning_rate": 0.01,
        },
        evaluation={"every": 5},
        execution={**execution, "threads": 1},
        out=out,
    )
    return time.monotonic() - started


def rounds_for(seconds: float, clients: int) -> int:
    """Rounds in which one process trains so many clients for about so long."""
    return max(1, round(seconds / (seconds_of_client() * clients)))


@cache
def seconds_of_client() -> float:
    """Seconds of the local training of one client in one round, on this computer."""
    with tempfile.TemporaryDirectory() as folder:
        times = [
            images(Path(folder) / str(number), rounds, {"workers": 1})
            for number, rounds in enumerate((1, 1, 2))
        ]
    return max(times[2] - times[1], 1e-3) / (8 * 3)  # 8 runs of 3 clients


def records(out: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in out.glob("*/rounds.jsonl")}


def compared(kinds: dict[str, Callable[[Path], float]], limit: float) -> str:
    """Measure two kinds by turns within a time limit, at least once.

    Returns:
        The medians of their seconds, the ratio of these, and whether all records are equal.
    """
    seconds: dict[str, list[float]] = {name: [] for name in kinds}
    started, same, repeat = time.monotonic(), True, 0
    with tempfile.TemporaryDirectory() as folder:
        while repeat == 0 or (time.monotonic() - started) * (repeat + 1) / repeat < limit:
            stored = []
            for name, kind in kinds.items():
                out = Path(folder) / f"{name}-{repeat}".replace(" ", "-")
                seconds[name].append(kind(out))
                stored.append(records(out))
                load = os.getloadavg()[0]
                print(f"{name}: {seconds[name][-1]:.1f} s, load {load:.1f}", flush=True)
            same = same and stored[0] == stored[1] and len(stored[0]) > 0
            repeat += 1
    first, second = (statistics.median(times) for times in seconds.values())
    one, other = kinds
    equal = "equal records" if same else "DIFFERENT RECORDS"
    return f"{one} {first:.1f} s, {other} {second:.1f} s: {first / second:.2f}x; {equal}"


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


def start(options: argparse.Namespace) -> str:
    """How long an own cluster takes, each time in a process of its own."""
    code = (
        "import time\nstarted = time.monotonic()\nfrom fedgs.cluster import open_cluster\n"
        "with open_cluster('local') as cluster:\n"
        "    print(f'{time.monotonic() - started:.1f}', len(cluster.nodes()))"
    )
    times = []
    for _ in range(1 if options.tiny else 3):
        program = [sys.executable, "-c", code]
        done = subprocess.run(program, capture_output=True, text=True, check=True)
        times.append(float(done.stdout.split()[0]))
        print(f"start of an own cluster: {times[-1]} s, load {os.getloadavg()[0]:.1f}", flush=True)
    return f"start of an own cluster {statistics.median(times):.1f} s (at most 12 s)"


def small_grid(options: argparse.Namespace) -> str:
    """The grid of Table 2 on a cluster of one node, whose start is not counted."""
    rounds, seeds = (2, 1) if options.tiny else (options.rounds or 200, 5)
    with open_cluster("local"):
        kinds = {
            "cluster": lambda out: grid(out, rounds, {"cluster": "local"}, seeds),
            "worker processes": lambda out: grid(out, rounds, {}, seeds),
        }
        found = compared(kinds, options.limit)
    return f"Table 2, {rounds} rounds: {found} (at most 1.25x plus the start of processes)"


def two_nodes(options: argparse.Namespace) -> str:
    """A grid of images on one node and on two."""
    rounds, steps = (1, 1) if options.tiny else (options.rounds or rounds_for(80.0, 8 * 3), 5)
    with started_nodes(2) as address:
        kinds = {
            name: lambda out, count=count: images(
                out, rounds, {"cluster": address, "workers": count}, steps=steps
            )
            for name, count in (("one node", 1), ("two nodes", 2))
        }
        found = compared(kinds, options.limit)
    return f"images, 8 runs of {rounds} rounds: {found} (at least 1.7x)"


def large_cohort(options: argparse.Namespace) -> str:
    """One run of images whose cohorts of 128 are shared by one node and by two."""
    rounds, cohort, steps = 1, 40, 1
    if not options.tiny:
        rounds, cohort, steps = options.rounds or rounds_for(80.0, 128), 128, 5
    with started_nodes(2) as address:
        kinds = {
            name: lambda out, count=count: images(
                out,
                rounds,
                {"cluster": address, "workers": count, "share": "cohorts"},
                clients=cohort,
                cohort=cohort,
                steps=steps,
            )
            for name, count in (("one node", 1), ("two nodes", 2))
        }
        found = compared(kinds, options.limit)
    return f"images, one run of {rounds} rounds, cohort {cohort}: {found} (at least 1.7x)"


PARTS = {"start": start, "grid": small_grid, "nodes": two_nodes, "cohorts": large_cohort}


def main() -> None:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("what", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument(
        "--limit", type=float, default=100.0, help="seconds in which a part is repeated"
    )
    parser.add_argument("--tiny", action="store_true", help="to see that it works")
    options = parser.parse_args()
    unknown = set(options.what) - set(PARTS)
    if unknown:
        parser.error(f"PART must be one of {', '.join(PARTS)}, got {min(unknown)}")
    options.limit = 0.0 if options.tiny else options.limit
    names = options.what or list(PARTS)
    if len(names) == 1:
        print("", PARTS[names[0]](options), sep="\n")
        return
    # Ray reads the token of a cluster once in a process.
    further = [argument for argument in sys.argv[1:] if argument not in names]
    for name in names:
        subprocess.run([sys.executable, __file__, name, *further], check=True)


if __name__ == "__main__":
    main()
