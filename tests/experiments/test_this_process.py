"""Runs carried out in this process: they begin, fail, are interrupted and resume."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedgs
from fedgs.checkpoint import load_checkpoint, save_checkpoint, stored_round
from fedgs.data import Federation
from fedgs.errors import OutputError
from fedgs.experiments.compare import _Given
from fedgs.experiments.crew import Progress, RunEnded, ShareEnded
from fedgs.experiments.executor import Executor, shares_of
from fedgs.experiments.grid import build_config
from fedgs.experiments.prepared import PreparedRun
from fedgs.experiments.preparing import prepare
from fedgs.experiments.this_process import ThisProcess, carry_out
from fedgs.records import RunFolder

ROUNDS = 6
METHODS: Sequence[object] = ("uniform", "fedgs")


def prepared_runs(
    federation: Federation, out: Path | None = None, *, methods: Sequence[object] = METHODS
) -> list[PreparedRun]:
    tables = {
        "data": _Given(federation=federation),
        "availability": "LDF",
        "training": {"rounds": ROUNDS, "proportion": 0.4, "local_steps": 2, "batch_size": 4},
        "execution": {"engine": "loop", "checkpoint_every": 2},
    }
    runs = prepare([build_config({**tables, "method": method}) for method in methods])
    return runs if out is None else [stored(run, out) for run in runs]


def stored(run: PreparedRun, out: Path) -> PreparedRun:
    return replace(run, folder=RunFolder(out / run.folder_name))


def folder_of(run: PreparedRun) -> RunFolder:
    assert run.folder is not None
    return run.folder


def carried_out(runs: Sequence[PreparedRun]) -> list[RunEnded]:
    return [message for message in carry_out(runs) if isinstance(message, RunEnded)]


def record_files(runs: Sequence[PreparedRun]) -> list[bytes]:
    return [(folder_of(run).path / "rounds.jsonl").read_bytes() for run in runs]


def test_progress_comes_first_then_each_runs_end_then_that_of_the_share(
    toy_federation: Federation,
) -> None:
    *progress, first, second, last = carry_out(prepared_runs(toy_federation))
    expected = [Progress(rounds, 2 * ROUNDS, 0) for rounds in range(1, 2 * ROUNDS + 1)]
    assert progress == expected
    assert isinstance(first, RunEnded) and isinstance(second, RunEnded)
    assert (first.position, second.position, last) == (0, 1, ShareEnded())
    assert first.records is not None and len(first.records) == ROUNDS + 1


def test_records_in_memory_are_those_of_a_folder(
    toy_federation: Federation, tmp_path: Path
) -> None:
    runs = prepared_runs(toy_federation, tmp_path)
    in_memory = carried_out(prepared_runs(toy_federation))
    assert [ended.records for ended in carried_out(runs)] == [None, None]
    assert [folder_of(run).records() for run in runs] == [ended.records for ended in in_memory]


@pytest.mark.parametrize("cut", [0, 1, 57, 400])
def test_records_after_the_checkpoint_are_computed_again(
    toy_federation: Federation, tmp_path: Path, cut: int
) -> None:
    runs = prepared_runs(toy_federation, tmp_path)
    carried_out(runs)
    before = record_files(runs)
    for run, content in zip(runs, before, strict=True):
        damaged = content[: max(0, len(content) - cut)] + b'{"half a li'
        (folder_of(run).path / "rounds.jsonl").write_bytes(damaged)
    carried_out(runs)
    assert record_files(runs) == before


def test_lost_timings_do_not_stop_a_run(toy_federation: Federation, tmp_path: Path) -> None:
    (run,) = prepared_runs(toy_federation, tmp_path, methods=["uniform"])
    carried_out([run])
    before = record_files([run])
    (folder_of(run).path / "timings.jsonl").write_text("rubbish\n")
    (folder_of(run).path / "rounds.jsonl").write_bytes(before[0][:-5])
    carried_out([run])
    assert record_files([run]) == before and run.is_finished()


def test_a_failed_run_resumes_from_its_checkpoint(
    toy_federation: Federation, tmp_path: Path
) -> None:
    class Flaky(fedgs.Sampler):
        def select(self, view: fedgs.View, rng: np.random.Generator) -> fedgs.Selection:
            if view.round == 3 and not (tmp_path / "mended").exists():
                raise OSError("disk on holiday")
            return fedgs.Selection(view.available[:1])

    (run,) = prepared_runs(toy_federation, tmp_path / "out", methods=[Flaky()])
    (ended,) = carried_out([run])
    assert ended.failure is not None and ended.failure["round"] == 3
    assert stored_round(folder_of(run)) == 2
    (tmp_path / "mended").touch()
    (ended,) = carried_out([run])
    assert ended.failure is None and run.is_finished()
    assert not (folder_of(run).path / "failure.json").exists()
    (unbroken,) = carried_out(prepared_runs(toy_federation, methods=[Flaky()]))
    assert folder_of(run).records() == unbroken.records


def test_a_run_that_failed_counts_as_failed_and_its_rounds_are_not_to_be_done(
    toy_federation: Federation,
) -> None:
    class Broken(fedgs.Sampler):
        def select(self, view: fedgs.View, rng: np.random.Generator) -> fedgs.Selection:
            raise LookupError("nobody")

    runs = prepared_runs(toy_federation, methods=[Broken(), "uniform"])
    progress = [message for message in carry_out(runs) if isinstance(message, Progress)]
    assert progress[-1] == Progress(ROUNDS, ROUNDS, 1)


def test_a_damaged_checkpoint_is_named(toy_federation: Federation, tmp_path: Path) -> None:
    (run,) = prepared_runs(toy_federation, tmp_path, methods=["uniform"])
    carried_out([run])
    (folder_of(run).path / "rounds.jsonl").write_text("")
    (folder_of(run).path / "checkpoint.npz").write_bytes(b"PK\x03\x04rubbish")
    with pytest.raises(OutputError, match=r"checkpoint\.npz is damaged"):
        carried_out([run])


def test_a_checkpoint_of_another_model_is_refused(
    toy_federation: Federation, tmp_path: Path
) -> None:
    (run,) = prepared_runs(toy_federation, tmp_path, methods=["uniform"])
    carried_out([run])
    before, checkpoint = record_files([run]), load_checkpoint(folder_of(run), {})
    assert checkpoint is not None
    other = replace(checkpoint.state, parameters=checkpoint.state.parameters[:-1])
    save_checkpoint(folder_of(run), other, engine="loop", start_memory={})
    with pytest.raises(OutputError, match=r"holds another model; remove the run's folder"):
        carried_out([run])
    assert record_files([run]) == before


def test_a_run_resumes_with_the_engine_that_it_began_with(
    toy_federation: Federation, tmp_path: Path
) -> None:
    (run,) = prepared_runs(toy_federation, tmp_path, methods=["uniform"])
    messages = carry_out([run])
    assert [next(messages) for _ in range(3)][-1] == Progress(3, ROUNDS, 0)
    messages.close()
    other = replace(run, engine=run.engine._replace(name="stacked"))
    (ended,) = carried_out([other])
    assert ended.tables["run"]["engine"] == "loop"
    assert folder_of(run).config()["run"]["engine"] == "loop"


def test_whole_rounds_are_saved_when_the_crew_is_ended(
    toy_federation: Federation, tmp_path: Path
) -> None:
    runs = prepared_runs(toy_federation, tmp_path)
    (share,) = shares_of(runs, [0, 1], 1)
    crew = ThisProcess(runs)
    crew.start(share)
    for _, (_, message) in zip(range(3), crew.messages(), strict=False):
        assert isinstance(message, Progress)
    assert crew.how_it_ended(share) is None
    crew.end()
    assert sum(stored_round(folder_of(run)) for run in runs) == 3
    (again,) = shares_of(runs, [0, 1], 1)
    ended = Executor(ThisProcess(runs), runs).carry_out([again])
    assert [len(run.records) for run in ended.values()] == [ROUNDS + 1] * 2
