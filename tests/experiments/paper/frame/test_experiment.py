"""Records of an experiment, and renderings of records that are missing."""

import pytest
from tests.experiments.paper.helpers import request_of, run_with

from fedgs.experiments.paper.catalogue import NAMES, find
from fedgs.experiments.paper.frame.experiment import Computed, ExperimentRecords, losses


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


def test_losses_of_a_cell_are_those_of_its_runs() -> None:
    runs = [run_with("md", "IDL", seed=seed, loss=seed + 0.5) for seed in (0, 1)]
    runs.append(run_with("md", "LN 0.5", loss=9.0))
    assert sorted(losses(runs, data="synthetic", mode="IDL", row="md").values()) == [0.5, 1.5]
    assert losses(runs, data="cifar10", mode="IDL", row="md") == {}


def test_a_result_names_its_federation() -> None:
    assert Computed({}, {"data_title": "toy", "num_clients": 6}).num_clients == 6
    assert Computed({}, {}).num_clients is None
