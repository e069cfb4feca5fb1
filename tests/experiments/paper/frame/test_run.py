"""Requests are completed with defaults, and refused in one sentence."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from tests.experiments.paper.helpers import carry_out, request_of

from fedgs.errors import ConfigError, MissingExtraError
from fedgs.experiments.paper.frame.conditions import Mode, Source
from fedgs.experiments.paper.frame.request import ExperimentRequest, Options
from fedgs.experiments.paper.frame.run import checked, requested


def test_options_that_do_not_belong_to_the_experiment_are_refused() -> None:
    cases = [
        (
            ExperimentRequest("gamma"),
            ["modes"],
            "--modes means nothing for gamma; it takes --data, --seeds, --set",
        ),
        (ExperimentRequest("theorem1"), ["seeds"], "must be one seed for theorem1"),
        (
            ExperimentRequest("table2", scale="big"),
            [],
            "--scale must be cohort or paper; got 'big'",
        ),
    ]
    for request, given, message in cases:
        with pytest.raises(ConfigError, match=message):
            checked(request, given)


def test_the_options_of_a_command_line_are_checked_without_it(toy_file: Path) -> None:
    options = Options(
        data=[str(toy_file)], modes=["idl,ldf0.3"], rounds=7, seeds="4,", set=["training.mu=0.1"]
    )
    request = requested("table2", options)
    assert request == ExperimentRequest(
        "table2",
        (Source("toy", str(toy_file)),),
        (Mode("IDL"), Mode("LDF", 0.3)),
        rounds=7,
        seeds=(4,),
        overrides=(("training.mu", 0.1),),
    )
    assert requested("gamma", Options()).seeds == (0,)
    assert requested("table2", Options()).data == (Source("synthetic"),)
    with pytest.raises(
        ConfigError, match="--workers means nothing for gamma; it takes --data, --seeds, --set"
    ):
        requested("gamma", Options(workers=2))
    with pytest.raises(ConfigError, match="--seeds must be one seed for gamma"):
        requested("gamma", Options(seeds="3"))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("table2", {"methods": ("nobody",)}, "--methods must be of uniform, .*; got 'nobody'"),
        ("table2", {"overrides": (("method", "md"),)}, "--set method would change what table2"),
        ("table2", {"overrides": (("method.alhpa", 1),)}, "method.alhpa is not a setting"),
        ("table2", {"overrides": (("seed", [0, 1]),)}, "--set seed"),
        ("table2", {"overrides": (("training.mu", [0, 1]),)}, "must be one value"),
        ("gamma", {"overrides": (("training.mu", 1),)}, "means nothing for gamma"),
        ("table4", {"modes": (Mode("LDF", 3.0),)}, "availability.beta must be in"),
    ],
)
def test_a_bad_request_is_one_sentence_and_nothing_is_written(
    name: str, options: dict[str, Any], message: str, toy_file: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        carry_out(request_of(name, toy_file, **options), tmp_path)
    assert "\n" not in str(caught.value) and list(tmp_path.iterdir()) == []


def test_figures_need_matplotlib_before_anything_is_computed(
    monkeypatch: pytest.MonkeyPatch, toy_file: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="matplotlib"):
        carry_out(request_of("fig7", toy_file), tmp_path / "out")
    assert not (tmp_path / "out").exists()
