"""Runs with other losses and metrics: records, identity, resuming."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.local.problems import MODELS, federation

import fedgs
from fedgs.experiments.compare import _Given
from fedgs.experiments.grid import build_config
from fedgs.experiments.preparing import prepare
from fedgs.experiments.runner import run_all
from fedgs.records import Record


def config(task: str, **training: Any) -> Any:
    metrics = {"regression": ["mean_absolute_error"], "classes": ["macro_f1", "auc"]}
    return build_config(
        {
            "data": _Given(federation=federation(task)),
            "availability": "IDL",
            "method": "uniform",
            "model": MODELS[task],
            "training": {"rounds": 4, "cohort_limit": 3, "local_steps": 2, **training},
            "evaluation": {"every": 2, "metrics": metrics.get(task, [])},
        }
    )


def lines(folder: Path) -> list[dict[str, Any]]:
    (file,) = folder.rglob("rounds.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("task", ["classes", "regression", "multilabel", "sequence"])
def test_records_hold_the_figures_that_the_task_has(task: str, tmp_path: Path) -> None:
    (run,) = run_all(prepare([config(task)]), out=tmp_path)
    assert run.failure is None
    for line in lines(tmp_path):
        evaluated = line["round"] % 2 == 0
        assert (line["test_loss"] is not None) == evaluated
        has_accuracy = evaluated and task != "regression"
        assert (line["test_accuracy"] is not None) == has_accuracy
        named = {"regression": {"mean_absolute_error"}, "classes": {"macro_f1", "auc"}}.get(task)
        assert set(line.get("test_metrics", ())) == (named if evaluated and named else set())
    record = run.records[0]
    assert Record.from_json(record.to_json()) == record
    if task == "regression":
        assert (
            record.value("test_mean_absolute_error") == record.test_metrics["mean_absolute_error"]
        )
        about = run.table("run")
        assert about["metrics"] == {"mean_absolute_error": "lower"}
        assert run.table("training")["loss"] == "mean_squared_error"


def test_a_resumed_run_has_the_records_of_an_unbroken_one(tmp_path: Path) -> None:
    for rounds in (2, 4):  # the second call extends the first run
        run_all(prepare([config("regression", rounds=rounds)]), out=tmp_path / "in two")
    run_all(prepare([config("regression")]), out=tmp_path / "at once")
    assert lines(tmp_path / "in two") == lines(tmp_path / "at once")


def test_loss_and_metrics_are_part_of_the_identity() -> None:
    def squared(outputs: Any, targets: Any) -> Any:
        return ((outputs - targets) ** 2).mean()

    def doubled(outputs: Any, targets: Any) -> Any:
        return 2 * ((outputs - targets) ** 2).mean()

    doubled.__qualname__, doubled.__name__ = squared.__qualname__, squared.__name__
    losses = [None, "huber", {"name": "huber", "delta": 2.0}, squared, doubled]
    runs = prepare([config("regression", loss=loss) for loss in losses])
    assert len({run.fingerprint for run in runs}) == len(losses)
    assert "training.loss" in runs[3].identity.parts and not runs[3].identity.unknown
    assert not any(name.startswith("training") for name in runs[0].identity.parts)
    again = prepare([config("regression", loss="mean_squared_error")])
    assert again[0].fingerprint == runs[0].fingerprint


def test_samplers_that_read_losses_take_those_of_the_work() -> None:
    results = fedgs.compare(
        federation("regression"),
        methods=["power_of_choice", "active_fl"],
        model=MODELS["regression"],
        training={"rounds": 2, "cohort_limit": 2},
    )
    assert [run.failure for run in results.runs] == [None, None]
    assert all(np.isfinite(run.records[-1].test_loss) for run in results.runs)
