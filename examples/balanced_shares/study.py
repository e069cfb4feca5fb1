"""The runs of the study of balanced shares; each run becomes one row of a CSV file.

Usage: python study.py ROWS.csv tune [METHOD ...]
       python study.py ROWS.csv confirm FEDERATION ...

Rows that the file already has are not computed again, so an interrupted study resumes. A federation
is a `data.seed`, or the path of a stored one. `confirm` takes the learning rate of each method from
the rows of `tune`.
"""

import csv
import itertools
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

import fedgs
from fedgs.report import Run

UNIFORM = {"name": "uniform"}
# Label -> tables of the configuration. Cohorts are limited to M = 0.2 N throughout.
METHODS: dict[str, dict[str, Any]] = {
    "uniform": {"method": UNIFORM},
    "md": {"method": {"name": "md"}},
    "power_of_choice": {"method": {"name": "power_of_choice"}},
    "fedgs": {"method": {"name": "fedgs"}},
    "inverse_participation": {"method": {"name": "fedgs", "weighting": "inverse_participation"}},
    "fedau_50": {"method": {**UNIFORM, "weighting": {"name": "fedau", "cutoff": 50}}},
    "fedau_inf": {"method": {**UNIFORM, "weighting": {"name": "fedau", "cutoff": 0}}},
    "mifa": {
        "method": {**UNIFORM, "weighting": "all"},
        "aggregation": {"name": "stale", "unit": "gradient"},
    },
    "f3ast": {"method": {"name": "f3ast"}},
    "fedvarp": {
        "method": {**UNIFORM, "weighting": "data_size"},
        "aggregation": {"name": "stale"},
    },
    "clustered": {"method": {"name": "clustered"}},
    "known": {"method": {**UNIFORM, "weighting": "known"}},
    "balanced_shares": {"method": {"name": "fedgs", "weighting": "deficit", "balance": "share"}},
}
MODES = ("IDL", "LN", "SLN", "LDF", "MDF", "YMF", "YC")
TUNING_FEDERATIONS, TUNING_MODES = ("11", "12"), ("IDL", "LN", "LDF", "MDF")
RATES = (0.05, 0.1, 0.2)
LEFT_OUT = ("f3ast", "fedvarp", "clustered")  # for their time
STUDIED = [method for method in METHODS if method not in LEFT_OUT]
ROUNDS, EVERY, TAIL = 1000, 5, 40

Key = tuple[str, str, str, str, float, int]  # part, data, mode, method, rate, seed


@dataclass(frozen=True)
class Row:
    """One run.

    Attributes:
        part: "tune" or "confirm".
        data, mode, method, rate, seed: what was run.
        lowest, last, tail: lowest and last test loss, and the mean of the last `TAIL` ones.
        bias: half the sum over clients of |share of all weights - p_k|.
        weight_variance: mean over the rounds of m sum w^2 - 1, weights scaled to the sum 1.
        count_variance: variance of the sampling counts.
    """

    part: str
    data: str
    mode: str
    method: str
    rate: float
    seed: int
    lowest: float
    last: float
    tail: float
    bias: float
    weight_variance: float
    count_variance: float

    @property
    def key(self) -> Key:
        """What was run."""
        return (self.part, self.data, self.mode, self.method, self.rate, self.seed)


def read_rows(path: Path) -> list[Row]:
    """The rows of a file; none if there is no file."""
    if not path.exists():
        return []
    kinds = {field.name: field.type for field in fields(Row)}
    with path.open(newline="") as file:
        return [Row(**{k: kinds[k](v) for k, v in line.items()}) for line in csv.DictReader(file)]


def append(path: Path, rows: Sequence[Row]) -> None:
    """Add rows to a file, with a header if it is new."""
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        if is_new:
            writer.writeheader()
        for row in rows:
            values = asdict(row)
            writer.writerow(
                {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in values.items()}
            )
        file.flush()
        os.fsync(file.fileno())


def figures(run: Run) -> dict[str, float]:
    """The measured columns of a row."""
    records, clients = run.records, run.clients
    assert clients is not None
    shares = dict(zip(clients.names, clients.shares("data_size").tolist(), strict=True))
    losses = np.array([r.test_loss for r in records if r.test_loss is not None], dtype=float)
    received: dict[object, float] = defaultdict(float)
    counts: dict[object, int] = defaultdict(int)
    variances = []
    for record in records:
        if not record.weights:
            continue
        weights = np.array(record.weights)
        normalised = weights / weights.sum() if weights.sum() > 0 else weights
        variances.append(len(weights) * float(np.sum(normalised**2)) - 1)
        for client, weight in zip(record.cohort or (), weights.tolist(), strict=True):
            received[client] += weight
            counts[client] += 1
    total = sum(received.values())
    gaps = [abs(received[client] / total - share) for client, share in shares.items()]
    return {
        "lowest": float(np.nanmin(losses)),
        "last": float(losses[-1]),
        "tail": float(losses[-TAIL:].mean()),
        "bias": 0.5 * sum(gaps),
        "weight_variance": float(np.mean(variances)),
        "count_variance": float(np.var([counts[client] for client in shares], ddof=1)),
    }


def run(keys: Sequence[Key]) -> Iterator[Row]:
    """Carry out the runs of one federation and mode; a run that fails is printed and left out."""
    seeds: dict[tuple[str, float], list[int]] = defaultdict(list)
    for _, _, _, method, rate, seed in keys:
        seeds[method, rate].append(seed)
    part, data, mode = keys[0][:3]
    federation = fedgs.Synthetic(seed=int(data)) if data.isdigit() else fedgs.File(path=data)
    for (method, rate), of_method in seeds.items():
        results = fedgs.compare(
            federation,
            methods={method: METHODS[method]["method"]},
            availability=mode,
            aggregation=METHODS[method].get("aggregation"),
            training={"rounds": ROUNDS, "learning_rate": rate},
            evaluation={"every": EVERY},
            execution={"workers": 1, "threads": 1},
            seeds=of_method,
        )
        for seed, finished in zip(of_method, results.runs, strict=True):
            if finished.failure is None:
                key = (part, Path(data).stem, mode, method, rate, seed)
                yield Row(*key, **figures(finished))
            else:
                print(mode, method, rate, seed, finished.failure, file=sys.stderr)


def chosen_rates(rows: Sequence[Row]) -> dict[str, float]:
    """Method -> the learning rate of the lowest mean over all tuning runs of the lowest loss."""
    losses: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.part == "tune":
            losses[row.method][row.rate].append(row.lowest)
    return {
        method: min(of_rate, key=lambda rate: float(np.mean(of_rate[rate])))
        for method, of_rate in losses.items()
    }


def tuning(path: Path, methods: Sequence[str]) -> Iterator[list[Key]]:
    """Keys of the tuning runs, a federation and mode at a time.

    The grid of a method is extended by a factor of 2 as long as its best rate is at an edge.
    """
    rates = {method: list(RATES) for method in methods}
    while rates:
        for data, mode in itertools.product(TUNING_FEDERATIONS, TUNING_MODES):
            yield [("tune", data, mode, m, rate, 0) for m in rates for rate in rates[m]]
        best = chosen_rates(read_rows(path))
        rates = {
            method: [*of_method, 2 * of_method[-1]]
            if best[method] == of_method[-1]
            else [of_method[0] / 2, *of_method]
            for method, of_method in rates.items()
            if best[method] in (of_method[0], of_method[-1])
        }


def confirming(path: Path, federations: Sequence[str]) -> Iterator[list[Key]]:
    """Keys of the confirming runs: five seeds on stored federations, one on the others."""
    rates = chosen_rates(read_rows(path))
    for data, mode in itertools.product(federations, MODES):
        seeds = range(1) if data.isdigit() else range(5)
        yield [("confirm", data, mode, m, rates[m], seed) for m in rates for seed in seeds]


def main(path: Path, part: str, given: Sequence[str]) -> None:
    """Carry out the runs of a part that the file lacks."""
    batches = tuning(path, given or STUDIED) if part == "tune" else confirming(path, given)
    for batch in batches:
        done = {row.key for row in read_rows(path)}
        left = [key for key in batch if (key[0], Path(key[1]).stem, *key[2:]) not in done]
        if left:
            append(path, list(run(left)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
