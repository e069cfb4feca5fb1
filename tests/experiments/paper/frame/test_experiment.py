"""Plans of runs, and renderings of records that are missing."""

import pytest
from tests.experiments.paper.helpers import request_of, run_with

from fedgs.experiments.paper.catalogue import NAMES, find
from fedgs.experiments.paper.frame.experiment import (
    Computed,
    ExperimentRecords,
    Row,
    losses,
    planned_runs,
    runs_table,
)
from fedgs.experiments.paper.frame.request import ExperimentRequest, Mode, Source


@pytest.mark.parametrize("name", [name for name in NAMES if name != "table2"])
def test_without_records_there_are_no_tables_and_no_figures(name: str) -> None:
    rendering = find(name).render(request_of(name, None), ExperimentRecords())
    assert (dict(rendering.tables), dict(rendering.csv_only)) == ({}, {})
    assert list(rendering.verdict) == [] and rendering.draw is None


def test_table2_without_records_says_not_run() -> None:
    rendering = find("table2").render(request_of("table2", None), ExperimentRecords())
    assert {
        cell.text.partition(" (")[0] for row in rendering.tables[""].rows for cell in row[1:]
    } == {"not run"}
    assert dict(rendering.csv_only) == {}


def test_every_mode_row_and_seed_is_planned_with_the_settings_of_its_method() -> None:
    rows = [
        Row("md", "md", {"name": "md"}, {"mu": 0.5}),
        Row("fedgs-1", "fedgs 1", {"name": "fedgs", "alpha": 1.0}),
    ]
    request = ExperimentRequest(
        "table2",
        rounds=7,
        seeds=(0, 3),
        overrides=(("training.local_steps", 2), ("method.alpha", 4.0)),
    )
    planned = planned_runs(
        request, Source("synthetic"), modes=[Mode("IDL"), Mode("LN", 0.3)], rows=rows
    )
    assert [(run.mode, run.row, run.config.seed) for run in planned] == [
        (mode, row, seed)
        for mode in ("IDL", "LN 0.3")
        for row in ("md", "fedgs-1")
        for seed in (0, 3)
    ]
    assert {
        (run.data, run.config.training.rounds, run.config.training.local_steps) for run in planned
    } == {("synthetic", 7, 2)}
    assert {run.row: run.config.training.mu for run in planned} == {"md": 0.5, "fedgs-1": 0}
    # md has no alpha: the override concerns FedGS alone.
    assert {getattr(run.config.method, "alpha", None) for run in planned} == {None, 4.0}


def test_losses_of_a_cell_are_those_of_its_runs() -> None:
    runs = [run_with("md", "IDL", seed=seed, loss=seed + 0.5) for seed in (0, 1)]
    runs.append(run_with("md", "LN 0.5", loss=9.0))
    assert sorted(losses(runs, data="synthetic", mode="IDL", row="md").values()) == [0.5, 1.5]
    assert losses(runs, data="cifar10", mode="IDL", row="md") == {}
    lines = [[cell.text for cell in row] for row in runs_table("Runs", runs).rows]
    assert lines[1] == ["synthetic", "IDL", "md", "1", "1", "1.5", "finished", "run"]


def test_a_result_names_its_federation() -> None:
    assert Computed({}, {"data_title": "toy", "num_clients": 6}).num_clients == 6
    assert Computed({}, {}).num_clients is None
