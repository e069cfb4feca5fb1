"""Runs in MLflow: settings as parameters, metrics by round, the configuration as an artifact."""

import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from fedgs.export.library import library
from fedgs.export.rows import metrics_of, seconds_of, settings_of
from fedgs.export.titles import titles_of
from fedgs.report.run_view import Run, without_none

__all__ = ["tracking_uri", "to_mlflow"]

_EXPERIMENT = "fedgs"
_BATCH = 1000  # metrics that MLflow takes in one call
_PARAMETERS = 100  # parameters that MLflow takes in one call
_MOST_CHARACTERS = 500  # of a parameter, in every version of MLflow


def tracking_uri(out: str) -> str:
    """The address of the database in a folder; an address as it is.

    >>> tracking_uri("/runs/mlflow"), tracking_uri("http://localhost:5000")
    ('sqlite:////runs/mlflow/mlflow.db', 'http://localhost:5000')
    """
    return out if "://" in out else f"sqlite:///{Path(out).resolve() / 'mlflow.db'}"


def to_mlflow(runs: Sequence[Run], out: str) -> None:
    """Add a run of the experiment "fedgs" for each run.

    Args:
        runs: labelled.
        out: a folder for a database and artifacts, or the address of a tracking server.

    Raises:
        MissingExtraError: mlflow is not installed.
    """
    mlflow = library("mlflow", "--to mlflow")
    artifacts = None
    if "://" not in out:
        Path(out).mkdir(parents=True, exist_ok=True)
        artifacts = (Path(out).resolve() / "artifacts").as_uri()
    client = mlflow.MlflowClient(tracking_uri=tracking_uri(out))
    known = client.get_experiment_by_name(_EXPERIMENT)
    experiment = (
        client.create_experiment(_EXPERIMENT, artifact_location=artifacts)
        if known is None
        else known.experiment_id
    )
    for run, title in zip(runs, titles_of(runs), strict=True):
        _add(client, experiment, run, title)


def _add(client: Any, experiment: str, run: Run, title: str) -> None:
    entities = library("mlflow.entities", "--to mlflow")
    times = [round(1000 * seconds) for seconds in seconds_of(run)]
    tags = {
        "fedgs.run": run.name,
        "fedgs.data": run.group[0],
        "fedgs.availability": run.group[1],
        "fedgs.method": run.label,
    }
    made = client.create_run(
        experiment, run_name=title, tags=tags, start_time=times[0] if times else None
    ).info.run_id
    settings = {"seed": run.seed, **settings_of(run)}
    parameters = [
        entities.Param(key, str(value)[:_MOST_CHARACTERS]) for key, value in settings.items()
    ]
    for part in _parts(parameters, _PARAMETERS):
        client.log_batch(made, params=part)
    metrics = [
        entities.Metric(name, _storable(value), time, record.round)
        for record, time in zip(run.records, times, strict=True)
        for name, value in metrics_of(record).items()
    ]
    for part in _parts(metrics, _BATCH):
        client.log_batch(made, metrics=part)
    client.log_text(made, tomli_w.dumps(without_none(run.config)), "config.toml")
    if run.finished or run.failure is not None:  # others stay "RUNNING"
        status = "FINISHED" if run.failure is None else "FAILED"
        client.set_terminated(made, status=status, end_time=times[-1] if times else None)


def _parts(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _storable(value: float) -> float:
    """The value; infinity as the largest number, which every store can hold."""
    return math.copysign(sys.float_info.max, value) if math.isinf(value) else value
