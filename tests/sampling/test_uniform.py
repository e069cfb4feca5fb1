"""Uniform sampling."""

from itertools import combinations

import numpy as np
import pytest

import fedgs
from fedgs import Clients, View
from fedgs.rng import stream
from fedgs.sampling import Uniform


def view_of(count: int, *, limit: int, available: list[int] | None = None) -> View:
    clients = Clients(tuple(range(count)), np.arange(1, count + 1))
    present = np.arange(count) if available is None else np.array(available)
    return View(0, clients, present, np.zeros(count, dtype=np.int64), cohort_limit=limit)


def test_every_set_of_m_is_equally_likely() -> None:
    view = view_of(6, limit=2, available=[0, 2, 3, 5])
    times = 3000
    cohorts = [
        tuple(Uniform().select(view, stream(0, "select", t)).clients.tolist()) for t in range(times)
    ]
    # Six pairs of probability 1/6: standard error .0068; six of them: odds 1e-8.
    for pair in combinations([0, 2, 3, 5], 2):
        assert cohorts.count(pair) / times == pytest.approx(1 / 6, abs=0.041)


def test_fifty_rounds_reach_more_than_95_percent_of_100_clients() -> None:
    view = view_of(100, limit=10)
    reached = {
        k
        for t in range(50)
        for k in Uniform().select(view, stream(0, "select", t)).clients.tolist()
    }
    # Expected misses 100·.9^50 = .5; six or more have odds of about 1e-5.
    assert len(reached) > 95


def test_a_larger_limit_than_available_selects_all_that_are_there() -> None:
    assert Uniform().select(
        view_of(6, limit=4, available=[1, 5]), stream(0, "select", 0)
    ).clients.tolist() == [1, 5]


def test_weights_are_data_sizes_by_default() -> None:
    assert Uniform().weighting == "data_size"
    assert Uniform(weighting="inverse_participation").weighting == "inverse_participation"


def test_an_unknown_weighting_is_refused() -> None:
    with pytest.raises(
        fedgs.errors.ConfigError,
        match=r"^method\.weighting must be one of data_size, draws, equal.*got 'size'",
    ):
        Uniform(weighting="size")
