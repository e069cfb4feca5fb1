"""The study of inverse participation: its grid runs, and its summary says what the records say."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from fedgs import Clients
from fedgs.experiments.grid import expand, parse_override, read_config
from fedgs.experiments.study import prepare_study
from fedgs.records import Record
from fedgs.report.run_view import Run

FOLDER = Path(__file__).parents[1] / "examples" / "inverse_participation"


@pytest.fixture(scope="module")
def summary() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "inverse_participation_summary", FOLDER / "summary.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_of(clients: Clients, cohorts: list[list[str]], weights: list[list[float]]) -> Run:
    records = [
        Record(t, cohort=cohort, weights=w)
        for t, (cohort, w) in enumerate(zip(cohorts, weights, strict=True))
    ]
    return Run({"method": {"name": "md"}}, [*records, Record(len(records))], clients)


def test_weights_that_follow_the_data_over_the_rounds_have_no_bias(summary: ModuleType) -> None:
    clients = Clients(("a", "b"), np.array([1, 3]))
    fair = run_of(clients, [["a", "b"], ["a", "b"]], [[0.25, 0.75], [0.25, 0.75]])
    assert summary.bias(fair) == pytest.approx(0)
    assert summary.weight_variance(fair) == pytest.approx(2 * (0.0625 + 0.5625) - 1)
    # "a" has half of all weight and a quarter of the data: |1/2 - 1/4| + |1/2 - 3/4| over two.
    assert summary.bias(run_of(clients, [["a"], ["b"]], [[1.0], [1.0]])) == pytest.approx(0.25)
    assert summary.weight_variance(run_of(clients, [["a", "b"]], [[0.5, 0.5]])) == pytest.approx(0)


def test_the_grid_runs_and_the_summary_pairs_the_weightings(summary: ModuleType) -> None:
    few = [
        'data=[{name="synthetic", seed=1, clients=6}]',
        "training.rounds=3",
        'availability=["LN"]',
        "seed=[0,1]",
    ]
    grid = expand(read_config(FOLDER / "study.toml"), [parse_override(one) for one in few])
    assert len(grid.configs) == 12  # six methods, two seeds
    lines = summary.table(prepare_study(grid.configs).run().runs).splitlines()
    assert lines[0].startswith("**Synthetic(0.5, 0.5) (")
    assert [line.split(" | ")[:2] for line in lines[4:]] == [
        ["| LN", "uniform"],
        ["| LN", "md"],
        ["| LN", "fedgs"],
    ]


def test_the_whole_grid_is_750_runs() -> None:
    assert len(expand(read_config(FOLDER / "study.toml")).configs) == 5 * 5 * 6 * 5


def test_the_study_of_growing_graphs_expands() -> None:
    grid = expand(read_config(FOLDER.parent / "growing_graph" / "study.toml"))
    graphs: list[Any] = [config.method.graph for config in grid.configs]
    assert len(grid.configs) == 7 * 6 * 5
    assert len({(graph.similarity, graph.start) for graph in graphs}) == 6
