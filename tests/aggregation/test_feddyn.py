"""FedDyn: its vectors, its place of rest, and the quadratic term that it needs."""

import numpy as np
import pytest
import torch
from tests.aggregation.test_contract import Followed, cohorts
from tests.driving import RecordedRun, make_plan

import fedgs
from fedgs.aggregation import Aggregation, ClientTable, FedDyn, Mean, Round
from fedgs.availability import Ideal
from fedgs.data import Federation
from fedgs.driver import drive
from fedgs.errors import ConfigError
from fedgs.local import StackedEngine
from fedgs.models import LogisticRegression
from fedgs.requests import Work


def test_h_is_the_weighted_mean_of_the_clients() -> None:
    followed = Followed(FedDyn())
    for members in cohorts():
        followed.step(members)
        h, table = followed.vectors["dynamic"], followed.vectors["dynamics"]
        assert isinstance(h, torch.Tensor) and isinstance(table, ClientTable)
        shares = followed.clients.shares("data_size")
        rows = [table.row(client) for client in range(len(followed.clients))]
        expected = sum(
            (p * row.double() for p, row in zip(shares, rows, strict=True) if row is not None),
            torch.zeros_like(h),
        )
        torch.testing.assert_close(h, expected, rtol=1e-12, atol=1e-12)
    assert h.abs().max() > 1e-3


def test_one_round_by_hand() -> None:
    # Client 1 of 2, alone: theta = 1, local model 3, p = 1/4, w = 1, alpha = 1/2.
    clients = fedgs.Clients(("a", "b"), np.array([3, 1]))
    feddyn, theta = FedDyn(alpha=0.5), torch.tensor([1.0])
    vectors = feddyn.start(theta, clients)
    shares = clients.shares("data_size")
    round = Round(0, clients, np.array([1]), np.ones(1), True, shares, theta, vectors, 0.1, 1)
    theta, vectors = feddyn.step(round, (torch.tensor([[3.0]]),))
    # h_b = -1/2 · 2 = -1, h = -1/4, and theta = 3 + (1/4) / (1/2).
    assert theta.tolist() == [3.5]
    assert vectors["dynamic"].tolist() == [-0.25]  # type: ignore[union-attr]
    round = Round(1, clients, np.array([1]), np.ones(1), True, shares, theta, vectors, 0.1, 1)
    offsets = feddyn.corrections(round).offsets
    assert offsets is not None and offsets.tolist() == [[1.0]]  # -h_b


def proximal(federation: Federation, mu: float) -> Work:
    return Work(federation, LogisticRegression(), mu, 20, 100)


@pytest.mark.long
def test_it_ends_nearer_to_the_minimum_than_fedprox(toy_federation: Federation) -> None:
    """All clients, full batches: after 20 local steps FedProx's clients drift, FedDyn's agree."""

    def final(aggregation: Aggregation, work: Work, rounds: int) -> torch.Tensor:
        settings = {"rounds": rounds, "cohort_limit": 6, "availability": Ideal(seed=0)}
        plan = make_plan(toy_federation, work=work, aggregation=aggregation, decay=1.0, **settings)
        run = RecordedRun(plan)
        drive([run.live], StackedEngine())
        assert run.final is not None
        return run.final.parameters

    many = Work(toy_federation, LogisticRegression(), 0.5, 20, 100)
    one = Work(toy_federation, LogisticRegression(), 0.0, 1, 100)
    minimum = final(Mean(), one, 3000)
    ours, fedprox = (final(one, many, 100) for one in (FedDyn(alpha=0.5), Mean()))
    assert (ours - minimum).norm() < 0.5 * (fedprox - minimum).norm()


def test_another_quadratic_term_is_refused(toy_federation: Federation) -> None:
    message = r"^aggregation 'feddyn' needs training.mu = 0.1, .* term; got 0.5$"
    with pytest.raises(ConfigError, match=message):
        make_plan(toy_federation, work=proximal(toy_federation, 0.5), aggregation=FedDyn())
    make_plan(toy_federation, work=proximal(toy_federation, 0.1), aggregation=FedDyn())
