"""Runs in several processes give the records of one, whatever happens to a process."""

import gc
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

import fedgs
from fedgs.cli.main import main
from fedgs.data import Federation
from fedgs.errors import OutputError, WorkerError
from fedgs.experiments import executor
from fedgs.experiments.compare import compare
from fedgs.experiments.crew import Progress
from fedgs.experiments.study import Results
from fedgs.records import RunFolder
from fedgs.registry import load_plugin
from fedgs.report.history import participation
from fedgs.report.page import render_page
from fedgs.report.reading import read_runs
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


def study(
    federation: Federation, workers: int, out: Path | None = None, **settings: Any
) -> Results:
    values: dict[str, Any] = {
        "methods": ["uniform", "fedgs"],
        "availability": "LDF",
        "training": {"rounds": 6, "proportion": 0.4, "local_steps": 2, "batch_size": 4},
        "seeds": (0, 1),
        "execution": {"engine": "loop", "workers": workers, "checkpoint_every": 2},
    }
    return compare(federation, out=out, **{**values, **settings})


def files(out: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("rounds.jsonl"))
    }


@pytest.mark.long
def test_two_workers_write_the_records_of_one(toy_federation: Federation, tmp_path: Path) -> None:
    seen: list[Progress] = []
    study(toy_federation, 1, tmp_path / "one")
    two = study(toy_federation, 2, tmp_path / "two", on_progress=seen.append)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert seen[-1] == Progress(rounds=24, total=24, failed=0)
    assert all(run.finished for run in two.runs)
    in_memory = study(toy_federation, 2)
    assert [list(run.records) for run in in_memory.runs] == [list(run.records) for run in two.runs]


@pytest.mark.long
def test_workers_stop_runs_early_and_evaluate_clients_as_one_process_does(
    toy_federation: Federation, tmp_path: Path
) -> None:
    settings = {
        "evaluation": {"every": 1, "metrics": "macro_f1", "per_client": {"every": 2}},
        "stopping": {"patience": 1, "figure": "valid_macro_f1"},
    }
    study(toy_federation, 1, tmp_path / "one", **settings)
    two = study(toy_federation, 2, tmp_path / "two", **settings)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert "patience" in [run.stopped for run in two.runs]
    assert all(run.records[0].per_client and run.records[-1].per_client for run in two.runs)


@pytest.mark.long
def test_a_crashed_workers_runs_start_again_and_the_rest_goes_on(
    toy_federation: Federation, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "crashing.py").write_text(PLUGIN)
    load_plugin(tmp_path / "crashing.py")
    method = {"name": "worker-test", "marker": str(tmp_path / "marker")}
    with caplog.at_level(logging.WARNING, logger="fedgs"):
        results = study(
            toy_federation, 2, tmp_path / "out", methods=[method, "uniform"], seeds=(0,)
        )
    assert all(run.finished for run in results.runs)
    assert (
        len([record for record in caplog.records if "crashed; they start again" in record.message])
        == 1
    )
    unbroken = study(
        toy_federation, 1, tmp_path / "unbroken", methods=[method, "uniform"], seeds=(0,)
    )
    assert [list(a.records) for a in results.runs] == [list(b.records) for b in unbroken.runs]


@pytest.mark.long
def test_a_worker_that_always_crashes_is_an_error_and_what_the_others_gave_is_kept(
    toy_federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "crashing.py").write_text(PLUGIN)
    load_plugin(tmp_path / "crashing.py")
    method = {"name": "worker-test", "marker": str(tmp_path / "marker"), "always": True}
    out = tmp_path / "out"
    with pytest.raises(WorkerError) as raised:
        study(toy_federation, 2, out, methods=[method, "uniform"], seeds=(0,))
    assert str(raised.value) == (
        "1 of 2 runs could not be carried out: their worker process crashed 3 times, "
        f"the last one ended with exit code 3; what the others gave is in {str(out)!r}; "
        "execution.workers = 1 carries out all runs in this process"
    )
    (crashed,) = (RunFolder(path) for path in out.iterdir() if "worker-test" in path.name)
    failure = crashed.failure()
    assert (
        failure is not None
        and failure["error"] == "the worker process crashed"
        and "exit code 3" in failure["traceback"]
    )
    assert len(crashed.records()) == failure["round"] == 4
    (good,) = study(toy_federation, 1, out, methods=["uniform"], seeds=(0,)).runs
    assert good.finished
    monkeypatch.setattr(executor, "STARTS", 1)
    ended = "the last one ended with exit code 3; execution.workers = 1"
    with pytest.raises(WorkerError, match=rf"1 of 2 runs could not .* {ended}"):
        # No folder: no table without the others.
        study(toy_federation, 2, methods=[method, "uniform"], seeds=(0,))


@pytest.mark.long
def test_the_command_line_says_that_a_worker_crashed_and_exits_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "crashing.py").write_text(PLUGIN.replace("os._exit(3)", "os.kill(os.getpid(), 11)"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(executor, "STARTS", 1)
    method = 'method=["uniform", {name="worker-test", marker="marker", always=true}]'
    settings = [
        method,
        "data.clients=6",
        "training.rounds=6",
        "seed=0",
        "execution.workers=2",
        "execution.engine=loop",
    ]
    options = [word for setting in settings for word in ("--set", setting)]
    monkeypatch.setattr(sys, "argv", ["fedgs", "run", "--plugin", "crashing.py", *options])
    threshold = gc.get_threshold()
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        gc.set_threshold(*threshold)
    assert ended.value.code == 1
    printed, errors = capfd.readouterr()
    assert "vs uniform" not in printed  # no table
    lost = "fedgs: 1 of 2 runs could not be carried out: their worker process crashed 1 time"
    assert f"{lost}, the last one was ended by" in errors
    assert "SIGSEGV" in errors and 'crashing.py", line 13 in crashing' in errors  # where it crashed


@pytest.mark.long
def test_a_run_that_was_finished_before_its_worker_crashed_with_others_counts_as_finished(
    toy_federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "STARTS", 1)
    (tmp_path / "crashing.py").write_text(PLUGIN)
    load_plugin(tmp_path / "crashing.py")
    method = {"name": "worker-test", "marker": str(tmp_path / "marker"), "always": True}
    study(toy_federation, 1, tmp_path / "out", methods=["uniform"], seeds=(0,))
    # Runs 0 and 2 go to the first worker, where the third always crashes it; the first is finished
    # already.
    with pytest.raises(WorkerError, match="1 of 3 runs could not be carried out"):
        study(toy_federation, 2, tmp_path / "out", methods=["uniform", "md", method], seeds=(0,))
    runs = study(toy_federation, 1, tmp_path / "out", methods=["uniform", "md"], seeds=(0,)).runs
    assert all(run.finished for run in runs)
    assert sorted(
        failed.parent.name.split("-")[2] for failed in (tmp_path / "out").rglob("failure.json")
    ) == ["worker"]


@pytest.mark.long
def test_what_a_worker_raises_is_raised_as_in_one_process(
    toy_federation: Federation, tmp_path: Path
) -> None:
    training = {"rounds": 3, "local_steps": 1}
    study(toy_federation, 1, tmp_path / "out", methods=["md"], training=training, seeds=(0,))
    (folder,) = (path for path in (tmp_path / "out").iterdir() if path.is_dir())
    (folder / "checkpoint.npz").write_bytes(b"damaged")
    (folder / "rounds.jsonl").write_text("")
    with pytest.raises(OutputError, match="checkpoint.npz is damaged") as raised:
        study(
            toy_federation,
            2,
            tmp_path / "out",
            training={"rounds": 3, "local_steps": 1},
            methods=["uniform", "md"],
            seeds=(0,),
        )
    assert "raised in a worker process" in "".join(raised.value.__notes__)


def test_damaged_records_are_found_before_workers_start(
    toy_federation: Federation, tmp_path: Path
) -> None:
    study(toy_federation, 1, tmp_path / "out", methods=["md"], seeds=(0,))
    (folder,) = (path for path in (tmp_path / "out").iterdir() if path.is_dir())
    (folder / "rounds.jsonl").write_text((folder / "rounds.jsonl").read_text() + "damaged\n")
    with pytest.raises(OutputError, match="not a record of a round: 'damaged'"):
        study(toy_federation, 2, tmp_path / "out", methods=["uniform", "md"], seeds=(0,))
    assert [path.name for path in (tmp_path / "out").iterdir() if path.is_dir()] == [folder.name]


@pytest.mark.long
def test_what_workers_log_reaches_the_handlers_of_the_study(
    toy_federation: Federation, caplog: pytest.LogCaptureFixture
) -> None:
    @fedgs.sampler("logging-test")
    def logs(view: fedgs.View, rng: object) -> fedgs.Selection:
        logging.getLogger("fedgs").info("round %d in another process", view.round)
        return fedgs.Selection(view.available[: view.cohort_limit])

    with caplog.at_level(logging.INFO, logger="fedgs"):
        study(toy_federation, 2, methods=[logs, "md"], seeds=(0,))
    assert "round 5 in another process" in [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("engine", ["stacked", pytest.param("loop", marks=pytest.mark.long)])
def test_rounds_with_an_empty_selection_are_stored_resumed_and_shown(
    toy_federation: Federation, tmp_path: Path, engine: str
) -> None:
    (tmp_path / "choosy.py").write_text(CHOOSY)
    load_plugin(tmp_path / "choosy.py")
    methods = {
        "some": {"name": "choosy-test", "above": 8},
        "none": {"name": "choosy-test", "above": 99},
    }
    settings: dict[str, Any] = {"methods": methods, "availability": "IDL", "seeds": (0,)}
    execution = {"engine": engine, "checkpoint_every": 2}
    study(toy_federation, 1, tmp_path / "one", **settings, execution={**execution, "workers": 1})
    workers = 2 if engine == "loop" else 1  # processes take seconds to start
    two = study(
        toy_federation, 1, tmp_path / "two", **settings, execution={**execution, "workers": workers}
    )
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert [run.failure for run in two.runs] == [None, None]
    some, none = ([record.selection_status for record in run.records[:-1]] for run in two.runs)
    assert some == ["empty", None, None, "empty", None, None]
    assert none == ["empty"] * 6
    before = files(tmp_path / "two")
    for path in (tmp_path / "two").rglob(
        "rounds.jsonl"
    ):  # what follows the checkpoint after round 3 is played again
        path.write_bytes(path.read_bytes()[:-40])
        (path.parent / "failure.json").unlink(missing_ok=True)
    study(toy_federation, 1, tmp_path / "two", **settings, execution={**execution, "workers": 1})
    assert files(tmp_path / "two") == before
    runs, problems = read_runs(tmp_path / "two")
    assert problems == []
    assert {run.label: summarize(run).count_variance for run in runs} == pytest.approx(
        {"some": 4**2 / 6, "none": 0.0}
    )
    assert "none" in comparison(runs).text()
    history = participation(next(run for run in runs if run.label == "none"))
    assert history is not None and history.counts.tolist() == [0] * 6
    assert render_page(runs)
