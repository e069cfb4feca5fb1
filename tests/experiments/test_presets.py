"""Presets: what a published name stands for, and how a configuration refines it."""

import contextlib
import tomllib
from typing import Any

import pytest

import fedgs
from fedgs.aggregation import Stale
from fedgs.cli.config import resolved_toml
from fedgs.config import Config, Training, cohort_limit
from fedgs.data.federation import Federation
from fedgs.errors import ConfigError
from fedgs.experiments.grid import build_config, expand
from fedgs.experiments.preset import Preset
from fedgs.experiments.presets import PRESETS, RESERVED
from fedgs.experiments.study import prepare_study
from fedgs.fingerprint import identity_of
from fedgs.registry import build, preset_names, register, variant_names
from fedgs.sampling.base import AsksLosses, AsksReports, LearnsFromModels, Sampler
from fedgs.weighting import as_weighting
from fedgs.weighting.fedau import FedAU

BASE: dict[str, Any] = {"data": "synthetic", "availability": "LDF"}


def config(method: object, **tables: object) -> Config:
    return build_config({**BASE, "method": method, **tables})


def weighting(config: Config) -> str:
    assert isinstance(config.method, Sampler)
    return as_weighting(config.method.weighting).name


@pytest.mark.parametrize(
    ("name", "sampler", "rule", "proportion", "mu"),
    [
        ("fedavg", "uniform", "data_size", 0.2, 0.0),
        ("uniform", "uniform", "data_size", 0.2, 0.0),
        ("md", "md", "draws", 0.2, 0.0),
        ("fedprox", "md", "draws", 0.2, 0.01),
        ("power_of_choice", "power_of_choice", "equal", 0.2, 0.0),
        ("fedgs", "fedgs", "data_size", 0.2, 0.0),
        ("inverse_participation", "fedgs", "inverse_participation", 0.2, 0.0),
        ("balanced_shares", "fedgs", "deficit", 0.2, 0.0),
        ("fedavg_all", "uniform", "all", 1.0, 0.0),
        ("fedau", "uniform", "fedau", 1.0, 0.0),
        ("known_rates", "uniform", "known", 1.0, 0.0),
        ("cpow_d", "cpow_d", "equal", 0.2, 0.0),
        ("rpow_d", "rpow_d", "equal", 0.2, 0.0),
        ("active_fl", "active_fl", "data_size", 0.2, 0.0),
        ("oort", "oort", "data_size", 0.2, 0.0),
        ("f3ast", "f3ast", "f3ast", 0.2, 0.0),
        ("ca_fed", "ca_fed", "ca_fed", 0.2, 0.0),
        ("clustered", "clustered", "draws", 0.2, 0.0),
        ("mifa", "uniform", "all", 1.0, 0.0),
        ("fedlaavg", "least_recent", "all", 0.2, 0.0),
        ("scaffold", "uniform", "equal", 0.2, 0.0),
        ("fedawe", "uniform", "equal", 1.0, 0.0),
    ],
)
def test_a_preset_stands_for_settings(
    name: str, sampler: str, rule: str, proportion: float, mu: float
) -> None:
    made = config(name)
    assert (made.method.name, weighting(made)) == (sampler, rule)
    assert made.training.mu == mu
    assert cohort_limit(made.training, 30) == cohort_limit(Training(proportion=proportion), 30)


@pytest.mark.parametrize("preset", PRESETS.values(), ids=list(PRESETS))
def test_the_configuration_of_a_preset_is_that_of_its_settings_by_hand(preset: Preset) -> None:
    parts: dict[str, object] = {"training": dict(preset.training)}
    if preset.aggregation:
        parts["aggregation"] = dict(preset.aggregation)
    by_hand = config(dict(preset.method), **parts)
    identities = [
        identity_of(made, data_fingerprint="0" * 16, limit=cohort_limit(made.training, 30))
        for made in (config(preset.name), by_hand)
    ]
    assert identities[0] == identities[1]


@pytest.mark.parametrize("preset", PRESETS.values(), ids=list(PRESETS))
def test_a_preset_with_the_name_of_a_sampler_sets_nothing(preset: Preset) -> None:
    assert preset.sampler in variant_names("method")
    assert (preset.name in variant_names("method")) == preset.is_sampler
    assert (preset.name in RESERVED) == (not preset.is_sampler)
    if preset.is_sampler:
        assert preset.method == {"name": preset.name}
        assert not preset.training and not preset.aggregation
        assert config(preset.name).label is None


@pytest.mark.parametrize("preset", PRESETS.values(), ids=list(PRESETS))
def test_needs_follow_from_the_parts(preset: Preset) -> None:
    made = config(preset.name).method
    assert isinstance(made, Sampler)
    reports = set(made.wanted_reports) if isinstance(made, AsksReports) else set()
    told = isinstance(made, AsksLosses) or bool(reports & {"mean_loss", "rms_loss"})
    assert ("losses" in preset.needs) == told
    assert (preset.cost.server_traffic == "(a + m) P + a") == isinstance(made, AsksLosses)
    assert ("rates" in preset.needs) == as_weighting(made.weighting).reads_rates
    learns = isinstance(made, LearnsFromModels) and bool(made.wish("start") or made.wish("round"))
    assert ("updates" in preset.needs) == learns
    assert preset.source and preset.differences


@pytest.mark.parametrize("preset", PRESETS.values(), ids=list(PRESETS))
def test_a_preset_runs(toy_federation: Federation, preset: Preset) -> None:
    results = fedgs.compare(
        toy_federation, methods=[preset.name], availability="LDF", training={"rounds": 3}
    )
    assert [run.label for run in results.runs] == [preset.name]
    assert results.runs[0].failure is None
    assert results.runs[0].records[-1].round == 3


def test_fedprox_has_no_label_so_that_its_records_stay_as_they_are() -> None:
    assert config("fedprox").tables() == config("md", training={"mu": 0.01}).tables()


def test_settings_beside_a_preset_override_its_settings() -> None:
    made = config("fedau", training={"proportion": 0.5})
    assert made.training.proportion == 0.5 and weighting(made) == "fedau" and made.label == "fedau"
    limited = config("fedau", training={"cohort_limit": 4})
    assert cohort_limit(limited.training, 30) == 4
    of_object = config("fedau", training=Training(cohort_limit=4, rounds=7))
    assert cohort_limit(of_object.training, 30) == 4 and of_object.training.rounds == 7
    assert config("fedprox", training=Training(mu=0.5)).training.mu == 0.5


def test_a_part_of_a_preset_can_be_refined() -> None:
    for method in (
        {"name": "fedau", "weighting": {"cutoff": 7}},
        {"name": "fedau", "weighting": {"name": "fedau", "cutoff": 7}},
    ):
        made = config(method)
        assert isinstance(made.method, Sampler)
        assert as_weighting(made.method.weighting) == FedAU(cutoff=7)
        assert made.label == "fedau" and made.training.proportion == 1.0
    (late,) = expand({**BASE, "method": "fedau"}, [("method.weighting.cutoff", 7)]).configs
    assert isinstance(late.method, Sampler)
    assert as_weighting(late.method.weighting) == FedAU(cutoff=7)
    refined = config({"name": "inverse_participation", "alpha": 3.0})
    assert refined.method.model_dump()["alpha"] == 3.0


def test_a_preset_with_another_part_does_not_lend_its_name() -> None:
    other = config({"name": "fedau", "weighting": "equal"})
    assert weighting(other) == "equal" and other.label is None
    by_object = config({"name": "fedau", "weighting": FedAU(cutoff=3)})
    assert by_object.label == "fedau"


def test_a_label_of_the_user_stays() -> None:
    assert config("fedau", label="mine").label == "mine"
    results = prepare_study(
        [config("fedau", label="mine", data={"name": "synthetic", "clients": 6})]
    )
    assert results.labels == ["mine"]


def test_tables_name_the_presets_and_their_differing_settings() -> None:
    small = {"name": "synthetic", "clients": 6}
    methods: list[object] = ["fedau", "fedavg_all", "fedprox", "md"]
    methods.append({"name": "fedau", "weighting": {"cutoff": 7}})
    study = prepare_study([config(method, data=small) for method in methods])
    assert study.labels == [
        "fedau", "fedavg_all", "fedprox", "md",
        "fedau cutoff=7",
    ]  # fmt: skip


def test_one_run_by_two_names_is_refused_with_both() -> None:
    small = {"name": "synthetic", "clients": 6}
    study = prepare_study([config(name, data=small) for name in ("fedavg", "uniform")])
    with pytest.raises(ConfigError, match="labelled 'fedavg' and 'uniform' are the same run"):
        study.run()


def test_the_resolved_configuration_says_what_the_preset_gave() -> None:
    grid = expand({**BASE, "method": "fedau", "training": {"rounds": 5}})
    lines = resolved_toml(grid, full=False).splitlines()
    for line in (
        'label = "fedau"  # preset of the method',
        'weighting = "fedau"  # preset of the method',
        "proportion = 1.0  # preset of the method",
        "rounds = 5  # file",
    ):
        assert line in lines
    refined = expand({**BASE, "method": "fedau"}, [("method.weighting.cutoff", 7)])
    lines = resolved_toml(refined, full=False).splitlines()
    assert 'weighting.name = "fedau"  # preset of the method' in lines
    assert "weighting.cutoff = 7  # --set" in lines
    overridden = expand({**BASE, "method": "fedau"}, [("training.cohort_limit", 4)])
    assert "proportion" not in resolved_toml(overridden, full=False)


@pytest.mark.parametrize(
    "methods", [["fedau"], ["fedau", "fedavg_all"], ["md", "known_rates", "fedprox", "fedavg"]]
)
@pytest.mark.parametrize("full", [True, False])
def test_a_printed_grid_of_presets_asks_for_the_same_runs(methods: list[str], full: bool) -> None:
    grid = expand({**BASE, "grid": {"method": methods}})
    again = expand(tomllib.loads(resolved_toml(grid, full=full)))
    assert [one.tables() for one in again.configs] == [one.tables() for one in grid.configs]


def test_a_mistyped_method_is_told_the_presets() -> None:
    with pytest.raises(ConfigError, match=r"names that `fedgs methods` lists; .* mean 'fedprox'"):
        config("fedprx")
    with pytest.raises(ConfigError, match=r"must be one of .*; got 3"):
        build("method", {"name": 3})
    with pytest.raises(ConfigError, match="'fedau' is a preset, which sets several parts"):
        build("method", "fedau")


def test_the_name_of_a_preset_is_no_name_for_a_sampler() -> None:
    assert preset_names("method") == RESERVED and preset_names("data") == ()
    for name in RESERVED:
        with pytest.raises(ConfigError, match=f"{name!r} is the name of a preset"):
            register("method", name)


def test_the_aggregation_of_a_preset_can_be_refined_and_replaced() -> None:
    plain = config("mifa").tables()["aggregation"]
    assert (plain["name"], plain["unit"], plain["beta"]) == ("stale", "gradient", 1.0)
    refined = config("mifa", aggregation={"beta": 0.5})
    assert refined.tables()["aggregation"] == {**plain, "beta": 0.5} and refined.label == "mifa"
    replaced = config("mifa", aggregation="mean")
    assert "aggregation" not in replaced.tables() and replaced.label is None
    (late,) = expand({**BASE, "method": "mifa"}, [("aggregation.beta", 0.5)]).configs
    assert late.tables()["aggregation"]["unit"] == "gradient"
    lines = resolved_toml(expand({**BASE, "method": "mifa"}), full=False).splitlines()
    assert 'unit = "gradient"  # preset of the method' in lines


def test_an_aggregation_by_name_refines_the_presets_own_as_a_table_does() -> None:
    by_name, by_table = (config("mifa", aggregation=one) for one in ("stale", {"name": "stale"}))
    assert by_name == by_table == config("mifa")
    assert PRESETS["mifa"].settings({"method": "mifa", "aggregation": "stale"}) == PRESETS[
        "mifa"
    ].settings({"method": "mifa", "aggregation": {"name": "stale"}})


@pytest.mark.parametrize("aggregation", ["stale", {"name": "scaffold"}, Stale()])
def test_a_preset_with_an_aggregation_that_it_does_not_have_loses_its_label(
    aggregation: Any,
) -> None:
    for name in ("fedau", "fedavg"):
        assert config(name, aggregation=aggregation).label is None
        assert config(name, aggregation="mean").label == name
        assert config(name, aggregation={"server": {"rate": 0.5}}).label == name
    assert PRESETS["fedau"].settings({"method": "fedau", "aggregation": "stale"}) == [
        "method.weighting",
        "training.proportion",
    ]


def test_settings_without_a_name_refine_the_default_part() -> None:
    for name, aggregation in (("fedau", "mean"), ("mifa", "stale"), ("fedawe", "gossip")):
        (late,) = expand({**BASE, "method": name}, [("aggregation.server.rate", 0.5)]).configs
        assert late.label == name
        table = late.tables()["aggregation"]
        assert table["name"] == aggregation and table["server"] == {"name": "sgd", "rate": 0.5}
    rates = [("method", ["fedau", "mifa"]), ("aggregation.server.rate", [0.5, 1.0])]
    grid = expand({**BASE}, rates)
    assert len(grid.configs) == 4
    assert sum("aggregation" not in config.tables() for config in grid.configs) == 1  # the default
    (adam,) = expand({**BASE}, [("aggregation.server", {"name": "adam", "rate": 0.1})]).configs
    assert adam.tables()["aggregation"]["name"] == "mean"
    (f3ast,) = expand({**BASE, "method": "f3ast"}, [("method.weighting.normalise", True)]).configs
    assert f3ast.tables()["method"]["weighting"] == {
        "name": "f3ast",
        "normalise": True,
        "beta": 0.001,
    }


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("aggregation.server.beta", "aggregation.server.beta is not a setting; known are rate; it"),
        (
            "aggregation.beta",
            "aggregation.beta is not a setting; known are server; it is a setting",
        ),
        ("method.weighting.cutoff", "method.weighting.cutoff is not a setting; known are none"),
    ],
)
def test_a_setting_that_the_default_part_does_not_have_is_refused(key: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        expand({**BASE, "method": "uniform"}, [(key, 0.5)])


WITHOUT_AGGREGATION = [preset for preset in PRESETS.values() if not preset.aggregation]


@pytest.mark.parametrize("preset", WITHOUT_AGGREGATION, ids=lambda preset: preset.name)
def test_flower_refuses_the_methods_that_do_not_work_there(preset: Preset) -> None:
    flwr = pytest.importorskip("flwr.serverapp.strategy")
    flower = pytest.importorskip("fedgs.flower")
    with pytest.raises(ConfigError) if preset.flower != "yes" else contextlib.nullcontext():
        flower.SampledStrategy(flwr.FedAvg(fraction_train=0.5), sampler=dict(preset.method))
