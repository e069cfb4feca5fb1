"""Short programs draw their pictures; the study of inverse participation runs and sums up."""

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

EXAMPLES = Path(__file__).parents[1] / "examples"
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


def program(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SHORT = {
    "partitioned_arrays": {"rounds": 2, "seeds": 2},
    "csv_by_site": {"rounds": 2, "seeds": 2},
    "recorded_availability": {"rounds": 30},
    "records_in_pandas": {"rounds": 6, "seeds": 2},
}


@pytest.mark.parametrize("name", SHORT)
def test_a_short_program_draws_its_picture(name: str, tmp_path: Path) -> None:
    if name == "records_in_pandas":
        pytest.importorskip("pandas")
    example = program(name)
    picture = tmp_path / "picture.png"
    example.draw(example.study(**SHORT[name]), str(picture))
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert len((EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines()) < 60


@pytest.mark.parametrize("name", SHORT)
def test_the_page_of_examples_shows_the_programs(name: str) -> None:
    page = (EXAMPLES.parent / "docs" / "examples.md").read_text(encoding="utf-8")
    code = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    assert f'```python title="examples/{name}.py"\n{code}```\n' in page
    picture = f"example-{name.replace('_', '-')}.png"
    assert f"python examples/{name}.py {picture}\n" in page
    assert f"(figures/{picture})" in page and (EXAMPLES.parent / "docs/figures" / picture).exists()


def test_the_hospitals_are_the_clients_and_their_patients_the_examples() -> None:
    run = program("csv_by_site").study(rounds=1, seeds=1).runs[0]
    lines = (EXAMPLES / "patients.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert run.clients.names == tuple(f"hospital {number}" for number in range(1, 13))
    assert run.clients.data_sizes.sum() == len(lines) - len(lines) // 5
    assert len(lines) == 731


def test_the_recorded_phones_are_available_as_the_file_says(tmp_path: Path) -> None:
    example = program("recorded_availability")
    matrix = example.recorded(tmp_path / "charging.csv").matrix
    for run in example.study(rounds=30).runs:
        for record in run.records[:-1]:
            rows = np.flatnonzero(matrix[:, record.round])
            assert list(record.available) == rows.tolist()


def test_participation_of_the_data_frame_is_that_of_the_records() -> None:
    pandas = pytest.importorskip("pandas")
    example = program("records_in_pandas")
    frame = pandas.DataFrame(
        {
            "method": ["md", "md", "md"],
            "seed": [0, 0, 1],
            "available": [[0, 1], [1], [0, 1]],
            "cohort": [[0], [1], [0]],
        }
    )
    table = example.participation(frame)
    # Client 0: available in 1 round of each seed, selected in 1 of each. Client 1: available in 2
    # and 1 rounds, selected in 1 and 0.
    assert table.loc[("md", 0)].tolist() == [1.0, 1.0]
    assert table.loc[("md", 1)].tolist() == [1.5, 0.5]
