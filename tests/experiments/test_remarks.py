"""Settings of alpha that change no cohort are named before a study starts."""

import logging
from collections.abc import Mapping

import pytest

from fedgs.data import Federation
from fedgs.experiments.compare import _Given
from fedgs.experiments.grid import build_config
from fedgs.experiments.study import prepare_study

SENTENCE = (
    "in scale 'paper' every alpha between 0 and N/(M-1) = 6 has the same best cohorts, those of "
    "the smallest counts; set a larger alpha, or method.scale=cohort"
)


def remarks(
    federation: Federation,
    caplog: pytest.LogCaptureFixture,
    *methods: Mapping[str, object],
    limit: int = 2,
) -> list[str]:
    """What is logged about a study of FedGS with these settings; with M = 2, the bound is N = 6."""
    data = _Given(federation=federation)
    settings = {"availability": "IDL", "training": {"rounds": 1, "cohort_limit": limit}}
    configs = [
        build_config({"data": data, "method": {"name": "fedgs", **method}, **settings})
        for method in methods
    ]
    with caplog.at_level(logging.WARNING, logger="fedgs"):
        prepare_study(configs)
    return caplog.messages


@pytest.mark.parametrize(
    ("alphas", "given"),
    [((2.0,), "2"), ((0.01, 1.0, 5.9), "0.01, 1 and 5.9"), ((0.0, 0.5, 6.0), "0.5")],
)
def test_values_below_the_bound_are_named_together(
    alphas: tuple[float, ...],
    given: str,
    toy_federation: Federation,
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = remarks(toy_federation, caplog, *({"alpha": alpha} for alpha in alphas))
    assert said == [f"method.alpha = {given}: {SENTENCE}"]


@pytest.mark.parametrize(
    "method",
    [
        {},
        {"alpha": 1.0},  # the default
        {"alpha": 6.0},  # the bound itself, N/(M-1) = 6/1
        {"alpha": 0.0},
        {"alpha": 2.0, "scale": "cohort"},
        {"alpha": 2.0, "graph": {"normalize": False}},  # distances may exceed 1
    ],
)
def test_other_values_are_not_named(
    method: Mapping[str, object], toy_federation: Federation, caplog: pytest.LogCaptureFixture
) -> None:
    assert remarks(toy_federation, caplog, method) == []


def test_cohorts_of_one_client_have_no_pairs(
    toy_federation: Federation, caplog: pytest.LogCaptureFixture
) -> None:
    assert remarks(toy_federation, caplog, {"alpha": 70.0}, limit=1) == [
        "method.alpha = 70: alpha has no effect on cohorts of one client, which have no pairs"
    ]
