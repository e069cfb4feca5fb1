"""A prepared run: the name of its folder, whether it is finished, what it stores and shares."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedgs
from fedgs.data import Federation
from fedgs.errors import OutputError
from fedgs.experiments.compare import _Given
from fedgs.experiments.grid import build_config
from fedgs.experiments.prepared import PreparedRun
from fedgs.experiments.preparing import prepare
from fedgs.experiments.runner import run_all
from fedgs.records import RunFolder

TRAINING = {"rounds": 2, "proportion": 0.5, "local_steps": 1}


def prepared_run(federation: Federation, **settings: Any) -> PreparedRun:
    tables = {
        "data": _Given(federation=federation),
        "availability": "IDL",
        "method": "md",
        "training": TRAINING,
    }
    (run,) = prepare([build_config({**tables, **settings})])
    return run


def test_a_folders_name_says_data_mode_method_and_seed_and_ends_with_the_fingerprint(
    toy_federation: Federation,
) -> None:
    run = prepared_run(toy_federation, seed=3)
    assert run.folder_name == f"arrays-IDL-md-seed3-{run.fingerprint}"
    assert len(run.fingerprint) == 16 and int(run.fingerprint, 16) >= 0


def test_a_method_without_a_name_is_called_custom(toy_federation: Federation) -> None:
    class Unnamed(fedgs.Uniform):
        pass

    Unnamed.name = ""
    name = prepared_run(toy_federation, method=Unnamed()).folder_name
    assert name.startswith("arrays-IDL-custom-seed0-")


def test_runs_of_other_lengths_have_one_folder_and_those_of_other_seeds_have_two(
    toy_federation: Federation,
) -> None:
    run = prepared_run(toy_federation)
    longer = prepared_run(toy_federation, training={**TRAINING, "rounds": 9})
    assert run.folder_name == longer.folder_name
    assert run.folder_name != prepared_run(toy_federation, seed=1).folder_name


def test_a_run_is_finished_once_its_folder_holds_its_last_record(
    toy_federation: Federation, tmp_path: Path
) -> None:
    run = prepared_run(toy_federation)
    longer = prepared_run(toy_federation, training={**TRAINING, "rounds": 3})
    folder = RunFolder(tmp_path / run.folder_name)
    run, longer, nowhere = replace(run, folder=folder), replace(longer, folder=folder), run
    assert not run.is_finished()
    run_all([run], out=tmp_path)
    assert run.is_finished() and not longer.is_finished() and not nowhere.is_finished()
    run_all([longer], out=tmp_path)
    assert run.is_finished() and longer.is_finished()
    (folder.path / "rounds.jsonl").write_text("rubbish\n")
    with pytest.raises(OutputError, match=r"rounds\.jsonl"):
        run.is_finished()


def test_tables_hold_the_configuration_and_how_the_run_is_carried_out(
    toy_federation: Federation,
) -> None:
    run = prepared_run(toy_federation, seed=3)
    tables = run.tables("loop", "the model is small")
    about = tables["run"]
    assert (tables["seed"], tables["method"]["name"], tables["training"]["rounds"]) == (3, "md", 2)
    assert about["fingerprint"] == run.fingerprint and about["identity"] == run.identity.parts
    assert (about["engine"], about["engine_reason"]) == ("loop", "the model is small")
    assert (about["num_clients"], about["num_labels"], about["cohort_limit"]) == (6, 3, 3)
    assert (about["data_title"], about["data_fingerprint"]) == ("toy", toy_federation.fingerprint)
    assert set(about["versions"]) == {"fedgs", "python", "numpy", "torch"}


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
        plans = [run.plan for run in prepare(configs)]
        assert (
            plans[0].availability is plans[2].availability
            and plans[1].availability is plans[3].availability
        )
        assert len({id(plan.availability) for plan in plans}) >= 5
