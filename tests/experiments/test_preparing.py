"""What a prepared run's identity depends on, and what is checked before it begins."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from tests.conftest import make_federation

import fedgs
from fedgs.arrays import FloatMatrix
from fedgs.clients import Clients, Memory
from fedgs.data import Federation
from fedgs.experiments.grid import build_config
from fedgs.experiments.preparing import prepare
from fedgs.sampling import Wish


class Fixed(fedgs.Data):
    """Data that do not depend on their seed."""

    seed: int = 0

    def load(self, data_dir: Path | None = None) -> Federation:
        return make_federation()


class Learning(fedgs.Uniform):
    """Asks for features of local models."""

    kind: Literal["update", "functional"]
    when: Literal["start", "round"]

    def wish(self, when: Literal["start", "round"]) -> Wish | None:
        return Wish(self.kind) if when == self.when else None

    def start_from(self, clients: Clients, features: FloatMatrix) -> Memory:
        return {"features": features}


def fingerprints(method: Any) -> list[str]:
    settings = {"availability": "IDL", "training": {"rounds": 2, "local_steps": 1}}
    configs = [build_config({"data": Fixed(seed=s), "method": method, **settings}) for s in (0, 1)]
    return [run.fingerprint for run in prepare(configs)]


@pytest.mark.parametrize("when", ["start", "round"])
def test_the_datas_seed_tells_runs_apart_where_the_sampler_asks_for_features_on_noise(
    when: Literal["start", "round"],
) -> None:
    first, second = fingerprints(Learning(kind="functional", when=when))
    assert first != second
    first, second = fingerprints(fedgs.FedGS(graph=fedgs.Graph(similarity="functional")))
    assert first != second


@pytest.mark.parametrize(
    "method", [Learning(kind="update", when="start"), fedgs.FedGS(), fedgs.Uniform()], ids=repr
)
def test_the_datas_seed_tells_no_other_runs_apart(method: fedgs.Sampler) -> None:
    first, second = fingerprints(method)
    assert first == second


def test_a_wish_that_raises_is_an_error_of_the_method() -> None:
    class Raising(Learning):
        def wish(self, when: Literal["start", "round"]) -> Wish | None:
            raise ZeroDivisionError("my wish")

    with pytest.raises(
        fedgs.errors.UserError, match="wish of method 'uniform' raised ZeroDivisionError: my wish"
    ):
        fingerprints(Raising(kind="update", when="start"))


def test_runs_with_the_same_data_share_one_federation() -> None:
    settings = {"data": "synthetic", "availability": "IDL", "training": {"rounds": 1}}
    first, second = prepare([build_config({"method": m, **settings}) for m in ("md", "uniform")])
    assert first.plan.federation is second.plan.federation
    assert np.array_equal(first.plan.federation.train.y, second.plan.federation.train.y)
