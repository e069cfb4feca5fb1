"""Runs in several processes give the records of one, whatever happens to a process."""

import logging
from pathlib import Path
from typing import Any

import pytest
import torch

from fedgs.data import Federation
from fedgs.errors import ConfigError
from fedgs.experiments.compare import Results, compare
from fedgs.experiments.runner import Progress
from fedgs.records import RunFolder
from fedgs.registry import load_plugin
from fedgs.report.history import participation
from fedgs.report.page import render_page
from fedgs.report.runs import read_runs
from fedgs.report.summary import summarize
from fedgs.report.tables import comparison

PLUGIN = """
import os
from pathlib import Path

import numpy as np
import fedgs


@fedgs.sampler("worker-test")
def crashing(view, rng, *, marker: str, always: bool = False):
    if view.round == 4 and (always or not Path(marker).exists()):
        Path(marker).touch()
        os._exit(3)
    return fedgs.Selection(view.available[: view.cohort_limit])
"""


CHOOSY = """
import fedgs


@fedgs.sampler("choosy-test")
def choosy(view, rng, *, above: int):
    suits = view.available[view.clients.data_sizes[view.available] > above]
    return fedgs.Selection(suits[:1] if view.round % 3 else [])
"""


def study(federation: Federation, workers: int, out: Path | None = None, **settings: Any) -> Results:
    values: dict[str, Any] = {
        "methods": ["uniform", "fedgs"],
        "availability": "LDF",
        "training": {"rounds": 6, "proportion": 0.4, "local_steps": 2, "batch_size": 4},
        "seeds": (0, 1),
        "execution": {"engine": "loop", "workers": workers, "checkpoint_every": 2},
    }
    return compare(federation, out=out, **{**values, **settings})


def files(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("rounds.jsonl"))}


def test_two_workers_write_the_records_of_one(toy_federation: Federation, tmp_path: Path) -> None:
    seen: list[Progress] = []
    study(toy_federation, 1, tmp_path / "one")
    two = study(toy_federation, 2, tmp_path / "two", on_progress=seen.append)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert seen[-1] == Progress(rounds=24, total=24, failed=0)
    assert all(run.finished for run in two.runs)
    kept = study(toy_federation, 2)
    assert [list(run.records) for run in kept.runs] == [list(run.records) for run in two.runs]


def test_a_crashed_workers_runs_start_again_and_the_rest_goes_on(
    toy_federation: Federation, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "crashing.py").write_text(PLUGIN)
    load_plugin(tmp_path / "crashing.py")
    method = {"name": "worker-test", "marker": str(tmp_path / "marker")}
    with caplog.at_level(logging.WARNING, logger="fedgs"):
        results = study(toy_federation, 2, tmp_path / "out", methods=[method, "uniform"], seeds=(0,))
    assert all(run.finished for run in results.runs)
    assert len([record for record in caplog.records if "crashed; they start again" in record.message]) == 1
    unbroken = study(toy_federation, 1, tmp_path / "unbroken", methods=[method, "uniform"], seeds=(0,))
    assert [list(a.records) for a in results.runs] == [list(b.records) for b in unbroken.runs]


def test_a_worker_that_always_crashes_fails_its_own_runs_only(toy_federation: Federation, tmp_path: Path) -> None:
    (tmp_path / "crashing.py").write_text(PLUGIN)
    load_plugin(tmp_path / "crashing.py")
    method = {"name": "worker-test", "marker": str(tmp_path / "marker"), "always": True}
    crashed, good = study(toy_federation, 2, tmp_path / "out", methods=[method, "uniform"], seeds=(0,)).runs
    assert crashed.failure is not None and crashed.failure["error"] == "the worker process crashed"
    assert "exit code 3" in crashed.failure["traceback"]
    assert good.finished
    assert crashed.path is not None
    stored = RunFolder(crashed.path)
    assert stored.failure() == crashed.failure and len(stored.records()) == len(crashed.records) == crashed.failure["round"]


def test_several_workers_need_parts_that_another_process_can_build(toy_federation: Federation) -> None:
    def net() -> torch.nn.Module:
        return torch.nn.Linear(6, 3)

    with pytest.raises(
        ConfigError, match=r"execution.workers = 2 needs parts that are registered by name; model is FunctionModel"
    ):
        study(toy_federation, 2, model=net)
    assert all(run.finished for run in study(toy_federation, 1, model=net).runs)


def test_a_run_that_was_finished_before_its_worker_crashed_with_others_counts_as_finished(
    toy_federation: Federation, tmp_path: Path
) -> None:
    (tmp_path / "crashing.py").write_text(PLUGIN)
    load_plugin(tmp_path / "crashing.py")
    method = {"name": "worker-test", "marker": str(tmp_path / "marker"), "always": True}
    study(toy_federation, 1, tmp_path / "out", methods=["uniform"], seeds=(0,))
    # Runs 0 and 2 go to the first worker, where the third always crashes it; the first is finished already.
    runs = study(toy_federation, 2, tmp_path / "out", methods=["uniform", "md", method], seeds=(0,)).runs
    assert [run.failure is None for run in runs] == [True, True, False]
    assert all(run.finished for run in runs[:2])


def test_a_crashed_workers_damaged_records_do_not_take_the_others_results_away(
    toy_federation: Federation, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    study(toy_federation, 1, tmp_path / "out", methods=["md"], seeds=(0,))
    (folder,) = (path for path in (tmp_path / "out").iterdir() if path.is_dir())
    (folder / "rounds.jsonl").write_text((folder / "rounds.jsonl").read_text() + "damaged\n")
    with caplog.at_level(logging.CRITICAL, logger="fedgs"):
        good, damaged = study(toy_federation, 2, tmp_path / "out", methods=["uniform", "md"], seeds=(0,)).runs
    assert good.finished and good.failure is None
    assert damaged.failure is not None and "not a record of a round: 'damaged'" in damaged.failure["traceback"]
    assert list(damaged.records) == []


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_rounds_with_an_empty_selection_are_stored_resumed_and_shown(
    toy_federation: Federation, tmp_path: Path, engine: str
) -> None:
    (tmp_path / "choosy.py").write_text(CHOOSY)
    load_plugin(tmp_path / "choosy.py")
    methods = {"some": {"name": "choosy-test", "above": 8}, "none": {"name": "choosy-test", "above": 99}}
    settings: dict[str, Any] = {"methods": methods, "availability": "IDL", "seeds": (0,)}
    execution = {"engine": engine, "checkpoint_every": 2}
    study(toy_federation, 1, tmp_path / "one", **settings, execution={**execution, "workers": 1})
    two = study(toy_federation, 1, tmp_path / "two", **settings, execution={**execution, "workers": 2})
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert [run.failure for run in two.runs] == [None, None]
    some, none = ([record.selection_status for record in run.records[:-1]] for run in two.runs)
    assert some == ["empty", None, None, "empty", None, None]
    assert none == ["empty"] * 6
    before = files(tmp_path / "two")
    for path in (tmp_path / "two").rglob("rounds.jsonl"):  # what follows the checkpoint after round 3 is played again
        path.write_bytes(path.read_bytes()[:-40])
        (path.parent / "failure.json").unlink(missing_ok=True)
    study(toy_federation, 1, tmp_path / "two", **settings, execution={**execution, "workers": 2})
    assert files(tmp_path / "two") == before
    runs, problems = read_runs(tmp_path / "two")
    assert problems == []
    assert {run.label: summarize(run).count_variance for run in runs} == pytest.approx({"some": 4**2 / 6, "none": 0.0})
    assert "none" in comparison(runs).text()
    history = participation(next(run for run in runs if run.label == "none"))
    assert history is not None and history.counts.tolist() == [0] * 6
    assert render_page(runs)
