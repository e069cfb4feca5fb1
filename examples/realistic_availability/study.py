"""The runs of the study of realistic availability; each run becomes one row of a CSV file.

Usage: python study.py ROWS.csv PART [--traces phones.npz] [FEDERATION ...]

PART is `tune`, `rounds`, `time` or `images`; the last three take the learning rate of each method
from the rows of `tune`. Without --traces, the conditions under a trace are left out. A FEDERATION
is a number, the seed of the data and of the run. Rows that the file already has are not computed
again, so an interrupted study resumes.
"""

import argparse
import csv
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

import fedgs
from fedgs.report import Run

Tables = Mapping[str, Any]

METHODS: dict[str, str | Tables] = {
    "uniform": "uniform",
    "md": "md",
    "power_of_choice": "power_of_choice",
    "fedgs": "fedgs",
    "inverse_participation": "inverse_participation",
    "balanced_shares": "balanced_shares",
    "fedau": "fedau",
    "f3ast": "f3ast",
    "mifa": "mifa",
    "fedawe": "fedawe",
}
ANSWERED = {"name": "inverse_participation", "counts": "answered"}
TIMED: dict[str, str | Tables] = {
    **{name: METHODS[name] for name in ("uniform", "md", "power_of_choice", "fedgs")},
    "fedgs, answered": {"name": "fedgs", "balance": "answered"},
    "inverse_participation": "inverse_participation",
    "inverse_participation, answered": {"name": "fedgs", "weighting": ANSWERED},
    "balanced_shares": "balanced_shares",
    "oort": "oort",
}
# Methods that were not tuned have the learning rate of another one.
RATE_OF = {
    "fedgs, answered": "fedgs",
    "inverse_participation, answered": "inverse_participation",
    "oort": "uniform",
}
ON_IMAGES = ("uniform", "md", "fedgs", "inverse_participation", "balanced_shares")

TRACE, DIURNAL = {"name": "trace"}, {"name": "diurnal"}
BY_SIZE = {"couple": "data_size"}
PAPER: dict[str, Tables] = {
    "IDL": {"name": "IDL"},
    "LDF": {"name": "LDF", "beta": 0.7},
    "MDF": {"name": "MDF", "beta": 0.7},
    "YMF": {"name": "YMF", "beta": 0.9},
}
REALISTIC: dict[str, Tables] = {
    "trace": TRACE,
    "trace, size +.8": {**TRACE, **BY_SIZE, "coupling": 0.8},
    "trace, size -.8": {**TRACE, **BY_SIZE, "coupling": -0.8},
    "trace, label .8": {**TRACE, "couple": "label", "coupling": 0.8},
    "diurnal": DIURNAL,
    "diurnal, size +.8": {**DIURNAL, **BY_SIZE, "coupling": 0.8},
    "diurnal, size -.8": {**DIURNAL, **BY_SIZE, "coupling": -0.8},
}
SLOW: dict[str, float] = {"slow +.8": 0.8, "slow -.8": -0.8}  # couple_speed
SYSTEM = {
    "work": 200,
    "update_bytes": 5_000_000,
    "over_selection": 1.3,
    "drop_out": 0.05,
}

RATES = (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4)
TUNING_FEDERATIONS, TUNING_CONDITIONS = (101, 102), ("IDL", "trace")
FEDERATIONS = range(1, 7)
ROUNDS, EVERY, CLIENTS, LIMIT, TAIL = 400, 10, 100, 10, 5
# Under IDL, FedGS selects each of the 100 clients once in 10 rounds: evaluations every 10 rounds
# would all be at the same place of this cycle.
IMAGE_ROUNDS, IMAGE_EVERY = 150, 7

Key = tuple[str, int, str, str, float]  # part, federation, condition, method, rate


@dataclass(frozen=True)
class Row:
    """One run.

    Attributes:
        part, federation, condition, method, rate: what was run.
        lowest, last, tail: lowest and last test loss, and the mean of the last `TAIL` ones.
        bias: half the sum over clients of |share of all weights - n_k/n|.
        count_variance: variance of the sampling counts.
        available: mean number of available clients of a round.
        answered, lost: share of the selected clients that answered, and of the work that was not
            used; "time" only.
        hours, losses: the clocks and test losses of the evaluations; "time" only.
    """

    part: str
    federation: int
    condition: str
    method: str
    rate: float
    lowest: float
    last: float
    tail: float
    bias: float
    count_variance: float
    available: float
    answered: float = float("nan")
    lost: float = float("nan")
    hours: tuple[float, ...] = ()
    losses: tuple[float, ...] = ()

    @property
    def key(self) -> Key:
        """What was run."""
        return (self.part, self.federation, self.condition, self.method, self.rate)


def read_rows(path: Path) -> list[Row]:
    """The rows of a file; none if there is no file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [
            Row(**{field.name: _read(field.type, line[field.name]) for field in fields(Row)})
            for line in csv.DictReader(file)
        ]


def _read(kind: Any, text: str) -> Any:
    return kind(text) if kind in (str, int, float) else tuple(map(float, text.split()))


def _written(value: object) -> object:
    if isinstance(value, tuple):
        return " ".join(f"{number:.4g}" for number in value)
    return f"{value:.6g}" if isinstance(value, float) else value


def append(path: Path, rows: Sequence[Row]) -> None:
    """Add rows to a file, with a header if it is new."""
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        if is_new:
            writer.writeheader()
        for row in rows:
            writer.writerow({name: _written(value) for name, value in asdict(row).items()})
        file.flush()
        os.fsync(file.fileno())


def row_of(key: Key, run: Run) -> Row:
    """The measured figures of a run."""
    records, clients = run.records, run.clients
    assert clients is not None
    evaluated = [r for r in records if r.test_loss is not None]
    losses = np.array([r.test_loss for r in evaluated], dtype=float)
    received: dict[object, float] = defaultdict(float)
    counts: dict[object, int] = defaultdict(int)
    for record in records:
        for client, weight in zip(record.cohort or (), record.weights or (), strict=True):
            received[client] += weight
            counts[client] += 1
    total = sum(received.values())
    shares = dict(zip(clients.names, clients.shares("data_size").tolist(), strict=True))
    timed: dict[str, Any] = {}
    if key[0] == "time":
        fates = [fate for record in records for fate in record.fates or ()]
        worked = np.array([seconds for record in records for seconds in record.worked or ()])
        used = worked[np.array(fates) == "answered"].sum()
        timed = {
            "answered": fates.count("answered") / len(fates),
            "lost": 1 - used / worked.sum(),
        }
        timed["hours"] = tuple((record.clock or 0.0) / 3600 for record in evaluated)
        timed["losses"] = tuple(losses.tolist())
    return Row(
        *key,
        lowest=float(np.nanmin(losses)),
        last=float(losses[-1]),
        tail=float(losses[-TAIL:].mean()),
        bias=0.5 * sum(abs(received[c] / total - share) for c, share in shares.items()),
        count_variance=float(np.var([counts[client] for client in shares], ddof=1)),
        available=float(np.mean([r.num_available for r in records if r.num_available is not None])),
        **timed,
    )


def settings_of(key: Key, traces: str | None) -> dict[str, Any]:
    """What `fedgs.compare` is given for a run, without the method."""
    part, federation, condition, _, rate = key
    name, _, slow = condition.partition("; ")
    mode = {**PAPER, **REALISTIC}[name]
    training = {"rounds": ROUNDS, "cohort_limit": LIMIT, "learning_rate": rate}
    settings: dict[str, Any] = {
        "federation": fedgs.Synthetic(clients=CLIENTS, seed=federation),
        "availability": {**mode, "path": traces} if mode["name"] == "trace" else mode,
        "training": training,
        "evaluation": {"every": EVERY},
        "execution": {"workers": 1, "threads": 1},
        "seeds": [federation],
    }
    if part == "time":
        clock = "simulated" if mode["name"] == "trace" else "rounds"
        settings["system"] = {
            **SYSTEM,
            "clock": clock,
            "couple_speed": SLOW.get(slow, 0.0),
        }
    if part == "images":
        training["rounds"] = IMAGE_ROUNDS
        settings |= {
            "federation": fedgs.FashionMNIST(seed=federation),
            "model": "logistic",
            "evaluation": {"every": IMAGE_EVERY},
        }
    return settings


def run(keys: Sequence[Key], traces: str | None) -> Iterator[Row]:
    """Carry out runs of one federation and condition, those of a learning rate together.

    One that fails is printed and left out.
    """
    by_rate: dict[float, list[Key]] = defaultdict(list)
    for key in keys:
        by_rate[key[4]].append(key)
    for group in by_rate.values():
        tables = TIMED if group[0][0] == "time" else METHODS
        methods = {key[3]: tables[key[3]] for key in group}
        results = fedgs.compare(methods=methods, **settings_of(group[0], traces))
        for key, finished in zip(group, results.runs, strict=True):
            if finished.failure is None:
                yield row_of(key, finished)
            else:
                print(key, finished.failure)


def chosen_rates(rows: Sequence[Row]) -> dict[str, float]:
    """Method -> the learning rate with the lowest mean over all tuning runs of the lowest loss."""
    losses: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.part == "tune":
            losses[row.method][row.rate].append(row.lowest)
    return {
        method: min(of_rate, key=lambda rate: float(np.mean(of_rate[rate])))
        for method, of_rate in losses.items()
    }


def conditions(part: str, traces: str | None) -> list[str]:
    """The conditions of a part; without a file of traces, those without one."""
    names = {
        "tune": list(TUNING_CONDITIONS),
        "rounds": [*PAPER, *REALISTIC],
        "time": [
            *("trace", *(f"trace; {slow}" for slow in SLOW)),
            *("trace, size +.8", "trace, size -.8", "diurnal"),
        ],
        "images": ["IDL", "YMF", "trace", "trace, label .8", "diurnal"],
    }[part]
    return [name for name in names if traces or not name.startswith("trace")]


def keys_of(part: str, federation: int, rows: Sequence[Row], traces: str | None) -> list[list[Key]]:
    """The runs of a part on a federation; those of a condition are carried out together."""
    methods = {"time": list(TIMED), "images": list(ON_IMAGES)}.get(part, list(METHODS))
    rates = chosen_rates(rows)

    def of_method(method: str) -> Sequence[float]:
        return RATES if part == "tune" else [rates[RATE_OF.get(method, method)]]

    return [
        [(part, federation, name, m, rate) for m in methods for rate in of_method(m)]
        for name in conditions(part, traces)
    ]


def main(given: Sequence[str] | None = None) -> None:
    """Carry out the runs of a part that the file lacks."""
    parser = argparse.ArgumentParser(usage=(__doc__ or "").split("Usage: ")[1].split("\n")[0])
    parser.add_argument("rows", type=Path)
    parser.add_argument("part", choices=("tune", "rounds", "time", "images"))
    parser.add_argument("federations", type=int, nargs="*")
    parser.add_argument("--traces")
    chosen = parser.parse_intermixed_args(given)
    default = TUNING_FEDERATIONS if chosen.part == "tune" else FEDERATIONS
    rows = read_rows(chosen.rows)
    done = {row.key for row in rows}
    for federation in chosen.federations or default:
        for batch in keys_of(chosen.part, federation, rows, chosen.traces):
            left = [key for key in batch if key not in done]
            if left:
                append(chosen.rows, list(run(left, chosen.traces)))


if __name__ == "__main__":
    main()
