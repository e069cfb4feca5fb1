"""Runs as columns: one entry for each run and record, the same for every tool."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import accumulate

from fedgs.record import Record
from fedgs.report.labels import flattened
from fedgs.report.run_view import Run

__all__ = [
    "KINDS",
    "LISTS",
    "METRICS",
    "OPTIONAL",
    "TYPES",
    "columns_of",
    "metrics_of",
    "seconds_of",
    "settings_of",
]

# Columns before those of the settings, and what an entry is; a list has one entry a client.
TYPES: dict[str, type] = {
    "run": str,
    "data": str,
    "availability": str,
    "method": str,
    "seed": int,
    "state": str,
    "round": int,
    "available": list,
    "num_available": int,
    "cohort": list,
    "draws": list,
    "weights": list,
    "selection_status": str,
    "selection_objective": float,
    "selection_upper_bound": float,
    "test_loss": float,
    "test_accuracy": float,
    "valid_loss": float,
}
# Columns that are present where a record has the field; `test_NAME` and `valid_NAME`
# stand for further metrics.
OPTIONAL: dict[str, type] = {
    "stopped": str,
    "clock": float,
    "seconds": float,
    "fates": list,
    "worked": list,
    "traffic": int,
    "ended": str,
}
KINDS = TYPES | OPTIONAL
LISTS = tuple(name for name, kind in KINDS.items() if kind is list)
METRICS = (
    "num_available",
    "selection_objective",
    "selection_upper_bound",
    "test_loss",
    "test_accuracy",
    "valid_loss",
    "clock",
    "seconds",
    "traffic",
)
_NOT_SETTINGS = ("run", "execution", "label", "seed")
_ABOUT = ("run", "data", "availability", "method", "seed", "state")
_RECORD = tuple(name for name in TYPES if name not in _ABOUT)


def columns_of(runs: Sequence[Run]) -> dict[str, list[object]]:
    """Column -> values, one entry for each run and record, in the order of the runs.

    The columns of `TYPES` come first, then the fields of `OPTIONAL` and the further metrics that a
    record has. The settings in which the runs differ follow, by their dotted keys; a run whose
    variant has no such setting has None there.

    Args:
        runs: labelled.

    >>> runs = [
    ...     Run({"method": {"name": "fedgs", "alpha": alpha}}, [Record(0, cohort=[1]), Record(1)])
    ...     for alpha in (0.5, 2.0)
    ... ]
    >>> columns = columns_of(runs)
    >>> columns["round"], columns["method.alpha"]
    ([0, 1, 0, 1], [0.5, 0.5, 2.0, 2.0])
    """
    settings = [settings_of(run) for run in runs]
    differing = _differing(runs, settings)
    records = [record for run in runs for record in run.records]
    given = [name for name in OPTIONAL if any(getattr(r, name) is not None for r in records)]
    further = dict.fromkeys(name for record in records for name in _further(record))
    columns: dict[str, list[object]] = {name: [] for name in (*TYPES, *given, *further, *differing)}
    for run, own in zip(runs, settings, strict=True):
        about = {**_about(run), **{key: own.get(key) for key in differing}}
        for record in run.records:
            for name, value in about.items():
                columns[name].append(value)
            for name in further:
                columns[name].append(record.value(name))
            for name in (*_RECORD, *given):
                value = getattr(record, name)
                listed = value is not None and name in LISTS
                columns[name].append(list(value) if listed else value)
    return columns


def settings_of(run: Run) -> dict[str, object]:
    """Dotted key -> setting, without the seed, the label and how the run was carried out.

    >>> settings_of(Run({"seed": 3, "method": {"name": "fedgs", "graph": {"k": 2}}}, ()))
    {'method.name': 'fedgs', 'method.graph.k': 2}
    """
    return flattened({key: run.table(key) for key in run.config if key not in _NOT_SETTINGS})


def metrics_of(record: Record) -> dict[str, float]:
    """The numbers of a record, and `cohort_size`; without those that the record does not have.

    >>> metrics_of(Record(3, cohort=["a", "b"], test_loss=0.5))
    {'cohort_size': 2.0, 'test_loss': 0.5}
    """
    size = {} if record.cohort is None else {"cohort_size": float(len(record.cohort))}
    values = {name: getattr(record, name) for name in METRICS}
    values |= _further(record)
    return size | {name: float(value) for name, value in values.items() if value is not None}


def _further(record: Record) -> dict[str, float]:
    """The further metrics of a record by figure, those of the test set first."""
    parts = (("test", record.test_metrics), ("valid", record.valid_metrics))
    return {f"{part}_{name}": v for part, values in parts for name, v in (values or {}).items()}


def seconds_of(run: Run) -> list[float]:
    """When each record was made, in seconds since 1970: the start, and the seconds of each round.

    A run that was interrupted has no seconds for the interruption. Without a start, the first
    record is at 0.

    >>> run = Run({}, [Record(0, cohort=[1]), Record(1)], timings=[{"round": 0, "train": 2.0}])
    >>> seconds_of(run)
    [2.0, 2.0]
    """
    started = str(run.about.get("started") or "")
    try:
        start = datetime.fromisoformat(started).timestamp()
    except ValueError:
        start = 0.0
    rounds = [_duration(timing) for timing in run.timings[: len(run.records)]]
    rounds += [0.0] * (len(run.records) - len(rounds))
    return list(accumulate(rounds, initial=start))[1:]


def _duration(timing: Mapping[str, float]) -> float:
    return sum(value for phase, value in timing.items() if phase != "round")


def _about(run: Run) -> dict[str, object]:
    """The columns that are the same for all records of a run."""
    state = "finished" if run.finished else "unfinished"
    return {
        "run": run.name,
        "data": run.group[0],
        "availability": run.group[1],
        "method": run.label,
        "seed": run.seed,
        "state": state if run.failure is None else "failed",
    }


def _differing(runs: Sequence[Run], settings: Sequence[Mapping[str, object]]) -> list[str]:
    """The keys whose values differ, in the order of the configuration.

    A setting that only some variants have, such as `method.alpha`, counts where runs that have it
    differ, or where a run of the same variant lacks it. A mode's seed that is the run's does not.
    """
    keys = dict.fromkeys(key for own in settings for key in own)
    return [
        key for key in keys if _differs(key, settings) and not _is_run_seed(key, runs, settings)
    ]


def _differs(key: str, settings: Sequence[Mapping[str, object]]) -> bool:
    variant = f"{key.partition('.')[0]}.name"
    having = {own.get(variant) for own in settings if key in own}
    values = {repr(own.get(key)) for own in settings if own.get(variant) in having}
    return len(values) > 1


def _is_run_seed(key: str, runs: Sequence[Run], settings: Sequence[Mapping[str, object]]) -> bool:
    return key == "availability.seed" and all(
        own.get(key, run.seed) == run.seed for run, own in zip(runs, settings, strict=True)
    )
