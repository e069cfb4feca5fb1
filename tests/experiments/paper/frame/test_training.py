"""Runs are carried out, reused and resumed."""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.experiments.paper.helpers import FAST, LDF, CarriedOut, carry_out, request_of

from fedgs.errors import ConfigError
from fedgs.experiments.crew import Progress
from fedgs.experiments.paper.frame.run import reproduce


def test_a_table_made_twice_is_the_same_file_and_trains_nothing(table2: CarriedOut) -> None:
    request, out, first = table2
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    again = carry_out(request, out)
    assert (again.reused, again.total) == (48, 48) == (again.total, first.total)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_deleting_one_run_carries_out_that_run_only(table2: CarriedOut, tmp_path: Path) -> None:
    request, out, _ = table2
    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    gone = sorted((copy / "runs").glob("*-md-*"))[0]
    lines = (gone / "rounds.jsonl").read_bytes()
    shutil.rmtree(gone)
    again = carry_out(request, copy)
    assert (again.reused, again.total) == (47, 48)
    assert (gone / "rounds.jsonl").read_bytes() == lines
    assert (copy / f"{request.stem}.csv").read_bytes() == (out / f"{request.stem}.csv").read_bytes()


def test_fewer_rounds_are_read_from_longer_runs(
    table2: CarriedOut, toy_file: Path, tmp_path: Path
) -> None:
    _, out, _ = table2
    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    request = request_of(
        "table2", toy_file, modes=LDF, methods=("uniform",), rounds=2, overrides=FAST
    )
    shorter = carry_out(request, copy)
    assert (shorter.reused, shorter.total) == (2, 2)
    fresh = carry_out(request, tmp_path / "fresh")
    assert [loaded.test_loss for loaded in shorter.records.runs] == [
        loaded.test_loss for loaded in fresh.records.runs
    ]
    assert {loaded.run.rounds_done for loaded in shorter.records.runs} == {2}


def test_an_interrupted_experiment_is_resumed(toy_file: Path, tmp_path: Path) -> None:
    overrides = (
        ("training.proportion", 0.4),
        ("training.local_steps", 2),
        ("execution.checkpoint_every", 1),
    )
    request = request_of(
        "table2",
        toy_file,
        modes=LDF,
        rounds=6,
        seeds=(0,),
        methods=("uniform", "md"),
        overrides=overrides,
    )

    @contextlib.contextmanager
    def stopped_half_way(runs: int, rounds: int) -> Iterator[Callable[[Progress], None]]:
        def on_progress(progress: Progress) -> None:
            if progress.rounds == progress.total // 2:
                raise KeyboardInterrupt

        yield on_progress

    with pytest.raises(KeyboardInterrupt):
        reproduce(request, out=tmp_path / "stopped", workers=1, display=stopped_half_way)
    left: list[int] = []

    @contextlib.contextmanager
    def counting(runs: int, rounds: int) -> Iterator[Callable[[Progress], None]]:
        yield lambda progress: left.append(progress.total)

    resumed = reproduce(request, out=tmp_path / "stopped", workers=1, display=counting)
    unbroken = reproduce(request, out=tmp_path / "unbroken", workers=1)
    assert 0 < left[0] < 12, "what was done before is not done again"
    assert resumed.rendering.tables[""] == unbroken.rendering.tables[""]


def test_a_plan_without_runs_is_refused(toy_file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="table2 needs at least one row, mode and seed"):
        carry_out(request_of("table2", toy_file, seeds=()), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_number_of_workers_may_be_left_to_the_rule(table2: CarriedOut, tmp_path: Path) -> None:
    request, out, _ = table2
    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    again = reproduce(request, out=copy, workers=None)
    assert (again.reused, again.total) == (48, 48)
