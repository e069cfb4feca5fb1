"""Offline runs of Weights & Biases."""

import re
from pathlib import Path

import pytest

from fedgs.export import export
from fedgs.export.rows import metrics_of
from fedgs.report.run_view import Run

pytest.importorskip("wandb")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the library itself


def test_each_run_is_an_offline_run_with_its_configuration_and_metrics(
    runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_CACHE_DIR", str(tmp_path / "cache"))
    export(runs, to="wandb", out=tmp_path / "out")
    found = {
        path.name.rpartition("-")[2]: path
        for path in (tmp_path / "out/wandb").glob("offline-run-*")
    }
    assert sorted(found) == sorted(str(run.about["fingerprint"]) for run in runs)
    for run in runs:
        (file,) = found[str(run.about["fingerprint"])].glob("*.wandb")
        text = file.read_bytes()
        assert run.label.encode() in text and b"learning_rate" in text
        losses = {metrics_of(record).get("test_loss") for record in run.records} - {None}
        assert all(re.search(str(loss).encode(), text) for loss in losses)
