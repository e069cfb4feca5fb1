"""The runs of the study of balanced shares; each run becomes one row of a CSV file.

Usage: python study.py ROWS.csv tune [METHOD ...]
       python study.py ROWS.csv tune_server [METHOD ...]
       python study.py ROWS.csv confirm FEDERATION ...
       python study.py ROWS.csv tune_all [METHOD ...]
       python study.py ROWS.csv tune_all_server [METHOD ...]
       python study.py ROWS.csv confirm_all FEDERATION ...
       python study.py ROWS.csv design [SETTING ...]

In the parts with `_all`, all available clients train (M = N); in the others, M = 0.2 N. Rows that
the file already has are not computed again, so an interrupted study resumes. A federation is a
`data.seed`, or the path of a stored one. `tune` has server rate 1; `tune_server` combines other
server rates with learning rates around the best one of `tune`. `confirm` takes both rates of each
method from the rows of these. `design` runs the settings of `design.py` at the learning rate .1.
"""

import csv
import itertools
import math
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from design import SETTINGS

import fedgs
from fedgs.report import Run

UNIFORM = {"name": "uniform"}
MIFA = {
    "method": {**UNIFORM, "weighting": "all"},
    "aggregation": {"name": "stale", "unit": "gradient"},
}
FEDVARP = {"method": {**UNIFORM, "weighting": "data_size"}, "aggregation": {"name": "stale"}}
# Label -> tables of the configuration.
METHODS: dict[str, dict[str, Any]] = {
    "uniform": {"method": UNIFORM},
    "md": {"method": {"name": "md"}},
    "power_of_choice": {"method": {"name": "power_of_choice"}},
    "fedgs": {"method": {"name": "fedgs"}},
    "inverse_participation": {"method": {"name": "fedgs", "weighting": "inverse_participation"}},
    "fedau_50": {"method": {**UNIFORM, "weighting": {"name": "fedau", "cutoff": 50}}},
    "fedau_inf": {"method": {**UNIFORM, "weighting": {"name": "fedau", "cutoff": 0}}},
    "f3ast": {"method": {"name": "f3ast"}},
    "mifa": MIFA,
    "fedvarp": FEDVARP,
    "clustered": {"method": {"name": "clustered"}},
    "known": {"method": {**UNIFORM, "weighting": "known"}},
    "balanced_shares": {"method": {"name": "fedgs", "weighting": "deficit", "balance": "share"}},
}
ALL_AVAILABLE: dict[str, dict[str, Any]] = {
    **{m: METHODS[m] for m in ("uniform", "fedau_50", "fedau_inf", "mifa", "fedvarp", "known")},
    "deficit": {"method": {**UNIFORM, "weighting": "deficit"}},
}
# Part -> its methods, and C, which gives M = C N.
PARTS: dict[str, tuple[Mapping[str, dict[str, Any]], float]] = {
    "tune": (METHODS, 0.2),
    "tune_server": (METHODS, 0.2),
    "confirm": (METHODS, 0.2),
    "tune_all": (ALL_AVAILABLE, 1.0),
    "tune_all_server": (ALL_AVAILABLE, 1.0),
    "confirm_all": (ALL_AVAILABLE, 1.0),
    "design": ({name: {"method": table} for name, table in SETTINGS.items()}, 0.2),
}
MODES = ("IDL", "LN", "SLN", "LDF", "MDF", "YMF", "YC")
TUNING_FEDERATIONS = {
    "tune": ("11", "12", "13", "14", "15"),
    "tune_server": ("11", "12"),
    "tune_all": ("11", "12"),  # for the time of runs with more clients
    "tune_all_server": ("11", "12"),
    "design": ("11", "12", "13", "14", "15"),
}
TUNING_MODES = ("IDL", "LN", "LDF", "MDF")
RATES = (0.05, 0.1, 0.2)
SERVER_RATES = (0.5, 1.0, 2.0)
SERVER_LIMITS = (0.25, 8.0)  # of the extended grids
DESIGN_RATE, DESIGN_MODES = 0.1, ("IDL", "LN", "SLN", "LDF", "MDF")
ROUNDS, EVERY, TAIL = 1000, 5, 40

# part, data, mode, method, rate, server rate, seed
Key = tuple[str, str, str, str, float, float, int]


class Rates(NamedTuple):
    """A learning rate and a server rate."""

    local: float
    server: float = 1.0


@dataclass(frozen=True)
class Row:
    """One run.

    Attributes:
        part: a key of `PARTS`.
        data, mode, method, rate, server_rate, seed: what was run.
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
    server_rate: float
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
        settings = (self.method, self.rate, self.server_rate, self.seed)
        return (self.part, self.data, self.mode, *settings)

    @property
    def rates(self) -> Rates:
        """Both rates."""
        return Rates(self.rate, self.server_rate)


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
    """Carry out runs of one part and federation; one that fails is printed and left out."""
    part, data = keys[0][:2]
    methods, proportion = PARTS[part]
    federation = fedgs.Synthetic(seed=int(data)) if data.isdigit() else fedgs.File(path=data)
    seeds: dict[tuple[str, Rates, str], list[int]] = defaultdict(list)
    for _, _, mode, method, rate, server_rate, seed in keys:
        seeds[mode, Rates(rate, server_rate), method].append(seed)
    # Runs of one mode, rates, aggregation and list of seeds are stacked.
    groups: dict[tuple[str, Rates, str, tuple[int, ...]], list[str]] = defaultdict(list)
    for (mode, rates, method), of_method in seeds.items():
        aggregation = str(methods[method].get("aggregation"))
        groups[mode, rates, aggregation, tuple(of_method)].append(method)
    for (mode, rates, _, of_group), stacked in groups.items():
        results = fedgs.compare(
            federation,
            methods={method: methods[method]["method"] for method in stacked},
            availability=mode,
            aggregation=with_server(methods[stacked[0]].get("aggregation"), rates.server),
            training={"rounds": ROUNDS, "learning_rate": rates.local, "proportion": proportion},
            evaluation={"every": EVERY},
            execution={"workers": 1, "threads": 1},
            seeds=of_group,
        )
        labels = itertools.product(stacked, of_group)
        for (method, seed), finished in zip(labels, results.runs, strict=True):
            if finished.failure is None:
                key = (part, Path(data).stem, mode, method, *rates, seed)
                yield Row(*key, **figures(finished))
            else:
                print(mode, method, rates, seed, finished.failure, file=sys.stderr)


def with_server(aggregation: Mapping[str, Any] | None, rate: float) -> Mapping[str, Any] | None:
    """The aggregation with this server rate; unchanged for the rate 1."""
    if rate == 1:
        return aggregation
    return {**(aggregation or {"name": "mean"}), "server": {"name": "sgd", "rate": rate}}


def learning_rates(rows: Sequence[Row], part: str = "tune") -> dict[str, float]:
    """Method -> the learning rate of the lowest mean over all tuning runs of the lowest loss.

    The server rate is 1. Rates that were not run in all cells are not compared.
    """
    losses: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.part == part:
            losses[row.method][row.rate].append(row.lowest)
    return {
        method: min(
            (r for r in of_rate if len(of_rate[r]) == max(map(len, of_rate.values()))),
            key=lambda rate: float(np.mean(of_rate[rate])),
        )
        for method, of_rate in losses.items()
    }


def server_grid(rows: Sequence[Row], part: str, method: str) -> dict[Rates, float]:
    """Rates -> mean lowest loss over the cells of the server grid; empty if there are no runs."""
    server = f"{part}_server"
    cells = {(r.data, r.mode) for r in rows if (r.part, r.method) == (server, method)}
    losses: dict[Rates, list[float]] = defaultdict(list)
    for row in rows:
        is_tuned = row.part in (part, server) and row.method == method
        if is_tuned and (row.data, row.mode) in cells:
            losses[row.rates].append(row.lowest)
    return {
        rates: float(np.mean(of_rates))
        for rates, of_rates in losses.items()
        if len(of_rates) == len(cells)
    }


def chosen_rates(rows: Sequence[Row], part: str = "tune") -> dict[str, Rates]:
    """Method -> the rates of the lowest mean in the server grid, where it was run.

    Elsewhere the learning rate is the best one, and the server rate is 1.
    """
    chosen = {method: Rates(rate) for method, rate in learning_rates(rows, part).items()}
    grids = {method: server_grid(rows, part, method) for method in chosen}
    return chosen | {
        method: min(grid, key=grid.__getitem__) for method, grid in grids.items() if grid
    }


def tuning(path: Path, part: str, methods: Sequence[str]) -> Iterator[list[Key]]:
    """Keys of the tuning runs, a federation at a time.

    The grid of a method is extended by a factor of 2 as long as its best rate is at an edge.
    """
    rates = {method: list(RATES) for method in methods}
    while rates:
        for data in TUNING_FEDERATIONS[part]:
            yield [
                (part, data, mode, method, rate, 1.0, 0)
                for mode, method in itertools.product(TUNING_MODES, rates)
                for rate in rates[method]
            ]
        best = learning_rates(read_rows(path), part)
        rates = {
            method: extended(of_method, best[method])
            for method, of_method in rates.items()
            if best[method] in (of_method[0], of_method[-1])
        }


def tuning_server(path: Path, part: str, methods: Sequence[str]) -> Iterator[list[Key]]:
    """Keys of the runs with other server rates, a federation at a time.

    The grid of a method has learning rates around the best one for the server rate 1. It is
    extended by a factor of 2 on each axis as long as its best rates are at an edge. Server rates
    stay within `SERVER_LIMITS`.
    """
    base = part.removesuffix("_server")
    best = learning_rates(read_rows(path), base)
    grids = {m: ([best[m] / 2, best[m], best[m] * 2], list(SERVER_RATES)) for m in methods}
    while grids:
        done = {row.key[1:] for row in read_rows(path) if row.part == base}
        for data in TUNING_FEDERATIONS[part]:
            keys = [
                (part, data, mode, method, *rates, 0)
                for mode, (method, axes) in itertools.product(TUNING_MODES, grids.items())
                for rates in itertools.product(*axes)
            ]
            yield [key for key in keys if key[1:] not in done]
        rows = read_rows(path)
        larger = {}
        for method, (local, server) in grids.items():
            losses = server_grid(rows, base, method)
            pairs = itertools.starmap(Rates, itertools.product(local, server))
            lowest = min((p for p in pairs if p in losses), key=losses.__getitem__)
            larger[method] = (
                extended(local, lowest.local),
                extended(server, lowest.server, *SERVER_LIMITS),
            )
        grids = {method: axes for method, axes in larger.items() if axes != grids[method]}


def extended(
    axis: list[float], best: float, lowest: float = 0.0, highest: float = math.inf
) -> list[float]:
    """The axis, extended by a factor of 2 at the edge where its best value is, within limits."""
    above = [2 * axis[-1]] if best == axis[-1] and 2 * best <= highest else []
    below = [axis[0] / 2] if best == axis[0] and best / 2 >= lowest else []
    return [*below, *axis, *above]


def confirming(path: Path, part: str, federations: Sequence[str]) -> Iterator[list[Key]]:
    """Keys of the confirming runs: five seeds on stored federations, one on the others."""
    rates = chosen_rates(read_rows(path), part.replace("confirm", "tune"))
    for data in federations:
        seeds = range(1) if data.isdigit() else range(5)
        yield [
            (part, data, mode, method, *rates[method], seed)
            for mode, method, seed in itertools.product(MODES, rates, seeds)
        ]


def designing(settings: Sequence[str]) -> Iterator[list[Key]]:
    """Keys of the runs of settings that were tried, on the tuning federations."""
    for data in TUNING_FEDERATIONS["design"]:
        yield [
            ("design", data, mode, setting, DESIGN_RATE, 1.0, 0)
            for mode, setting in itertools.product(DESIGN_MODES, settings)
        ]


def main(path: Path, part: str, given: Sequence[str]) -> None:
    """Carry out the runs of a part that the file lacks."""
    if part.endswith("_server"):
        batches = tuning_server(path, part, given or list(PARTS[part][0]))
    elif part.startswith("tune"):
        batches = tuning(path, part, given or list(PARTS[part][0]))
    elif part == "design":
        batches = designing(given or list(SETTINGS))
    else:
        batches = confirming(path, part, given)
    for batch in batches:
        done = {row.key for row in read_rows(path)}
        left = [key for key in batch if (key[0], Path(key[1]).stem, *key[2:]) not in done]
        if left:
            append(path, list(run(left)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
