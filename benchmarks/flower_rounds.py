"""What `SampledStrategy` itself costs in a round, over a Grid in memory.

    python benchmarks/flower_rounds.py time     # 1000 and 10,000 nodes
    python benchmarks/flower_rounds.py memory   # models of 10^7 parameters, a cohort of 100
    python benchmarks/flower_rounds.py growth   # 500 rounds of models of 10^5 parameters

The Grid makes each reply when it is pulled. `time` prints milliseconds of processor time in a
round, medians over rounds: Flower's own requests and averaging are measured in the same rounds, and
so is what the clients do; "select" and "replies" are what is left. `memory` prints the peak of the
process above what it held before, in models of the replies' size, and our seconds next to Flower's.
`growth` prints how much the memory of the process grows in a round.
"""

import argparse
import logging
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.flower.conftest import _make_world  # the Grid in memory that the tests use

COHORT = 100
PARTS = ("select", "replies", "requests", "averaging", "clients")


class Watch:
    """Processor seconds of nested parts of a round; a part excludes those within it."""

    def __init__(self) -> None:
        self.rounds: list[dict[str, float]] = []
        self.spent: dict[str, float] = defaultdict(float)
        self._open: list[str] = []
        self._since = time.process_time()

    def _charge(self) -> None:
        now = time.process_time()
        if self._open:
            self.spent[self._open[-1]] += now - self._since
        self._since = now

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        self._charge()
        self._open.append(name)
        try:
            yield
        finally:
            self._charge()
            self._open.pop()

    def end_round(self) -> None:
        self._charge()
        self.rounds.append(dict(self.spent))
        self.spent.clear()

    def medians(self, skipped: int) -> dict[str, float]:
        rounds = self.rounds[skipped:]
        return {name: statistics.median(r.get(name, 0.0) for r in rounds) for name in PARTS}


def timed(watch: Watch, part: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        with watch.part(part):
            return method(*arguments, **named)

    return call


def run(
    nodes: int,
    parameters: int,
    sampler: object,
    *,
    rounds: int,
    watch: Watch,
    after: Callable[[], None] = lambda: None,
) -> None:
    """A deployment with records and a state; `after` is called at the end of each round."""
    from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.serverapp.strategy import FedAvg

    from fedgs import Clients
    from fedgs.flower import SampledStrategy

    start = ArrayRecord({"w": Array(np.zeros(parameters, dtype=np.float32))})
    model = memoryview(start["w"].data)
    header = len(model) - 4 * parameters

    class Nodes(_make_world()):  # type: ignore[misc]
        def _reply(self, message: Any) -> Any:
            if message.metadata.message_type != "train":
                return super()._reply(message)
            return message  # its reply is made when it is pulled

        def pull_messages(self, identifiers: Any) -> list[Any]:
            with watch.part("clients"):
                return [self._trained(message) for message in super().pull_messages(identifiers)]

        def push_messages(self, messages: Any) -> Any:
            with watch.part("clients"):
                return super().push_messages(messages)

        def _trained(self, message: Any) -> Any:
            if message.metadata.message_type != "train":
                return message
            data = b"".join((model[:header], model[header:]))  # bytes of its own
            array = Array(dtype="float32", shape=(parameters,), stype="numpy.ndarray", data=data)
            metrics = MetricRecord({"num-examples": 10, "train_loss": 0.5})
            record = ArrayRecord({"w": array})
            return Message(RecordDict({"arrays": record, "metrics": metrics}), reply_to=message)

    class Inner(FedAvg):  # type: ignore[misc]
        configure_train = timed(watch, "requests", FedAvg.configure_train)
        aggregate_train = timed(watch, "averaging", FedAvg.aggregate_train)

    keys = [f"site-{k}" for k in range(nodes)]
    labels = np.random.default_rng(0).integers(0, 50, (nodes, 10)) + 1
    clients = Clients(tuple(keys), labels.sum(axis=1), label_counts=labels)
    inner = Inner(fraction_evaluate=0.0, min_available_nodes=nodes)
    with tempfile.TemporaryDirectory() as folder:
        strategy = SampledStrategy(
            inner,
            sampler,
            clients=clients,
            cohort_limit=COHORT,
            records=f"{folder}/records",
            state=f"{folder}/state.npz",
        )
        strategy.configure_train = timed(watch, "select", strategy.configure_train)
        aggregate = timed(watch, "replies", strategy.aggregate_train)

        def aggregated(*arguments: Any) -> Any:
            result = aggregate(*arguments)
            watch.end_round()
            after()
            return result

        strategy.aggregate_train = aggregated
        with watch.part("replies"):  # what belongs to no other part
            strategy.start(Nodes(keys), start, num_rounds=rounds)


def resident() -> int:
    """Bytes of the process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * resource.getpagesize()


def print_times(sizes: Sequence[int], rounds: int) -> None:
    print(f"a cohort of {COHORT}, medians of {rounds - 10} rounds, ms of processor time a round")
    print("sampler    nodes  " + "  ".join(f"{name:>9s}" for name in (*PARTS, "ours")))
    for nodes in sizes:
        for sampler in ("uniform", "fedgs"):
            watch = Watch()
            run(nodes, 2, sampler, rounds=rounds, watch=watch)
            medians = watch.medians(10)
            medians["ours"] = medians["select"] + medians["replies"]
            columns = "  ".join(f"{1e3 * value:9.2f}" for value in medians.values())
            print(f"{sampler:8s} {nodes:7d}  {columns}", flush=True)


def print_memory(nodes: int, parameters: int, rounds: int) -> None:
    watch, before = Watch(), resident()
    run(nodes, parameters, "uniform", rounds=rounds, watch=watch)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    medians = watch.medians(1)
    print(
        f"{nodes} nodes: {peak / (4 * parameters):.1f} models ({peak / 2**20:.0f} MB), "
        f"ours {medians['select'] + medians['replies']:.2f} s, "
        f"Flower's averaging {medians['averaging']:.2f} s a round",
        flush=True,
    )


def print_growth(parameters: int, rounds: int) -> None:
    sizes: list[int] = []
    run(
        1000,
        parameters,
        "uniform",
        rounds=rounds,
        watch=Watch(),
        after=lambda: sizes.append(resident()),
    )
    kept = np.array(sizes[rounds // 5 :])
    slope = np.polyfit(np.arange(len(kept)), kept, 1)[0]
    print(
        f"{rounds} rounds of {parameters} parameters: {slope / 1024:+.2f} kB a round, "
        f"{sizes[-1] / 2**20:.0f} MB at the end"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("time", "memory", "growth"))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--parameters", type=int)
    parser.add_argument("--nodes", type=int, help="by default 1000, then 10,000; growth has 1000")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    if given.what == "time":
        print_times([given.nodes] if given.nodes else (1000, 10_000), given.rounds or 110)
    elif given.what == "growth":
        print_growth(given.parameters or 10**5, given.rounds or 500)
    elif given.nodes:
        print_memory(given.nodes, given.parameters or 10**7, given.rounds or 4)
    else:
        for nodes in (1000, 10_000):  # a process each, since the peak is one of a process
            command = [sys.executable, *sys.argv, "--nodes", str(nodes)]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
