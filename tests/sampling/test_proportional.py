"""Sampling in proportion to the data sizes."""

import numpy as np
import pytest

from fedgs import Clients, View
from fedgs.rng import stream
from fedgs.sampling import MD


def view_of(sizes: list[int], *, limit: int, available: list[int] | None = None) -> View:
    clients = Clients(tuple(range(len(sizes))), np.array(sizes))
    present = np.arange(len(sizes)) if available is None else np.array(available)
    return View(0, clients, present, np.zeros(len(sizes), dtype=np.int64), cohort_limit=limit)


def test_the_average_is_unbiased_over_1e5_draws() -> None:
    # Sizes (1, 3), parameters (0, 4): the data-size average is 3. Weights are draws/M.
    view, parameters, times, limit = view_of([1, 3], limit=25), np.array([0.0, 4.0]), 4_000, 25
    total = 0.0
    for t in range(times):
        selection = MD().select(view, stream(0, "select", t))
        assert selection.draws is not None
        total += float(selection.draws / limit @ parameters[selection.clients])
    # A draw has sd 4·sqrt(3/16) = 1.732; over 1e5 draws the mean has .0055; six of them: odds 2e-9.
    assert total / times == pytest.approx(3.0, abs=0.033)


def test_draws_are_binomial() -> None:
    view, times = view_of([1, 3], limit=2), 4000
    drawn = np.zeros(3)
    for t in range(times):
        selection = MD().select(view, stream(1, "select", t))
        assert selection.draws is not None
        drawn[int(selection.draws[selection.clients == 1].sum())] += 1
    # 0, 1, 2 of two draws with probability 3/4: 1/16, 6/16, 9/16; standard error at most .0079; six
    # of them: odds 1e-8.
    np.testing.assert_allclose(drawn / times, [1 / 16, 6 / 16, 9 / 16], atol=0.048)


def test_always_m_draws_also_when_fewer_are_available() -> None:
    view = view_of([1, 5, 2, 8], limit=7, available=[1, 3])
    for t in range(50):
        selection = MD().select(view, stream(0, "select", t))
        assert selection.draws is not None
        assert selection.draws.sum() == 7
        assert set(selection.clients.tolist()) <= {1, 3}
        assert np.all(selection.draws >= 1)


def test_huge_sizes_do_not_overflow() -> None:
    selection = MD().select(
        view_of([2**62, 2**62, 2**62, 2**62], limit=1000), stream(0, "select", 0)
    )
    assert selection.draws is not None
    # 1000 draws over four equal clients: 250, standard error 13.7; six of them: odds 1e-8.
    np.testing.assert_allclose(selection.draws, 250, atol=83)


def test_weights_are_draws_by_default() -> None:
    assert MD().weighting == "draws"
