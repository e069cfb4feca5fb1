"""Runs of an output folder: what is written, reused, extended, and refused beforehand."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedgs
from fedgs.data import Federation
from fedgs.errors import ConfigError, OutputError
from fedgs.experiments.compare import _Given, compare
from fedgs.experiments.crew import Progress
from fedgs.experiments.grid import build_config
from fedgs.experiments.output import claim
from fedgs.experiments.preparing import prepare
from fedgs.experiments.study import Results
from fedgs.records import RunFolder


class Selfish(fedgs.Sampler):
    """Breaks in round 3 where it is told to."""

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
    stored, kept = study(toy_federation, tmp_path / "out"), study(toy_federation)
    assert [list(a.records) for a in stored.runs] == [list(b.records) for b in kept.runs]


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
    assert seen[-1] == Progress(rounds=20, total=20, failed=0)  # 4 runs, rounds 6 to 10
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


@pytest.mark.parametrize("cut", [0, 1, 57, 400])
def test_whatever_stands_behind_the_checkpoint_is_played_again(
    toy_federation: Federation, tmp_path: Path, cut: int
) -> None:
    out = tmp_path / "out"
    results = study(toy_federation, out, seeds=(0,))
    before = files(out)
    for run in results.runs:
        assert run.path is not None
        records = run.path / "rounds.jsonl"
        records.write_bytes(
            records.read_bytes()[: max(0, records.stat().st_size - cut)] + b'{"half a li'
        )
    study(toy_federation, out, seeds=(0,))
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


def test_a_failed_run_is_tried_again_from_its_checkpoint(
    toy_federation: Federation, tmp_path: Path
) -> None:
    class Flaky(fedgs.Sampler):
        def select(self, view: fedgs.View, rng: np.random.Generator) -> fedgs.Selection:
            if view.round == 3 and not (tmp_path / "mended").exists():
                raise OSError("disk on holiday")
            return fedgs.Selection(view.available[:1])

    out = tmp_path / "out"
    assert study(toy_federation, out, methods=[Flaky()], seeds=(0,)).runs[0].failure is not None
    (tmp_path / "mended").touch()
    (run,) = study(toy_federation, out, methods=[Flaky()], seeds=(0,)).runs
    assert run.failure is None and run.finished
    assert run.path is not None and not (run.path / "failure.json").exists()
    (unbroken,) = study(toy_federation, methods=[Flaky()], seeds=(0,)).runs
    assert list(run.records) == list(unbroken.records)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"training": {"cohort_limit": 7}},
            "training.cohort_limit must be at most 6, the number of clients; got 7",
        ),
        ({"availability": {"name": "LN", "beta": 1.0}}, "availability.beta"),
        ({"methods": {}}, "at least one method"),
        ({"methods": ["nobody"]}, "method.name must be one of"),
        ({"model": "cifar_cnn"}, "cifar_cnn"),
        (
            {"methods": [{"name": "fedgs", "graph": {"similarity": "update", "path": "x.npz"}}]},
            "method.graph",
        ),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_written(
    toy_federation: Federation, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        study(toy_federation, tmp_path / "out", **settings)
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_folder_is_not_touched(toy_federation: Federation, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(
        OutputError, match=r"must be new, empty or a folder of fedgs runs; .* holds something else"
    ):
        study(toy_federation, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(OutputError, match=r"must be a folder; .* is a file"):
        study(toy_federation, tmp_path / "thesis.tex")


def test_a_folder_in_use_is_refused(toy_federation: Federation, tmp_path: Path) -> None:
    with claim(tmp_path / "out"), pytest.raises(OutputError, match="another process is writing to"):
        study(toy_federation, tmp_path / "out")
    study(toy_federation, tmp_path / "out", seeds=(0,))


def test_a_damaged_checkpoint_is_named(toy_federation: Federation, tmp_path: Path) -> None:
    (run,) = study(toy_federation, tmp_path, methods=["uniform"], seeds=(0,)).runs
    assert run.path is not None
    (run.path / "rounds.jsonl").write_text("")
    (run.path / "checkpoint.npz").write_bytes(b"PK\x03\x04rubbish")
    with pytest.raises(OutputError, match="checkpoint.npz is damaged"):
        study(toy_federation, tmp_path, methods=["uniform"], seeds=(0,))


def test_models_and_samplers_of_ones_own_can_be_handed_over(toy_federation: Federation) -> None:
    import torch

    @fedgs.sampler("runner-test-first")
    def first(view: fedgs.View, rng: np.random.Generator) -> fedgs.Selection:
        return fedgs.Selection(view.available[: view.cohort_limit])

    def net() -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3))

    results = study(toy_federation, methods={"first": first}, model=net, seeds=(0,))
    (run,) = results.runs
    assert run.finished and run.label == "first"
    assert all(
        record.cohort == list(record.available)[:2]
        for record in run.records[:-1]
        if record.available is not None
    )


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


@pytest.mark.parametrize("asked", [3, 4, 5])
def test_fewer_rounds_than_stored_are_the_first_ones(
    toy_federation: Federation, tmp_path: Path, asked: int
) -> None:
    settings = {"proportion": 0.4, "local_steps": 2, "batch_size": 4}
    every = {"evaluation": {"every": 1}, "seeds": (0,)}
    whole = study(toy_federation, tmp_path, **every)
    before = files(tmp_path)
    short = study(toy_federation, tmp_path, training={**settings, "rounds": asked}, **every)
    fresh = study(toy_federation, training={**settings, "rounds": asked}, **every)
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


def test_fedprox_can_be_named_from_python(toy_federation: Federation) -> None:
    results = study(toy_federation, methods=["md", "fedprox"], seeds=(0,))
    assert [run.label for run in results.runs] == ["md", "fedprox"]
    assert [run.table("training")["mu"] for run in results.runs] == [0.0, 0.01]


def test_seeds_must_be_a_collection(toy_federation: Federation) -> None:
    with pytest.raises(
        ConfigError, match=r"seeds must be a collection of integers, such as range\(3\); got 3"
    ):
        study(toy_federation, seeds=3)


def test_an_empty_test_set_is_refused(tmp_path: Path) -> None:
    x, y = np.eye(4, dtype=np.float32), np.arange(4) % 2
    bare = Federation.from_arrays(x, y, client=np.array([0, 0, 1, 1]), test=(x[:0], y[:0]))
    with pytest.raises(ConfigError, match="test set must hold at least one example"):
        study(bare, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_timings_that_were_lost_do_not_stop_a_run(
    toy_federation: Federation, tmp_path: Path
) -> None:
    (run,) = study(toy_federation, tmp_path, methods=["uniform"], seeds=(0,)).runs
    before = files(tmp_path)
    assert run.path is not None
    (run.path / "timings.jsonl").write_text("rubbish\n")
    (run.path / "rounds.jsonl").write_text((run.path / "rounds.jsonl").read_text()[:-5])
    (again,) = study(toy_federation, tmp_path, methods=["uniform"], seeds=(0,)).runs
    assert files(tmp_path) == before
    assert again.finished


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


def test_runs_share_availability_draws_where_they_meet_the_same_clients(
    toy_federation: Federation, tmp_path: Path
) -> None:
    np.save(tmp_path / "who.npy", np.ones((len(toy_federation), 9), dtype=bool))
    stored = fedgs.AvailabilityFile(path=tmp_path / "who.npy", seed=0)
    modes: list[Any] = [{"name": "LDF"}, {"name": "LDF"}, {"name": "LDF", "beta": 0.2}, stored]
    common = {
        "data": _Given(federation=toy_federation),
        "method": "uniform",
        "training": {"rounds": 3, "proportion": 0.5},
    }
    configs = [
        build_config({**common, "availability": mode, "seed": seed})
        for mode in modes
        for seed in (0, 1)
    ]
    for _ in range(2):  # the second time the file's matrix has been read already
        plans = [one.plan for one in prepare(configs)]
        assert (
            plans[0].availability is plans[2].availability
            and plans[1].availability is plans[3].availability
        )
        assert len({id(plan.availability) for plan in plans}) >= 5


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
    before, told = files(tmp_path / "out"), []
    with pytest.raises(
        OutputError, match=r"not a record of a round: 'damaged.*, in .*uniform-seed1.*rounds\.jsonl"
    ):
        study(
            toy_federation,
            tmp_path / "out",
            training={"rounds": rounds, **training},
            on_progress=told.append,
        )
    assert told == []
    assert files(tmp_path / "out") == before
