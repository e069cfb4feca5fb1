"""Experiments are carried out, reused, resumed and refused."""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.experiments.paper.helpers import FAST, LDF, CarriedOut, carry_out, request_of

from fedgs.errors import ConfigError, OutputError
from fedgs.experiments.paper.frame.request import ExperimentRequest, Mode, Options, Source
from fedgs.experiments.paper.frame.run import checked, reproduce, requested
from fedgs.experiments.paper.frame.store import read_manifests, read_records
from fedgs.experiments.this_process import Progress


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
    assert [one.test_loss for one in shorter.records.runs] == [
        one.test_loss for one in fresh.records.runs
    ]
    assert {one.run.rounds_done for one in shorter.records.runs} == {2}


@pytest.mark.parametrize("name", ["table1", "fig8", "fig3", "fig7", "gamma", "table3"])
def test_computed_parts_are_kept_and_made_twice_the_same(
    name: str, toy_file: Path, tmp_path: Path
) -> None:
    request = request_of(
        name,
        toy_file,
        **({"overrides": (("training.local_steps", 1),)} if name == "table3" else {}),
    )
    outcome = carry_out(request, tmp_path)
    assert outcome.rendering.verdict and outcome.problems == []
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert carry_out(request, tmp_path).reused == 1
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_damaged_computed_figures_are_computed_anew(toy_file: Path, tmp_path: Path) -> None:
    request = request_of("gamma", toy_file)
    first = carry_out(request, tmp_path)
    (kept,) = (tmp_path / "computed").iterdir()
    kept.write_bytes(b"PK rubbish")
    again = carry_out(request, tmp_path)
    assert again.reused == 0 and again.rendering.verdict == first.rendering.verdict


def test_options_that_do_not_belong_to_the_experiment_are_refused() -> None:
    cases = [
        (
            ExperimentRequest("gamma"),
            ["modes"],
            "--modes means nothing for gamma; it takes --data, --seeds, --set",
        ),
        (ExperimentRequest("theorem1"), ["seeds"], "must be one seed for theorem1"),
        (
            ExperimentRequest("table2", scale="big"),
            [],
            "--scale must be cohort or paper; got 'big'",
        ),
    ]
    for request, given, message in cases:
        with pytest.raises(ConfigError, match=message):
            checked(request, given)


def test_the_options_of_a_command_line_are_checked_without_it(toy_file: Path) -> None:
    options = Options(
        data=[str(toy_file)], modes=["idl,ldf0.3"], rounds=7, seeds="4,", set=["training.mu=0.1"]
    )
    request = requested("table2", options)
    assert request == ExperimentRequest(
        "table2",
        (Source("toy", str(toy_file)),),
        (Mode("IDL"), Mode("LDF", 0.3)),
        rounds=7,
        seeds=(4,),
        overrides=(("training.mu", 0.1),),
    )
    assert requested("gamma", Options()).seeds == (0,)
    assert requested("table2", Options()).data == (Source("synthetic"),)
    with pytest.raises(
        ConfigError, match="--workers means nothing for gamma; it takes --data, --seeds, --set"
    ):
        requested("gamma", Options(workers=2))
    with pytest.raises(ConfigError, match="--seeds must be one seed for gamma"):
        requested("gamma", Options(seeds="3"))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("table2", {"methods": ("nobody",)}, "--methods must be of uniform, .*; got 'nobody'"),
        ("table2", {"overrides": (("method", "md"),)}, "--set method would change what table2"),
        ("table2", {"overrides": (("method.alhpa", 1),)}, "method.alhpa is not a setting"),
        ("table2", {"overrides": (("seed", [0, 1]),)}, "--set seed"),
        ("table2", {"overrides": (("training.mu", [0, 1]),)}, "must be one value"),
        ("gamma", {"overrides": (("training.mu", 1),)}, "means nothing for gamma"),
        ("table4", {"modes": (Mode("LDF", 3.0),)}, "availability.beta must be in"),
    ],
)
def test_a_bad_request_is_one_sentence_and_nothing_is_written(
    name: str, options: dict[str, Any], message: str, toy_file: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        carry_out(request_of(name, toy_file, **options), tmp_path)
    assert "\n" not in str(caught.value) and list(tmp_path.iterdir()) == []


def test_folders_that_hold_something_else_are_not_touched(toy_file: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(OutputError, match="holds something else"):
        carry_out(request_of("gamma", toy_file), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    run = tmp_path / "runs-of-fedgs-run" / "a-run"
    run.mkdir(parents=True)
    (run / "config.toml").write_text("")
    with pytest.raises(OutputError, match="holds runs of fedgs run"):
        carry_out(request_of("gamma", toy_file), run.parent)


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


def test_results_of_some_federations_are_reused(toy_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.npz"
    shutil.copy(toy_file, other)
    request = checked(
        ExperimentRequest("gamma", (Source("toy", str(toy_file)), Source("other", str(other))))
    )
    out = tmp_path / "out"
    first = carry_out(request, out)
    # Equal federations share one result.
    assert (first.reused, first.total, len(list((out / "computed").iterdir()))) == (1, 2, 1)
    assert set(first.records.computed) == {"toy", "other"}
    assert carry_out(request, out).reused == 2


def test_a_plan_without_runs_is_refused(toy_file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="table2 needs at least one row, mode and seed"):
        carry_out(request_of("table2", toy_file, seeds=()), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_result_that_is_missing_is_a_problem_of_the_records(
    toy_file: Path, tmp_path: Path
) -> None:
    request = request_of("gamma", toy_file)
    carry_out(request, tmp_path)
    (stored,) = (tmp_path / "computed").iterdir()
    stored.unlink()
    ((manifest,), _) = read_manifests(tmp_path)
    records, problems = read_records(tmp_path, manifest)
    assert dict(records.computed) == {}
    assert len(problems) == 1 and problems[0].startswith(
        f"{stored.name}: computed figures that cannot be read"
    )
