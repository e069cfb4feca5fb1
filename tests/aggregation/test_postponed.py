"""FedPBC: clients outside of the cohort go on from their own models."""

from typing import Any

import pytest
import torch
from tests.aggregation.test_contract import Followed
from tests.driving import RecordedRun, make_plan
from tests.parts import Absences

import fedgs
from fedgs.aggregation import Mean, Postponed
from fedgs.availability import Ideal
from fedgs.data import Federation
from fedgs.driver import drive
from fedgs.errors import ConfigError
from fedgs.local import LoopEngine
from fedgs.models import LogisticRegression
from fedgs.registry import build
from fedgs.requests import Train, Work
from fedgs.sampling import Sampler

EQUAL = fedgs.Uniform(weighting="equal")


def test_all_clients_train_and_the_cohort_is_replaced_by_its_mean() -> None:
    followed = Followed(Postponed())
    own = followed.theta.repeat(7, 1).double()
    for members in ([1, 4], [], [0, 1, 6], [2]):
        rate = 0.1 * 0.9**followed.round
        own = own - rate * followed.curvatures.double() * (own - followed.centres.double())
        if members:
            mean = own[members].mean(0)
            own[members] = mean
        before = followed.theta.clone()
        theta = followed.step(members)
        expected = mean.float() if members else before
        torch.testing.assert_close(theta, expected, rtol=1e-6, atol=1e-6)
    held = followed.vectors["held"]
    rows = torch.stack([held.row(k) for k in range(7)])  # type: ignore[union-attr, misc]
    torch.testing.assert_close(rows.double(), own, rtol=1e-5, atol=1e-6)


def test_with_all_clients_it_is_fedavg(toy_federation: Federation) -> None:
    work = Work(toy_federation, LogisticRegression(), 0.0, 2, 4, objective="equal")
    runs = [
        RecordedRun(
            make_plan(
                toy_federation, EQUAL, work=work, aggregation=aggregation, cohort_limit=6,
                availability=Ideal(seed=0),
            )
        )
        for aggregation in (Postponed(), Mean())
    ]  # fmt: skip
    drive([run.live for run in runs], LoopEngine())
    ours, fedavg = (run.final for run in runs)
    assert ours is not None and fedavg is not None
    torch.testing.assert_close(ours.parameters, fedavg.parameters, rtol=1e-5, atol=1e-6)


class Watching(LoopEngine):
    """Keeps the rounds and clients of the training."""

    def __init__(self) -> None:
        super().__init__()
        self.trained: list[tuple[int, list[int]]] = []

    def answer(self, requests: Any) -> Any:
        for request in requests:
            if isinstance(request, Train):
                self.trained.append((request.key[1], request.clients.tolist()))
        return super().answer(requests)


def test_everybody_trains_in_empty_rounds_too(toy_federation: Federation) -> None:
    run = RecordedRun(
        make_plan(toy_federation, EQUAL, aggregation=Postponed(), availability=Absences(seed=0))
    )
    engine = Watching()
    drive([run.live], engine)
    assert run.records[4].num_available == 0
    assert engine.trained == [(round, [0, 1, 2, 3, 4, 5]) for round in range(6)]


def test_samplers_that_read_the_training_of_the_cohort_are_refused(
    toy_federation: Federation,
) -> None:
    for method in ("rpow_d", "active_fl", "clustered", "divfl"):
        sampler = build("method", {"name": method, "weighting": "equal"})
        assert isinstance(sampler, Sampler)
        with pytest.raises(ConfigError, match=f"'postponed' trains clients outside .* '{method}'"):
            make_plan(toy_federation, sampler, aggregation=Postponed())
