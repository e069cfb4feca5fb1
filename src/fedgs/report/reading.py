"""Runs read back from an output folder, with one line for each thing in it that is not a run."""

import contextlib
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fedgs.errors import OutputError
from fedgs.records import Members, Record, RunFolder
from fedgs.report.labels import labelled
from fedgs.report.run_view import UNREADABLE, Run

__all__ = ["Run", "checked_records", "read_runs"]

_OWN_FILES = {
    ".json",
    ".html",
    ".txt",
    ".md",
    ".csv",
    ".tex",
    ".pdf",
    ".png",
    ".log",
}  # what commands put beside the runs


def read_runs(folder: str | os.PathLike[str]) -> tuple[list[Run], list[str]]:
    """Every readable run in an output folder, and one line for each thing in it that is not.

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
            if path.suffix not in _OWN_FILES and not path.name.startswith("."):
                problems.append(f"{path.name}: not part of a run")
        elif RunFolder(path).exists():
            _read_into(path, runs, problems)
        elif not path.name.startswith(".") and path.name not in ("figures", "graphs"):
            problems.append(f"{path.name}: not a run's folder (no config.toml)")
    if not runs:
        raise OutputError(
            f"{folder} holds no run that can be read"
            + "".join(f"; {problem}" for problem in problems[:5])
        )
    return labelled(_without_doubles(runs, problems)), problems


def _read_into(path: Path, runs: list[Run], problems: list[str]) -> None:
    stored = RunFolder(path)
    try:
        config = stored.config()
        records = tuple(checked_records(stored.records()))
        run = Run(config, records, path=path)
        _ = (
            run.seed,
            run.rounds,
            run.replicate,
            run.num_clients,
            run.finished,
        )  # raises for values of the wrong type
        if "name" not in run.table("method"):
            raise OutputError(f"{path / 'config.toml'} names no method")
    except UNREADABLE as error:
        problems.append(f"{path.name}: left out, {_short(error)}")
        return
    parts: dict[str, Any] = {}
    readers: dict[str, Callable[[], Any]] = {
        "clients": stored.clients,
        "failure": stored.failure,
        "timings": stored.timings,
        "events": lambda: _events(path),
    }
    for part, read in readers.items():
        try:
            parts[part] = read()
        except UNREADABLE as error:
            problems.append(f"{path.name}: without its {part}, {_short(error)}")
    runs.append(Run(config, records, path=path, **parts))


def _events(path: Path) -> list[dict[str, Any]]:
    """What went wrong in a deployment; lines that are damaged or hold no event are left out."""
    file = path / "events.jsonl"
    events = []
    for line in (
        file.read_text(encoding="utf-8", errors="replace").splitlines() if file.is_file() else ()
    ):
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            if isinstance(event, dict) and "event" in event:
                events.append(event)
    return events


def checked_records(records: Iterable[Record]) -> Iterable[Record]:
    """The records, or an `OutputError` for the first one with a value of the wrong type."""
    for record in records:
        figures = (record.test_loss, record.test_accuracy, record.valid_loss, record.num_available)
        lists = (record.available, record.cohort, record.draws, record.weights)
        if not all(value is None or _is_number(value) for value in figures):
            raise OutputError(f"round {record.round} holds a figure that is not a number")
        if not all(value is None or isinstance(value, list | tuple | Members) for value in lists):
            raise OutputError(f"round {record.round} holds a list of clients that is not a list")
        yield record


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:160] or type(error).__name__


def _without_doubles(runs: list[Run], problems: list[str]) -> list[Run]:
    """The runs without copies of the same run; of copies, the one with most rounds stays."""
    kept: dict[Any, Run] = {}
    for run in runs:
        key = run.about.get("fingerprint") or run.path
        other = kept.get(key)
        if other is None:
            kept[key] = run
            continue
        longer, shorter = (run, other) if len(run.records) > len(other.records) else (other, run)
        kept[key] = longer
        problems.append(f"{shorter.name}: left out, the same run as {longer.name}")
    return list(kept.values())
