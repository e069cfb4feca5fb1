"""A study: the one call that the command line and `fedgs.compare` make."""

from pathlib import Path

import pytest

from fedgs.data import Federation
from fedgs.errors import ConfigError
from fedgs.experiments.compare import _Given
from fedgs.experiments.grid import build_config
from fedgs.experiments.study import Study, prepare_study


def study(
    federation: Federation,
    *,
    methods: tuple[str, ...] = ("uniform", "md"),
    rounds: tuple[int, ...] = (3,),
) -> Study:
    common = {"data": _Given(federation=federation), "availability": {"name": "LDF", "beta": 0.2}}
    configs = [
        build_config(
            {
                **common,
                "method": method,
                "training": {"rounds": count, "cohort_limit": 2},
                "seed": seed,
            }
        )
        for method in methods
        for count in rounds
        for seed in (0, 1)
    ]
    return prepare_study(configs)


def test_a_study_knows_its_heading_labels_and_rounds_before_anything_runs(
    toy_federation: Federation,
) -> None:
    prepared = study(toy_federation)
    assert prepared.heading == "toy, 6 clients, LDF 0.2: 2 methods x 2 seeds x 3 rounds"
    assert prepared.labels == ["uniform", "md"]
    assert (len(prepared.runs), prepared.rounds) == (4, 3)
    longer = study(toy_federation, rounds=(3, 5))
    assert longer.heading == "toy, 6 clients, LDF 0.2: 4 methods x 2 seeds x 2 numbers of rounds"
    assert longer.rounds == 5


def test_labels_before_are_those_of_the_table(toy_federation: Federation) -> None:
    prepared = study(toy_federation, methods=("md", "fedprox", "uniform"))
    results = prepared.run()
    assert (
        prepared.labels
        == list(dict.fromkeys(run.label for run in results.runs))
        == ["md", "fedprox", "uniform"]
    )
    assert all(line.split()[0] in results.table().text() for line in prepared.labels)
    assert results.reused == 0


def test_results_count_the_runs_that_were_finished_before(
    toy_federation: Federation, tmp_path: Path
) -> None:
    first = study(toy_federation, methods=("uniform",)).run(out=tmp_path)
    second = study(toy_federation).run(out=tmp_path)
    assert (first.reused, second.reused) == (0, 2)
    assert [list(run.records) for run in second.runs[:2]] == [
        list(run.records) for run in first.runs
    ]
    assert str(second) == str(second.table())


def test_what_cannot_run_is_refused_before_the_study_exists(toy_federation: Federation) -> None:
    settings = {
        "data": _Given(federation=toy_federation),
        "availability": "IDL",
        "training": {"cohort_limit": 7},
    }
    config = build_config({**settings, "method": "md"})
    with pytest.raises(
        ConfigError, match=r"training.cohort_limit must be at most 6, the number of clients; got 7"
    ):
        prepare_study([config])
