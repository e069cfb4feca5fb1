"""Runs without folders, with losses that a test states, and what it reads from their table."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedgs.records import Record
from fedgs.report.run_view import Run
from fedgs.report.table import Cell, Table
from fedgs.report.tables import comparison


def run(
    method: str,
    seed: int,
    loss: float,
    *,
    rounds: int = 1,
    done: bool = True,
    failure: dict[str, object] | None = None,
    valid: float | None = None,
    group: str = "LDF",
) -> Run:
    """A run of one round and its last record, with the loss in the last."""
    records = [Record(0, cohort=["a"], test_loss=9.0, test_accuracy=0.1)]
    if done:
        records.append(Record(1, test_loss=loss, test_accuracy=1 - loss, valid_loss=valid))
    config = {
        "method": {"name": method},
        "availability": {"name": group, "seed": seed},
        "training": {"rounds": rounds},
        "seed": seed,
        "run": {"data_title": "toy", "num_clients": 2},
    }
    return Run(config, records, failure=failure)


def first_column(table: Table) -> list[str]:
    return [row[0].text for row in table.rows]


def cell(table: Table, label: str, column: str) -> Cell:
    position = [c.title for c in table.columns].index(column)
    return next(row for row in table.rows if row[0].text == label)[position]


def shown(table: Table) -> list[str]:
    return [column.title for column in table.columns if column.shown]


def course(
    *losses: float,
    method: str = "md",
    seed: int = 0,
    figure: str = "test_loss",
    accuracies: Sequence[float | None] | None = None,
    **config: Any,
) -> Run:
    """A run that was evaluated in every round."""
    accuracies = accuracies or [None] * len(losses)
    records = [
        Record(
            t,
            cohort=["a"] if t < len(losses) - 1 else None,
            **{figure: loss},
            test_accuracy=accuracy,
        )
        for t, (loss, accuracy) in enumerate(zip(losses, accuracies, strict=True))
    ]
    tables = {
        "method": {"name": method},
        "training": {"rounds": len(losses) - 1},
        "seed": seed,
        **config,
    }
    return Run({**tables, "run": {"num_clients": 2, **config.get("run", {})}}, records)


def notes_of(*runs: Run) -> str:
    return " ".join(note for block in comparison(runs).blocks for note in block.notes)


def deployment(
    method: str,
    *losses: float,
    limit: int = 2,
    seed: int = 0,
    name: str | None = None,
    started: str | None = None,
) -> Run:
    """A run as a deployment writes it, without a test set."""
    about = {"engine": "flower"} if started is None else {"engine": "flower", "started": started}
    config = {
        "data": {"name": "deployment"},
        "availability": {"name": "deployment"},
        "method": {"name": method},
        "training": {"cohort_limit": limit},
        "seed": seed,
        "run": about,
    }
    records = [Record(t, cohort=["a-0"], valid_loss=loss) for t, loss in enumerate(losses)]
    return Run(config, records, path=None if name is None else Path("out") / name)


def twin(name: str, started: str, loss: float = 0.3, method: str = "md", **changes: Any) -> Run:
    made = run(method, 0, loss, **changes)
    about = {**made.about, "started": started, "fingerprint": name}
    return Run(
        {**made.config, "run": about}, made.records, failure=made.failure, path=Path("out") / name
    )


def run_of(study: list[Run], label: str) -> Run:
    return next(run for run in study if run.label == label)
