import itertools
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fedgs.cli.config import resolved_toml
from fedgs.config import Config
from fedgs.errors import ConfigError
from fedgs.experiments.grid import Grid, expand, parse_override, read_config
from fedgs.graph import Graph
from fedgs.sampling.fedgs import FedGS


def methods(grid: Grid) -> list[tuple[str, float | None, float]]:
    return [(c.method.name, getattr(c.method, "alpha", None), c.training.mu) for c in grid.configs]


def test_without_a_file_the_standard_comparison_is_meant() -> None:
    grid = expand(None)
    assert len(grid.configs) == 15
    assert {config.availability.name for config in grid.configs} == {"LDF"}
    assert {(config.method.name, config.training.mu) for config in grid.configs} == {
        ("fedgs", 0.0), ("uniform", 0.0), ("md", 0.0), ("md", 0.01), ("power_of_choice", 0.0),
    }  # fmt: skip
    assert {config.training.rounds for config in grid.configs} == {200}


def test_with_an_empty_file_one_ideal_fedgs_run_is_meant() -> None:
    (config,) = expand({}).configs
    assert (config.method.name, config.availability.name, config.seed, config.training.rounds) == (
        "fedgs",
        "IDL",
        0,
        1000,
    )


def test_override_replaces_an_axis() -> None:
    assert methods(expand(None, [("method", "uniform")])) == [("uniform", None, 0.0)] * 3


def test_override_of_a_setting_applies_to_all_variants_that_have_it() -> None:
    grid = expand(None, [("method.alpha", 5.0), ("seed", 0)])
    assert [alpha for name, alpha, _ in methods(grid) if name == "fedgs"] == [5.0]
    assert len(grid.configs) == 5


def test_override_with_a_list_makes_an_axis() -> None:
    grid = expand({"method": "fedgs"}, [("method.alpha", [0.0, 1.0]), ("seed", [0, 1])])
    assert len(grid.configs) == 4


def test_a_key_that_a_variant_does_not_have_is_dropped_and_equal_runs_collapse() -> None:
    grid = expand({"grid": {"method": {"alpha": [0.0, 1.0, 2.0]}}})
    assert methods(grid) == [("fedgs", 0.0, 0.0), ("fedgs", 1.0, 0.0), ("fedgs", 2.0, 0.0)]
    grid = expand({"grid": {"method": ["uniform", "fedgs"], "method.alpha": [0.0, 1.0]}})
    assert methods(grid) == [("uniform", None, 0.0), ("fedgs", 0.0, 0.0), ("fedgs", 1.0, 0.0)]


def test_axes_take_whole_variants() -> None:
    grid = expand({"grid": {"availability": ["IDL", {"name": "LN", "beta": 0.3}]}})
    assert [(c.availability.name, getattr(c.availability, "beta", None)) for c in grid.configs] == [
        ("IDL", None),
        ("LN", 0.3),
    ]


def test_fedprox_is_md_with_a_proximal_term_that_can_be_set() -> None:
    assert methods(expand({"method": "fedprox"})) == [("md", None, 0.01)]
    assert methods(expand({"method": {"name": "fedprox"}, "training": {"mu": 0.1}})) == [
        ("md", None, 0.1)
    ]
    assert methods(expand({"method": "uniform"}, [("training.mu", 0.5)])) == [
        ("uniform", None, 0.5)
    ]


def test_a_variant_of_another_name_replaces_the_lower_layers_whole() -> None:
    (config,) = expand(
        {"availability": {"name": "LDF", "beta": 0.3}}, [("availability", "YC")]
    ).configs
    assert (config.availability.name, config.availability.beta) == ("YC", 0.9)
    (config,) = expand({"availability": {"name": "LDF"}}, [("availability.beta", 0.25)]).configs
    assert (config.availability.name, config.availability.beta) == ("LDF", 0.25)
    (config,) = expand(
        {"availability": {"name": "LDF", "beta": 0.3}}, [("availability.name", "MDF")]
    ).configs
    assert (config.availability.name, config.availability.beta) == ("MDF", 0.7)


@pytest.mark.parametrize(
    ("given", "overrides", "message"),
    [
        ({"sed": 1}, [], r"sed is not a setting; .*did you mean 'seed'\?"),
        (
            {"method": "fedg"},
            [],
            r"method.name must be one of .*; got 'fedg'; did you mean 'fedgs'\?",
        ),
        (
            None,
            [("method.alhpa", 1)],
            r"method.alhpa is not a setting of .*; did you mean 'alpha'\?",
        ),
        (
            {"method": "uniform"},
            [("method.alpha", 1)],
            r"method.alpha is not a setting; known are weighting",
        ),
        (
            {"grid": {"method": []}},
            [],
            r"grid.method must be a list of at least one value, got \[\]",
        ),
        ({"grid": {"seed": 3}}, [], r"grid.seed must be a list of at least one value, got 3"),
        ({"grid": 3}, [], r"grid must be a table of lists, got 3"),
        (
            {"grid": {"method": ["uniform", "md"], "method.alpha": [1.0]}},
            [],
            r"method.alpha is not a setting of MD, Uniform",
        ),
        ({"seed": 1}, [("seed.x", 1)], r"seed is not a table, so seed.x cannot be set"),
        (
            {},
            [("training.rounds", "many")],
            r"training.rounds should be a valid integer, got 'many'",
        ),
        ({}, [("seed", [])], r"--set seed must be a list of at least one value"),
        ({"method": 5}, [], r"method must be a name, a table with `name`"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(
    given: Any, overrides: list[tuple[str, Any]], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        expand(given, overrides)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["method", "=3", "a..b=1", ""])
def test_an_override_needs_key_and_value(text: str) -> None:
    with pytest.raises(ConfigError, match="--set takes KEY=VALUE"):
        parse_override(text)


def test_sources_say_where_each_value_came_from() -> None:
    sources = expand(
        {"training": {"rounds": 5}, "method": "fedgs"}, [("method.alpha", 2.0)], file="a.toml"
    ).sources
    assert sources["training.rounds"] == "a.toml"
    assert sources["method.alpha"] == "--set"
    assert sources["seed"] == "default"


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"the configuration .*missing.toml' cannot be read: No such file"
    ):
        read_config(tmp_path / "missing.toml")
    (tmp_path / "bad.toml").write_text("a = = 1")
    with pytest.raises(ConfigError, match=r"is not TOML: .*line 1"):
        read_config(tmp_path / "bad.toml")


def test_settings_beside_an_axis_of_variants_apply_to_those_that_have_them() -> None:
    grid = expand(
        {"method": {"name": "fedgs", "alpha": 7.0}, "grid": {"method": ["fedgs", "uniform"]}}
    )
    assert methods(grid) == [("fedgs", 7.0, 0.0), ("uniform", None, 0.0)]
    with pytest.raises(ConfigError, match="method.alpha is not a setting of MD, Uniform"):
        expand({"method": {"name": "fedgs", "alpha": 7.0}, "grid": {"method": ["md", "uniform"]}})
    grid = expand(
        {
            "method": {"name": "fedgs", "alpha": 7.0},
            "grid": {"method": ["fedgs", "uniform"], "method.alpha": [1.0, 2.0]},
        }
    )
    assert methods(grid) == [
        ("fedgs", 1.0, 0.0),
        ("fedgs", 2.0, 0.0),
        ("uniform", None, 0.0),
    ]  # the axis has the word


def test_override_of_an_axis_of_settings_beside_an_axis_of_variants_applies() -> None:
    axes = {"method": ["fedgs", "uniform"], "method.alpha": [1.0, 2.0]}
    grid = expand({"grid": axes}, [("method.alpha", 3.0)])
    assert methods(grid) == [("fedgs", 3.0, 0.0), ("uniform", None, 0.0)]
    modes = {"availability": [{"name": "YMF", "beta": 0.5}], "availability.beta": [0.1, 0.9]}
    (config,) = expand({"grid": modes}, [("availability.beta", 0.7)]).configs
    assert config.availability.beta == 0.7


def test_a_variant_and_its_setting_can_be_given_in_any_order() -> None:
    (config,) = expand({}, [("availability.beta", 0.25), ("availability", "MDF")]).configs
    assert (config.availability.name, config.availability.beta) == ("MDF", 0.25)


def graph_of(config: Config) -> Graph:
    assert isinstance(config.method, FedGS)
    return config.method.graph


def graphs(grid: Grid) -> list[tuple[object, object]]:
    made = [graph_of(config) for config in grid.configs]
    return [(graph.similarity, graph.noise_samples) for graph in made]


NOISE = (
    "method.graph.noise_samples has no effect with similarity 'oracle'; it belongs to 'functional'"
)


@pytest.mark.parametrize(
    ("given", "overrides"),
    [
        ({"method": {"name": "fedgs", "graph": {"noise_samples": 10}}}, []),
        ({}, [("method.graph.noise_samples", 10)]),
        ({}, [("method.graph.noise_samples", [10, 256])]),
        ({}, [("method.graph.noise_samples", [10, 20]), ("seed", [0, 1])]),
        (
            {},
            [
                ("method.graph.noise_samples", [256, 10]),
                ("method.graph.similarity", ["oracle", "private"]),
            ],
        ),
        ({"grid": {"method": ["fedgs", "uniform"]}}, [("method.graph.noise_samples", 10)]),
        ({"grid": {"method": [{"name": "fedgs", "graph": {"noise_samples": 10}}, "uniform"]}}, []),
        (  # a table on an axis means what it says
            {"grid": {"method": [{"name": "fedgs", "graph": {"noise_samples": 10}}, "uniform"]}},
            [("method.graph.similarity", ["oracle", "functional"])],
        ),
    ],
)
def test_a_setting_that_changes_nothing_in_any_run_is_refused(
    given: Any, overrides: list[tuple[str, Any]]
) -> None:
    with pytest.raises(ConfigError) as caught:
        expand(given, overrides)
    assert str(caught.value).replace("'private'", "'oracle'") == NOISE


def test_a_setting_is_left_out_of_the_runs_in_which_it_changes_nothing() -> None:
    similarity = ("method.graph.similarity", ["oracle", "functional"])
    both = expand({}, [similarity, ("method.graph.noise_samples", [10, 256])])
    assert graphs(both) == [("oracle", 256), ("functional", 10), ("functional", 256)]
    grid = expand({"method": {"name": "fedgs", "graph": {"noise_samples": 10}}}, [similarity])
    assert graphs(grid) == [("oracle", 256), ("functional", 10)]
    assert grid.left_out == {"method.graph.noise_samples": 10}
    again = tomllib.loads(resolved_toml(grid, full=True))
    assert [repr(c) for c in expand(again).configs] == [repr(c) for c in grid.configs]
    table = {"name": "fedgs", "graph": {"noise_samples": 10}}
    late = expand({"grid": {"method": ["uniform", "fedgs"]}, "method": table}, [similarity])
    assert [
        getattr(getattr(c.method, "graph", None), "noise_samples", None) for c in late.configs
    ] == [None, 256, 10]


def test_settings_beside_a_path_are_not_lost_silently() -> None:
    with pytest.raises(
        ConfigError,
        match="method.graph.similarity has no effect where method.graph.path gives the graph",
    ):
        expand(
            {},
            [("method.graph.path", "g.npz"), ("method.graph.similarity", ["oracle", "functional"])],
        )


@pytest.mark.parametrize("axes", [{}, {"method": ["fedgs", "uniform"]}])
def test_a_path_set_late_replaces_what_the_file_says_of_the_graph(axes: dict[str, Any]) -> None:
    given = {
        "method": {
            "name": "fedgs",
            "alpha": 2.0,
            "graph": {"similarity": "functional", "noise_samples": 10},
        },
        "grid": axes,
    }
    graph = graph_of(expand(given, [("method.graph.path", "g.npz")]).configs[0])
    assert graph == Graph(path="g.npz")
    for overrides in itertools.permutations(
        [("method.graph.path", "g.npz"), ("method.graph.epsilon", 0.3)]
    ):
        with pytest.raises(
            ConfigError,
            match="method.graph.epsilon has no effect where method.graph.path gives the graph",
        ):
            expand(given, overrides)


@pytest.mark.parametrize(
    ("settings", "key", "value"),
    [
        (["aggregation.beta=0.3", "aggregation.name=stale"], "aggregation.beta", 0.3),
        (["method.alpha=2", "method.name=fedgs"], "method.alpha", 2.0),
        (
            ["method.weighting.cutoff=7", "method.weighting.name=fedau"],
            "method.weighting.cutoff",
            7,
        ),
        (
            ["training.optimizer.momentum=0.9", "training.optimizer.name=sgd"],
            "training.optimizer.momentum",
            0.9,
        ),
    ],
)
def test_a_name_that_is_given_after_a_setting_keeps_it(
    settings: list[str], key: str, value: object
) -> None:
    for order in (settings, settings[::-1]):
        (config,) = expand(
            None, [parse_override(one) for one in ["method=fedgs", "seed=0", *order]]
        ).configs
        found: Any = config.tables()
        for part in key.split("."):
            found = found[part]
        assert found == value
