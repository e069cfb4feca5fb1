"""Runs read back from an output folder, with one line for each entry that is not a run."""

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from fedgs.errors import OutputError
from fedgs.records import Members, Record, RunFolder
from fedgs.report.labels import labelled
from fedgs.report.run_view import UNREADABLE, Run

__all__ = ["read_runs"]

T = TypeVar("T")

# Endings of the files that commands write beside the runs.
_OUTPUT_SUFFIXES = {
    ".json", ".html", ".txt", ".md", ".csv", ".parquet", ".tex", ".pdf", ".png", ".log",
}  # fmt: skip
_OUTPUT_FOLDERS = ("figures", "graphs", "tensorboard", "mlflow", "wandb")


def read_runs(folder: str | os.PathLike[str]) -> tuple[list[Run], list[str]]:
    """Every readable run in an output folder, and one line for each other entry.

    Args:
        folder: an output folder, or the folder of one run.

    Returns:
        The runs, labelled, in order of their folders' names; the problems.

    Raises:
        OutputError: there is no such folder, or it holds no run that can be read.
    """
    if not isinstance(folder, str | os.PathLike):
        raise OutputError(f"read_runs takes a folder such as 'fedgs-runs'; got {folder!r}")
    folder = Path(folder)
    if not folder.is_dir():
        raise OutputError(f"{folder} is not a folder; give the output folder of a run")
    candidates = [folder] if RunFolder(folder).exists() else sorted(folder.iterdir())
    runs: list[Run] = []
    problems: list[str] = []
    for path in candidates:
        if not path.is_dir():
            if path.suffix not in _OUTPUT_SUFFIXES and not path.name.startswith("."):
                problems.append(f"{path.name}: not part of a run")
        elif RunFolder(path).exists():
            run = _read_run(path, problems)
            runs += [] if run is None else [run]
        elif not path.name.startswith(".") and path.name not in _OUTPUT_FOLDERS:
            problems.append(f"{path.name}: not a run's folder (no config.toml)")
    if not runs:
        raise OutputError(
            f"{folder} holds no run that can be read"
            + "".join(f"; {problem}" for problem in problems[:5])
        )
    return labelled(_without_copies(runs, problems)), problems


def _read_run(path: Path, problems: list[str]) -> Run | None:
    """The run of a folder, without its parts that cannot be read; None without its records."""
    stored = RunFolder(path)
    try:
        run = Run(stored.config(), tuple(_checked(stored.records())), path=path)
        # Each of these raises if the configuration has a value of the wrong type.
        _ = (run.seed, run.rounds, run.replicate, run.num_clients, run.finished)
        if "name" not in run.table("method"):
            raise OutputError(f"{path / 'config.toml'} names no method")
    except UNREADABLE as error:
        problems.append(f"{path.name}: left out, {_short(error)}")
        return None

    def part(name: str, read: Callable[[], T], default: T) -> T:
        try:
            return read()
        except UNREADABLE as error:
            problems.append(f"{path.name}: without its {name}, {_short(error)}")
            return default

    return replace(
        run,
        clients=part("clients", stored.clients, None),
        failure=part("failure", stored.failure, None),
        timings=part("timings", stored.timings, []),
        events=part("events", lambda: _events(path), []),
    )


def _events(path: Path) -> list[dict[str, object]]:
    """What went wrong in a deployment; lines that are damaged or hold no event are left out."""
    file = path / "events.jsonl"
    if not file.is_file():
        return []
    events = []
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            if isinstance(event, dict) and "event" in event:
                events.append(event)
    return events


def _checked(records: Iterable[Record]) -> Iterable[Record]:
    """The records, or an `OutputError` for the first one with a value of the wrong type."""
    for record in records:
        further = [record.test_metrics or {}, record.valid_metrics or {}]
        if not all(isinstance(metrics, Mapping) for metrics in further):
            raise OutputError(f"round {record.round} holds metrics that are not a table")
        figures: tuple[object, ...] = (
            record.test_loss,
            record.test_accuracy,
            record.valid_loss,
            record.num_available,
            *(value for metrics in further for value in metrics.values()),
            *(record.clock, record.seconds, record.traffic, *_listed(record.worked)),
        )
        lists = (
            *(record.available, record.cohort, record.draws, record.weights),
            *(record.fates, record.worked),
        )
        if not all(value is None or _is_number(value) for value in figures):
            raise OutputError(f"round {record.round} holds a figure that is not a number")
        if not all(value is None or isinstance(value, list | tuple | Members) for value in lists):
            raise OutputError(f"round {record.round} holds a list of clients that is not a list")
        yield record


def _listed(values: object) -> Sequence[Any]:
    """The values, where they are a list."""
    return values if isinstance(values, list | tuple) else ()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:160] or type(error).__name__


def _without_copies(runs: list[Run], problems: list[str]) -> list[Run]:
    """The runs, of several copies of one run only that with the most rounds."""
    longest: dict[object, Run] = {}
    for run in runs:
        key = run.about.get("fingerprint") or run.path
        other = longest.get(key)
        if other is None:
            longest[key] = run
            continue
        longer, shorter = (run, other) if len(run.records) > len(other.records) else (other, run)
        longest[key] = longer
        problems.append(f"{shorter.name}: left out, the same run as {longer.name}")
    return list(longest.values())
