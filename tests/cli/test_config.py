"""`fedgs config`: what is printed is a configuration of the same runs."""

import tomllib
from pathlib import Path

import pytest
from tests.cli.test_run import fedgs

from fedgs.cli.config import resolved_toml
from fedgs.experiments.grid import expand, parse_override


def test_the_resolved_configuration_is_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'method = "fedgs"\n[training]\nrounds = 3\n[grid]\nseed = [0, 1]\n'
    )
    shown = fedgs(tmp_path, "config", "mine.toml", "--set", "method.alpha=2", "--full")
    assert shown.returncode == 0, shown.stderr
    tables = tomllib.loads(shown.stdout)
    assert (
        tables["method"]["alpha"] == 2
        and tables["training"]["rounds"] == 3
        and tables["grid"]["seed"] == [0, 1]
    )
    assert (
        "# mine.toml" in shown.stdout
        and "# --set" in shown.stdout
        and "# default of synthetic" in shown.stdout
    )
    (tmp_path / "again.toml").write_text(shown.stdout)
    again = fedgs(tmp_path, "config", "again.toml", "--full")
    assert tomllib.loads(again.stdout) == tables
    short = tomllib.loads(fedgs(tmp_path, "config", "mine.toml").stdout)
    assert "batch_size" not in short["training"]


GRIDS: list[tuple[str, list[str]]] = [
    ("", []),
    ("", ["--set", "method.alpha=2"]),
    ("", ["--set", "method=fedprox"]),
    ("", ["--set", 'data=["synthetic", "fashion_mnist"]', "--set", 'availability=["LN", "YC"]']),
    ("", ["--set", 'model=["logistic", "fashion_cnn"]', "--set", "availability.seed=7"]),
    (
        '[grid]\nmethod = ["md", "fedgs", { name = "fedgs", alpha = 0.5 }]\n'
        '"method.graph.epsilon" = [0.1, 0.2]\n',
        [],
    ),
    (
        'method.alpha = 3.0\n[grid]\nmethod = ["fedprox", "fedgs"]\n"training.rounds" = [3, 4]\n',
        ["--set", "method.scale=cohort"],
    ),
]


@pytest.mark.parametrize(("file", "options"), GRIDS)
@pytest.mark.parametrize("full", [True, False])
def test_a_printed_grid_asks_for_the_same_runs(file: str, options: list[str], full: bool) -> None:
    overrides = [parse_override(text) for text in options[1::2]]
    grid = expand(tomllib.loads(file) if file else None, overrides)
    again = expand(tomllib.loads(resolved_toml(grid, full=full)))
    expected, found = (
        sorted(repr(config.tables()) for config in each.configs) for each in (grid, again)
    )
    assert found == expected


def test_methods_named_in_a_grid_are_printed_with_all_their_settings() -> None:
    grid = expand(None, [("method.alpha", 2)])
    methods = {
        table["name"]: table
        for table in tomllib.loads(resolved_toml(grid, full=True))["grid"]["method"]
    }
    assert methods["fedgs"]["alpha"] == 2.0 and methods["fedgs"]["graph"]["epsilon"] == 0.1
    assert methods["uniform"] == {"name": "uniform", "weighting": "data_size"}
    assert methods["fedprox"]["name"] == "fedprox"
    assert "# mu is 0.0 or 0.01, by run" in resolved_toml(grid, full=True)
