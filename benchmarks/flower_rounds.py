"""The cost of `SampledStrategy` itself per round, at 1000 nodes over a Grid in memory.

    python benchmarks/flower_rounds.py

Selection is everything from the list of nodes to the messages; bookkeeping is everything from the
replies to the record on disk. The clients' own work is counted separately. Medians over rounds; the
first rounds, in which nodes are met, are left out.
"""

import json
import logging
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.flower.conftest import _make_world  # the Grid in memory that the tests use

NODES, ROUNDS, WARM = 1000, 110, 10


def seconds(sampler: object, *, cohort_limit: int) -> dict[str, float]:
    """Median seconds of each phase of a round."""
    from flwr.app import Array, ArrayRecord
    from flwr.serverapp.strategy import FedAvg

    from fedgs import Clients
    from fedgs.flower import SampledStrategy

    keys = [f"site-{k}" for k in range(NODES)]
    labels = np.random.default_rng(0).integers(0, 50, (NODES, 10)) + 1
    clients = Clients(tuple(keys), labels.sum(axis=1), label_counts=labels)
    start = ArrayRecord({"w": Array(np.zeros(2))})
    with tempfile.TemporaryDirectory() as folder:
        settings = {"cohort_limit": cohort_limit, "records": folder}
        strategy = SampledStrategy(
            FedAvg(fraction_evaluate=0.0, min_available_nodes=NODES),
            sampler,
            clients=clients,
            **settings,
        )
        strategy.start(_make_world()(keys), start, num_rounds=ROUNDS)
        lines = Path(folder, "timings.jsonl").read_text(encoding="utf-8").splitlines()
    rounds = [json.loads(line) for line in lines][WARM:]
    phases = ("select", "train", "aggregate")
    return {phase: statistics.median(timings[phase] for timings in rounds) for phase in phases}


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    print(f"{NODES} nodes, medians of {ROUNDS - WARM} rounds, ms a round")
    print("sampler   cohort  selection  bookkeeping  the clients themselves")
    for name, sampler in (("uniform", "uniform"), ("fedgs", {"name": "fedgs"})):
        for limit in (10, 100):
            medians = seconds(sampler, cohort_limit=limit)
            select, train, aggregate = (1e3 * value for value in medians.values())
            print(f"{name:9s} {limit:6d} {select:10.2f} {aggregate:12.2f} {train:23.2f}")
