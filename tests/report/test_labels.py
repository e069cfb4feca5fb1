import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from fedgs.registry import build, table
from fedgs.report.labels import labelled, labels_of
from fedgs.report.run_view import Run
from fedgs.system_settings import System

ROOT = Path(__file__).parents[2]


def labels(*configs: Mapping[str, object]) -> list[str]:
    return [run.label for run in labelled(Run(config, ()) for config in configs)]


def test_a_label_is_the_method_and_the_settings_that_differ() -> None:
    fedgs = {"name": "fedgs", "scale": "paper"}
    assert labels(
        {"method": {**fedgs, "alpha": 0.5}},
        {"method": {**fedgs, "alpha": 2.0}},
        {"method": {"name": "md"}},
    ) == ["fedgs alpha=0.5", "fedgs alpha=2", "md"]


def test_md_with_a_proximal_term_is_fedprox() -> None:
    assert labels(
        {"method": "md", "training": {"mu": 0.01}}, {"method": "md", "training": {"mu": 0.0}}
    ) == ["fedprox", "md"]


def test_a_label_of_ones_own_wins() -> None:
    assert labels({"method": "md", "label": "ours"}, {"method": "md"}) == ["ours", "md"]


def test_rounds_and_seeds_are_no_difference_but_the_cohort_limit_is() -> None:
    run = {"method": "md", "training": {"rounds": 5, "proportion": 0.2}, "run": {"cohort_limit": 6}}
    same = {
        "method": "md",
        "seed": 3,
        "training": {"rounds": 9, "cohort_limit": 6},
        "run": {"cohort_limit": 6},
    }
    other = {
        "method": "md",
        "training": {"rounds": 5, "proportion": 0.1},
        "run": {"cohort_limit": 3},
    }
    assert labels(run, same) == ["md", "md"]
    assert labels(run, other) == ["md cohort_limit=6", "md cohort_limit=3"]


def test_a_preset_stands_for_the_values_it_gives() -> None:
    paper = {"name": "fedgs", "graph": {"preset": "paper", "epsilon": 0.1, "power": 1}}
    authors = {"name": "fedgs", "graph": {"preset": "authors", "epsilon": 0.01, "power": 2}}
    assert labels({"method": paper}, {"method": authors}) == [
        "fedgs preset=paper",
        "fedgs preset=authors",
    ]
    changed = {"name": "fedgs", "graph": {"preset": "authors", "epsilon": 0.5, "power": 2}}
    assert labels({"method": authors}, {"method": changed}) == [
        "fedgs epsilon=0.01",
        "fedgs epsilon=0.5",
    ]


def test_differences_across_groups_are_no_part_of_a_label() -> None:
    one = {
        "method": "md",
        "data": "synthetic",
        "training": {"learning_rate": 0.1},
        "run": {"data_title": "A"},
    }
    two = {
        "method": "md",
        "data": "images",
        "training": {"learning_rate": 0.03},
        "run": {"data_title": "B"},
    }
    assert labels(one, two) == ["md", "md"]


def test_federations_and_modes_with_one_title_are_told_apart() -> None:
    def config(seed: int, period: int, fingerprint: str) -> dict[str, object]:
        return {
            "method": "md",
            "data": {"name": "synthetic", "seed": seed},
            "availability": {"name": "YC", "beta": 0.9, "period": period, "seed": 5 + seed},
            "run": {"data_title": "Syn", "data_fingerprint": fingerprint},
        }

    groups = [
        run.group for run in labelled([Run(config(0, 10, "a"), ()), Run(config(1, 20, "b"), ())])
    ]
    assert groups == [("Syn seed=0", "YC 0.9 period=10"), ("Syn seed=1", "YC 0.9 period=20")]


def titles(*systems: Mapping[str, object] | None) -> list[str]:
    tables = [{} if system is None else {"system": system} for system in systems]
    return [run.group[1] for run in labelled(Run({"method": "md", **of}, ()) for of in tables)]


def test_the_title_of_runs_with_a_clock_leaves_out_defaults() -> None:
    clock = table(System(seed=3))
    assert titles(None, clock) == ["availability", "availability system=on"]
    assert titles(None, {**clock, "work": 2.0}) == [
        "availability",
        "availability system=on work=2",
    ]
    assert titles(clock, {**clock, "away": "pause"}) == [
        "availability away=lost",
        "availability away=pause",
    ]
    assert titles(clock, clock) == ["availability", "availability"]


def test_federations_that_only_their_content_tells_apart_carry_it() -> None:
    runs = [
        Run({"method": "md", "run": {"data_title": "Mine", "data_fingerprint": f"{n}" * 16}}, ())
        for n in (1, 2)
    ]
    assert [run.group[0] for run in labelled(runs)] == ["Mine [11111111]", "Mine [22222222]"]


def test_settings_whose_last_part_is_not_unique_are_named_in_full() -> None:
    def config(method_seed: int, model_seed: int) -> dict[str, object]:
        return {"method": {"name": "md", "seed": method_seed}, "model": {"seed": model_seed}}

    assert labels(config(0, 1), config(2, 3)) == [
        "md method.seed=0 model.seed=1",
        "md method.seed=2 model.seed=3",
    ]


def test_values_are_short_and_a_missing_setting_is_not_shown() -> None:
    assert labels(
        {"method": {"name": "md", "exact": True}},
        {"method": {"name": "md", "sizes": [1, 2]}},
    ) == ["md exact=true", "md sizes=1,2"]


def test_runs_with_other_aggregations_and_server_steps_have_labels_of_their_own() -> None:
    sgd, adam = {"name": "sgd", "rate": 1.0}, {"name": "adam", "rate": 0.1, "tau": 0.001}
    stale = {"name": "stale", "beta": 1.0, "unit": "update", "move_when_empty": True}
    tables: list[dict[str, object]] = [
        {"method": "uniform"},
        {"method": "uniform", "aggregation": {"name": "mean", "server": adam}},
        {"method": "uniform", "aggregation": {**stale, "server": sgd}},
        {"method": "uniform", "aggregation": {"name": "scaffold", "server": sgd}},
    ]
    assert labels(*tables) == [
        "uniform",
        "uniform server=adam rate=0.1",
        "uniform aggregation=stale",
        "uniform aggregation=scaffold",
    ]
    half = {"method": "uniform", "aggregation": {**stale, "beta": 0.5, "server": sgd}}
    assert labels(tables[2], half) == ["uniform beta=1", "uniform beta=0.5"]
    rates = [{"name": "mean", "server": {**sgd, "rate": rate}} for rate in (0.5, 2.0)]
    assert labels(*({"method": "uniform", "aggregation": mean} for mean in rates)) == [
        "uniform rate=0.5",
        "uniform rate=2",
    ]


def test_a_weighting_by_name_and_one_with_settings_differ_in_the_settings_alone() -> None:
    def config(weighting: object) -> dict[str, object]:
        return {"method": {"name": "uniform", "weighting": weighting}}

    fedau, short = config("fedau"), config({"name": "fedau", "cutoff": 3})
    assert labels(fedau, short) == ["uniform", "uniform cutoff=3"]
    assert labels(config("equal"), short, config({"name": "fedau", "cutoff": 50})) == [
        "uniform weighting=equal",
        "uniform weighting=fedau cutoff=3",
        "uniform weighting=fedau cutoff=50",
    ]
    assert labels(config("equal"), config({"name": "fedau", "cutoff": 50})) == [
        "uniform weighting=equal",
        "uniform weighting=fedau",
    ]


def test_labels_of_tables_are_listed_once() -> None:
    tables = [{"method": {"name": name}, "seed": seed} for name in ("md", "own") for seed in (0, 1)]
    assert labels_of(tables) == ["md", "own"]


def test_the_title_of_a_mode_names_its_changed_settings() -> None:
    def title(**settings: object) -> str:
        (run,) = labelled([Run({"method": "md", "availability": settings}, ())])
        return run.group[1]

    assert title(name="LDF", beta=0.7, empty_round="redraw", seed=3) == "LDF 0.7"
    assert title(name="LDF", beta=0.7, empty_round="skip") == "LDF 0.7 empty_round=skip"
    assert title(name="not-registered", beta=0.5, depth=4) == "not-registered 0.5"


def test_a_mode_with_a_base_is_titled_by_it_unless_all_is_default() -> None:
    def title(**settings: object) -> str:
        tables = {"method": "md", "availability": table(build("availability", settings))}
        (run,) = labelled([Run(tables, ())])
        return run.group[1]

    assert [title(name=name) for name in ("sine", "cyclic", "diurnal", "markov", "groups")] == [
        *("sine", "cyclic", "diurnal", "markov", "groups")
    ]
    assert title(name="sine", base="IDL", amplitude=0.2) == "sine base=IDL amplitude=0.2"
    base = {"name": "LN", "beta": 0.3, "seed": 4}
    assert title(name="markov", base=base, arrival=0.05) == "markov base=(LN 0.3) arrival=0.05"
    assert title(name="staircase", empty_round="skip") == "staircase empty_round=skip"
    bernoulli = {"name": "bernoulli", "lowest": 0.3}
    assert title(name="diurnal", base=bernoulli) == "diurnal base=(bernoulli lowest=0.3)"


def test_a_setting_of_one_aggregation_is_shown_where_it_is_not_the_default() -> None:
    pytest.importorskip("torch", reason="the defaults of aggregations are in modules that need it")
    half = {"name": "stale", "beta": 0.5, "unit": "update", "move_when_empty": True}
    assert labels(
        {"method": "uniform", "aggregation": {"name": "scaffold"}},
        {"method": "uniform", "aggregation": half},
    ) == ["uniform aggregation=scaffold", "uniform aggregation=stale beta=0.5"]


def test_aggregations_have_labels_without_torch() -> None:
    name = test_runs_with_other_aggregations_and_server_steps_have_labels_of_their_own.__name__
    code = (
        "import sys; sys.modules['torch'] = None; "
        f"from tests.report.test_labels import {name} as test; test()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
