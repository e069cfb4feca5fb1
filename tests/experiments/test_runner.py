"""Runs of an output folder: what is written, reused, extended, and refused beforehand."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

import fedgs
from fedgs.data import Federation
from fedgs.errors import ConfigError, OutputError
from fedgs.experiments import runner
from fedgs.experiments.compare import _Given, compare
from fedgs.experiments.crew import Progress
from fedgs.experiments.grid import build_config
from fedgs.experiments.output import claim
from fedgs.experiments.preparing import prepare
from fedgs.experiments.runner import worker_count
from fedgs.experiments.study import Results
from fedgs.models import as_model
from fedgs.records import RunFolder


class Selfish(fedgs.Sampler):
    """Breaks in round 3 where it is set to."""

    breaks: bool = True

    def select(self, view: fedgs.View, rng: np.random.Generator) -> fedgs.Selection:
        if self.breaks and view.round == 3:
            raise LookupError("nobody I like")
        return fedgs.Selection(view.available[:1])


def study(federation: Federation, out: Path | None = None, **settings: Any) -> Results:
    values: dict[str, Any] = {
        "methods": {"uniform": fedgs.Uniform(), "FedGS": fedgs.FedGS()},
        "availability": fedgs.LessDataFirst(),
        "training": {"rounds": 6, "proportion": 0.4, "local_steps": 2, "batch_size": 4},
        "seeds": (0, 1),
        "execution": {"engine": "loop", "checkpoint_every": 2},
    }
    return compare(federation, out=out, **{**values, **settings})


def files(out: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("rounds.jsonl"))
    }


def test_without_an_output_folder_nothing_is_written(
    toy_federation: Federation, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    results = study(toy_federation)
    assert [(run.label, run.seed) for run in results.runs] == [
        ("uniform", 0),
        ("uniform", 1),
        ("FedGS", 0),
        ("FedGS", 1),
    ]
    assert list(tmp_path.iterdir()) == []
    assert "FedGS" in str(results.table(against="uniform"))


def test_a_folder_holds_config_records_timings_and_clients(
    toy_federation: Federation, tmp_path: Path
) -> None:
    results = study(toy_federation, tmp_path / "out")
    for run in results.runs:
        assert run.path is not None
        stored = RunFolder(run.path)
        assert stored.records() == list(run.records) and len(run.records) == 7
        assert [timing["round"] for timing in stored.timings()] == list(range(7))
        assert stored.clients().names == toy_federation.clients.names
        config = stored.config()
        assert config["availability"]["name"] == "LDF" and config["method"]["name"] in (
            "uniform",
            "fedgs",
        )
        assert config["run"]["engine"] == "loop" and config["run"]["cohort_limit"] == 2
        assert config["run"]["data_fingerprint"] == toy_federation.fingerprint
    assert "distance" in RunFolder(results.runs[-1].path).arrays("memory")  # type: ignore[arg-type]


def test_in_memory_and_on_disk_runs_are_the_same(
    toy_federation: Federation, tmp_path: Path
) -> None:
    stored, in_memory = study(toy_federation, tmp_path / "out"), study(toy_federation)
    assert [list(a.records) for a in stored.runs] == [list(b.records) for b in in_memory.runs]


def test_a_finished_study_is_left_alone(toy_federation: Federation, tmp_path: Path) -> None:
    out = tmp_path / "out"
    study(toy_federation, out)
    stamps = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    seen: list[Progress] = []
    study(toy_federation, out, on_progress=seen.append)
    assert seen == []
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == stamps


def test_more_rounds_extend_a_study_to_what_it_would_have_been(
    toy_federation: Federation, tmp_path: Path
) -> None:
    longer = {"rounds": 11, "proportion": 0.4, "local_steps": 2, "batch_size": 4}
    study(toy_federation, tmp_path / "a")
    seen: list[Progress] = []
    study(toy_federation, tmp_path / "a", training=longer, on_progress=seen.append)
    # 4 runs: rounds 0 to 5 in the first start, 6 to 10 in the second
    assert seen[-1] == Progress(rounds=20, total=20, failed=0, earlier=24)
    study(toy_federation, tmp_path / "b", training=longer)
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_removing_one_runs_folder_runs_that_one_again(
    toy_federation: Federation, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    results = study(toy_federation, out)
    before = files(out)
    victim = results.runs[2].path
    assert victim is not None
    for path in victim.iterdir():
        path.unlink()
    victim.rmdir()
    seen: list[Progress] = []
    study(toy_federation, out, on_progress=seen.append)
    assert seen[-1].total == 6
    assert files(out) == before


def test_a_failed_run_keeps_its_records_and_lets_the_others_finish(
    toy_federation: Federation, tmp_path: Path
) -> None:
    results = study(
        toy_federation, tmp_path, methods={"mine": Selfish(), "uniform": "uniform"}, seeds=(0,)
    )
    mine, uniform = results.runs
    assert (
        mine.failure is not None and mine.failure["round"] == 3 and mine.failure["client"] is None
    )
    assert mine.failure["error"] == "LookupError: nobody I like"
    assert (
        "in select" in mine.failure["traceback"]
        and "simulation.py" not in mine.failure["traceback"]
    )
    assert mine.path is not None and [
        record.round for record in RunFolder(mine.path).records()
    ] == [0, 1, 2]
    assert json.loads((mine.path / "failure.json").read_text())["round"] == 3
    assert uniform.finished


def test_a_folder_in_use_is_refused(toy_federation: Federation, tmp_path: Path) -> None:
    with claim(tmp_path / "out"), pytest.raises(OutputError, match="another process is writing to"):
        study(toy_federation, tmp_path / "out")
    study(toy_federation, tmp_path / "out", seeds=(0,))


def test_runs_that_differ_in_rounds_only_are_one_run(
    toy_federation: Federation, tmp_path: Path
) -> None:
    from fedgs.experiments.grid import build_config
    from fedgs.experiments.preparing import prepare
    from fedgs.experiments.runner import run_all

    tables = {"data": "synthetic", "availability": "IDL", "method": "uniform"}
    configs = [
        build_config({**tables, "training": {"rounds": rounds, "local_steps": 1}})
        for rounds in (3, 5)
    ]
    (finished,) = run_all(prepare(configs), out=tmp_path)
    assert finished.rounds == 5
    assert len(finished.records) == 6


def test_one_run_under_two_labels_is_refused_before_anything_is_written(
    toy_federation: Federation, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="the methods labelled 'a' and 'b' are the same run"):
        study(
            toy_federation, tmp_path / "out", methods={"a": fedgs.Uniform(), "b": fedgs.Uniform()}
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rounds", [3, 4, 5])
def test_fewer_rounds_than_stored_are_the_first_ones(
    toy_federation: Federation, tmp_path: Path, rounds: int
) -> None:
    settings = {"proportion": 0.4, "local_steps": 2, "batch_size": 4}
    every = {"evaluation": {"every": 1}, "seeds": (0,)}
    whole = study(toy_federation, tmp_path, **every)
    before = files(tmp_path)
    short = study(toy_federation, tmp_path, training={**settings, "rounds": rounds}, **every)
    fresh = study(toy_federation, training={**settings, "rounds": rounds}, **every)
    assert [list(run.records) for run in short.runs] == [list(run.records) for run in fresh.runs]
    assert all(run.finished for run in short.runs)
    assert files(tmp_path) == before
    assert len(whole.runs[0].records) == 7


def test_a_device_that_is_not_there_is_refused_before_anything_is_written(
    toy_federation: Federation, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"execution.device is 'cuda:7'"):
        study(toy_federation, tmp_path / "out", execution={"device": "cuda:7"})
    assert list(tmp_path.iterdir()) == []


def test_an_empty_test_set_is_refused(tmp_path: Path) -> None:
    x, y = np.eye(4, dtype=np.float32), np.arange(4) % 2
    bare = Federation.from_arrays(x, y, client=np.array([0, 0, 1, 1]), test=(x[:0], y[:0]))
    with pytest.raises(ConfigError, match="test set must hold at least one example"):
        study(bare, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_uniform_cohorts_cover_the_clients() -> None:
    """Uniform sampling of 10 of 100 clients for 50 rounds reaches more than 95 % of them.

    Fewer are reached with a probability below 1e-3.
    """
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 4)).astype(np.float32), rng.integers(0, 2, 300)
    federation = Federation.from_arrays(x, y, client=np.arange(300) % 100, test=(x, y))
    training = {"rounds": 50, "proportion": 0.1, "local_steps": 1}
    (run,) = study(
        federation, methods=["uniform"], availability="IDL", training=training, seeds=(0,)
    ).runs
    reached = {name for record in run.records for name in record.cohort or ()}
    assert len(reached) > 95


@pytest.mark.parametrize("rounds", [6, 9])
@pytest.mark.parametrize("place", [0, 3, -1])
def test_damaged_records_are_named_before_anything_is_trained(
    toy_federation: Federation, tmp_path: Path, rounds: int, place: int
) -> None:
    training = {"proportion": 0.4, "local_steps": 2, "batch_size": 4}
    study(toy_federation, tmp_path / "out")
    broken = next(
        path for path in sorted((tmp_path / "out").iterdir()) if "uniform-seed1" in path.name
    )
    lines = (broken / "rounds.jsonl").read_text().splitlines()
    lines[place] = "damaged" + lines[place]
    (broken / "rounds.jsonl").write_text("".join(line + "\n" for line in lines))
    before = files(tmp_path / "out")
    reported: list[Progress] = []
    with pytest.raises(
        OutputError, match=r"not a record of a round: 'damaged.*, in .*uniform-seed1.*rounds\.jsonl"
    ):
        study(
            toy_federation,
            tmp_path / "out",
            training={"rounds": rounds, **training},
            on_progress=reported.append,
        )
    assert reported == []
    assert files(tmp_path / "out") == before


def linear() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(4, 2))


@pytest.mark.parametrize(
    ("rounds", "images", "execution", "workers"),
    [
        (3332, False, {}, 1),  # 19,992 run-rounds
        (3334, False, {}, 4),  # 20,004 run-rounds
        (2, True, {}, 4),
        (2, True, {"threads": 2}, 2),
        (2, False, {"workers": 3}, 3),
        (2, False, {"workers": 9}, 6),  # never more than there are runs
    ],
)
def test_workers_are_as_many_as_the_runs_gain_from(
    monkeypatch: pytest.MonkeyPatch,
    rounds: int,
    images: bool,
    execution: dict[str, int],
    workers: int,
) -> None:
    monkeypatch.setattr(runner, "physical_cores", lambda: 4)
    x, y = np.zeros((8, 1, 2, 2), dtype=np.float32), np.arange(8) % 2
    pictures = Federation.from_arrays(x, y, client=np.arange(8) % 4, test=(x, y))
    common = {
        "data": _Given(federation=pictures) if images else "synthetic",
        "availability": "IDL",
        "method": "md",
        "model": as_model(linear) if images else None,
        "training": {"rounds": rounds},
        "execution": execution,
    }
    prepared = prepare([build_config({**common, "seed": seed}) for seed in range(6)])
    assert worker_count(prepared) == workers
