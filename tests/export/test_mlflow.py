"""Runs in a database of MLflow, read back with its client."""

import math
import sys
from pathlib import Path
from typing import Any

import pytest

from fedgs.export import export
from fedgs.export.mlflow import tracking_uri
from fedgs.export.rows import metrics_of
from fedgs.records import Record
from fedgs.report.run_view import Run

mlflow = pytest.importorskip("mlflow", exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore")  # of the library itself


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory, runs: list[Run]) -> tuple[Any, dict[str, Any]]:
    """The client, and the stored runs by the names of their folders."""
    out = tmp_path_factory.mktemp("out") / "mlflow"
    odd = Run(
        {"method": {"name": "md", "text": "t" * 9000, **{f"s{i}": i for i in range(150)}}},
        [Record(0, cohort=[], test_loss=math.inf), Record(1, test_loss=math.nan)],
        label="odd",
    )
    export([*runs, odd], to="mlflow", out=out)
    client = mlflow.MlflowClient(tracking_uri=tracking_uri(str(out)))
    experiment = client.get_experiment_by_name("fedgs")
    found = client.search_runs([experiment.experiment_id])
    return client, {run.data.tags["fedgs.run"]: run for run in found}


def test_every_metric_of_every_round_is_stored(stored: Any, runs: list[Run]) -> None:
    client, found = stored
    assert len(found) == len(runs) + 1
    for run in runs:
        info = found[run.name].info
        for name in ("test_loss", "cohort_size", "selection_objective"):
            history = client.get_metric_history(info.run_id, name)
            expected = {
                record.round: metrics_of(record)[name]
                for record in run.records
                if name in metrics_of(record)
            }
            assert {metric.step: metric.value for metric in history} == expected


def test_settings_are_parameters_and_the_configuration_an_artifact(
    stored: Any, runs: list[Run]
) -> None:
    client, found = stored
    for run in runs:
        data = found[run.name].data
        assert data.params["method.name"] == run.table("method")["name"]
        assert data.params["seed"] == str(run.seed)
        assert data.tags["fedgs.method"] == run.label
        text = client.download_artifacts(found[run.name].info.run_id, "config.toml")
        assert f"seed = {run.seed}\n" in Path(text).read_text()


def test_the_state_of_a_run_is_its_status(stored: Any, runs: list[Run]) -> None:
    _, found = stored
    for run in runs:
        status = "FAILED" if run.failure else "FINISHED" if run.finished else "RUNNING"
        assert found[run.name].info.status == status


def test_many_long_settings_and_figures_that_are_not_finite_are_stored(stored: Any) -> None:
    client, found = stored
    odd = found["run"]
    assert len(odd.data.params["method.text"]) == 500 and odd.data.params["method.s149"] == "149"
    history = client.get_metric_history(odd.info.run_id, "test_loss")
    values = {metric.step: metric.value for metric in history}
    assert values[0] == sys.float_info.max and math.isnan(values[1])


def test_runs_are_added_at_an_address(
    runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where this store puts its artifacts
    address = f"sqlite:///{tmp_path / 'own.db'}"
    for _ in range(2):
        export(runs[:1], to="mlflow", out=address)
    client = mlflow.MlflowClient(tracking_uri=address)
    experiment = client.get_experiment_by_name("fedgs")
    assert len(client.search_runs([experiment.experiment_id])) == 2
