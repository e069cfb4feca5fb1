"""`compare`: what can be passed from Python, and what is refused before anything is written."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

import fedgs
from fedgs.aggregation import Aggregation, Mean, Rows
from fedgs.data import Federation
from fedgs.errors import ConfigError
from fedgs.experiments.compare import compare
from fedgs.experiments.study import Results
from fedgs.weighting import Weighting


def study(federation: Federation, out: Path | None = None, **settings: Any) -> Results:
    values: dict[str, Any] = {
        "methods": {"uniform": fedgs.Uniform(), "FedGS": fedgs.FedGS()},
        "availability": fedgs.LessDataFirst(),
        "training": {"rounds": 6, "proportion": 0.4, "local_steps": 2, "batch_size": 4},
        "seeds": (0, 1),
        "execution": {"engine": "loop"},
    }
    return compare(federation, out=out, **{**values, **settings})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"training": {"cohort_limit": 7}},
            "training.cohort_limit must be at most 6, the number of clients; got 7",
        ),
        ({"availability": {"name": "LN", "beta": 1.0}}, "availability.beta"),
        ({"methods": {}}, "at least one method"),
        ({"methods": ["nobody"]}, "method.name must be one of"),
        ({"model": "cifar_cnn"}, "cifar_cnn"),
        (
            {"methods": [{"name": "fedgs", "graph": {"similarity": "update", "path": "x.npz"}}]},
            "method.graph",
        ),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_written(
    toy_federation: Federation, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        study(toy_federation, tmp_path / "out", **settings)
    assert list(tmp_path.iterdir()) == []


def test_weightings_and_aggregations_of_ones_own_can_be_handed_over(
    toy_federation: Federation,
) -> None:
    class Constant(Weighting):
        value: float = 1.0

        @property
        def is_normalised(self) -> bool:
            return False

        def weights(self, view: Any, selection: Any, memory: Any) -> Any:
            return np.full(len(selection.clients), self.value)

    class Still(Aggregation):
        def folds(self, round: Any) -> Any:
            return (Rows(),)

        def step(self, round: Any, results: Any) -> Any:
            return round.parameters, round.vectors

    methods = {
        "none": fedgs.Uniform(weighting=Constant(value=0.0)),
        "small": fedgs.Uniform(weighting=Constant(value=0.1)),
    }
    runs = study(toy_federation, methods=methods, seeds=[0]).runs
    losses = [{record.test_loss for record in run.records} - {None} for run in runs]
    assert len(losses[0]) == 1 and len(losses[1]) > 1
    for still in (Still, Still(), {"name": "mean", "server": {"name": "sgd", "rate": 1e-30}}):
        (run,) = study(toy_federation, methods=["md"], seeds=[0], aggregation=still).runs
        assert {record.test_loss for record in run.records} - {None} == losses[0]


def test_an_aggregation_that_is_handed_over_replaces_that_of_a_preset(
    toy_federation: Federation,
) -> None:
    results = study(toy_federation, methods=["mifa", "fedavg"], aggregation=Mean())
    assert [run.config.get("aggregation") for run in results.runs] == [None] * 4
    plain = study(toy_federation, methods=["mifa"])
    assert plain.runs[0].config["aggregation"]["name"] == "stale"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("men", "aggregation.name must be one of .*; did you mean 'mean'"),
        (3, "aggregation must be a name, a table with `name` or a variant object; got 3"),
        (fedgs.Uniform(), "aggregation must be .* a variant object of aggregation; got Uniform"),
    ],
)
def test_what_is_no_aggregation_is_one_sentence(
    value: Any, message: str, toy_federation: Federation
) -> None:
    with pytest.raises(ConfigError, match=message):
        study(toy_federation, aggregation=value)


def test_models_and_samplers_of_ones_own_can_be_handed_over(toy_federation: Federation) -> None:
    @fedgs.sampler("compare-test-first")
    def first(view: fedgs.View, rng: np.random.Generator) -> fedgs.Selection:
        return fedgs.Selection(view.available[: view.cohort_limit])

    def net() -> nn.Module:
        return nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))

    results = study(toy_federation, methods={"first": first}, model=net, seeds=(0,))
    (run,) = results.runs
    assert run.finished and run.label == "first"
    assert all(
        record.cohort == list(record.available)[:2]
        for record in run.records[:-1]
        if record.available is not None
    )


def test_fedprox_can_be_named(toy_federation: Federation) -> None:
    results = study(toy_federation, methods=["md", "fedprox"], seeds=(0,))
    assert [run.label for run in results.runs] == ["md", "fedprox"]
    assert [run.table("training")["mu"] for run in results.runs] == [0.0, 0.01]


def test_seeds_must_be_a_collection(toy_federation: Federation) -> None:
    with pytest.raises(
        ConfigError, match=r"seeds must be a collection of integers, such as range\(3\); got 3"
    ):
        study(toy_federation, seeds=3)
