"""`compare`: what can be passed from Python, and what is refused before anything is written."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

import fedgs
from fedgs.data import Federation
from fedgs.errors import ConfigError
from fedgs.experiments.compare import compare
from fedgs.experiments.study import Results


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
