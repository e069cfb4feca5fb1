"""cpow-d and rpow-d: losses on mini-batches, and losses that came with the last update."""

from typing import Any

import numpy as np
import pytest

from fedgs import Clients, View
from fedgs.clients import Outcome
from fedgs.errors import ConfigError, SelectionError
from fedgs.registry import build, table
from fedgs.rng import stream
from fedgs.sampling import (
    AsksBatchLosses,
    AsksLosses,
    AsksReports,
    CPowD,
    PowerOfChoice,
    Remembers,
    RPowD,
)


def view_of(
    losses: list[float],
    *,
    limit: int,
    sizes: list[int] | None = None,
    available: list[int] | None = None,
) -> View:
    """What rpow-d sees: losses in its memory."""
    count = len(losses)
    return View(
        round=2,
        clients=Clients(tuple(range(count)), np.array(sizes or [1] * count)),
        available=np.arange(count) if available is None else np.array(available),
        counts=np.zeros(count, dtype=np.int64),
        cohort_limit=limit,
        memory={"losses": np.array(losses)},
    )


def cohort(sampler: RPowD, view: View, seed: int = 0) -> list[int]:
    return sampler.select(view, stream(seed, "select", view.round)).clients.tolist()


# rpow-d.


@pytest.mark.parametrize("candidates", [None, 5, 9])
@pytest.mark.parametrize("limit", [1, 2, 4, 5])
def test_with_all_available_as_candidates_the_highest_losses_are_selected(
    candidates: int | None, limit: int
) -> None:
    rng = np.random.default_rng(0)
    for seed in range(20):
        losses = rng.random(8)
        available = np.sort(rng.choice(8, size=5, replace=False))
        view = view_of(losses.tolist(), limit=limit, available=available.tolist())
        expected = sorted(available[np.argsort(losses[available])[5 - limit :]].tolist())
        assert cohort(RPowD(candidates=candidates), view, seed) == expected


def test_clients_never_selected_come_first_and_reports_of_nan_last() -> None:
    losses = [-0.4, np.inf, 7.0, np.nan, np.inf]
    assert cohort(RPowD(), view_of(losses, limit=2)) == [1, 4]
    assert cohort(RPowD(), view_of(losses, limit=3)) == [1, 2, 4]
    assert cohort(RPowD(), view_of(losses, limit=4)) == [0, 1, 2, 4]


def test_ties_among_clients_never_selected_are_random() -> None:
    cohorts = {tuple(cohort(RPowD(), view_of([np.inf] * 4, limit=1), seed)) for seed in range(60)}
    assert cohorts == {(0,), (1,), (2,), (3,)}  # (3/4)^60 each: odds 1e-7


def test_candidates_are_drawn_in_proportion_to_the_data_sizes() -> None:
    # M = d = 1: the candidate is the cohort, whatever its loss is.
    view = view_of([np.inf, 0.0, 5.0], limit=1, sizes=[1, 2, 5])
    chosen = [cohort(RPowD(candidates=1), view, seed)[0] for seed in range(4000)]
    # Standard error at most .0079; six of them: odds 1e-8.
    np.testing.assert_allclose(
        np.bincount(chosen, minlength=3) / 4000, np.array([1, 2, 5]) / 8, atol=0.048
    )


def test_the_highest_of_the_drawn_candidates_are_selected() -> None:
    # d = 3 of 4 alike: client 3 is a candidate with probability 3/4, then selected; else it is 2.
    view = view_of([0.1, 0.2, 0.3, 0.4], limit=1)
    chosen = [cohort(RPowD(candidates=3), view, seed)[0] for seed in range(2000)]
    assert set(chosen) == {2, 3}
    # Standard error .0097; six of them.
    assert chosen.count(3) / 2000 == pytest.approx(3 / 4, abs=0.058)


def test_the_memory_holds_the_last_reported_loss_of_every_client() -> None:
    sampler, clients = RPowD(), Clients((0, 1, 2), np.ones(3, dtype=np.int64))
    memory = sampler.start(clients)
    assert memory["losses"].tolist() == [np.inf] * 3
    for t, (rows, losses) in enumerate([([0, 1], [0.5, 2.0]), ([1], [0.25])]):
        view = View(t, clients, np.arange(3), np.zeros(3, dtype=np.int64), 2, memory=memory)
        reports = {"mean_loss": np.array(losses)}
        memory = sampler.observe(memory, view, Outcome(np.array(rows), np.ones(1), reports=reports))
    assert memory["losses"].tolist() == [0.5, 0.25, np.inf]


def test_rpow_d_asks_for_reports_and_for_no_losses() -> None:
    sampler = RPowD()
    assert isinstance(sampler, AsksReports) and sampler.wanted_reports == ("mean_loss",)
    assert isinstance(sampler, Remembers) and not isinstance(sampler, AsksLosses)


def test_rpow_d_without_memory_or_reports_is_refused() -> None:
    sampler, clients = RPowD(), Clients((0, 1), np.ones(2, dtype=np.int64))
    view = View(0, clients, np.arange(2), np.zeros(2, dtype=np.int64), 1)
    with pytest.raises(SelectionError, match=r"^'rpow_d' needs its memory in view.memory"):
        sampler.select(view, stream(0, "select", 0))
    with pytest.raises(SelectionError, match=r"^'rpow_d' needs the mean losses of local training"):
        sampler.observe(sampler.start(clients), view, Outcome(np.array([1]), np.ones(1)))


# cpow-d.


def test_cpow_d_selects_as_power_of_choice_does_from_equal_losses() -> None:
    losses = np.array([0.3, np.nan, 0.9, 0.9, np.inf, 0.9])
    clients = Clients(tuple(range(6)), np.arange(1, 7))
    for t in range(40):
        view = View(t, clients, np.arange(6), np.zeros(6, dtype=np.int64), 2)
        asked = [
            sampler.loss_candidates(view, stream(0, "candidates", t)).tolist()
            for sampler in (CPowD(candidates=3), PowerOfChoice(candidates=3))
        ]
        assert asked[0] == asked[1]
        view = View(t, clients, np.arange(6), np.zeros(6, dtype=np.int64), 2, losses=losses)
        chosen = [
            sampler.select(view, stream(0, "select", t)).clients.tolist()
            for sampler in (CPowD(), PowerOfChoice())
        ]
        assert chosen[0] == chosen[1]


def test_cpow_d_asks_for_losses_on_a_mini_batch_and_power_of_choice_on_all_examples() -> None:
    assert isinstance(CPowD(), AsksBatchLosses) and CPowD(loss_batch=3).loss_batch == 3
    assert isinstance(PowerOfChoice(), AsksLosses)
    assert not isinstance(PowerOfChoice(), AsksBatchLosses)
    assert table(build("method", "cpow_d")) == {
        "name": "cpow_d", "weighting": "equal", "loss_on": "train", "loss_batch": 10,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"name": "cpow_d", "loss_batch": 0},
            r"method\.loss_batch should be greater than or equal to 1, got 0",
        ),
        ({"name": "cpow_d", "loss_batch": 2.5}, r"method\.loss_batch should be .*integer"),
        ({"name": "rpow_d", "candidates": 0}, r"method\.candidates should be greater than"),
        ({"name": "rpow_d", "loss_on": "train"}, r"method\.loss_on is not a setting"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build("method", settings)


@pytest.mark.parametrize("name", ["cpow_d", "rpow_d"])
def test_fewer_candidates_than_the_cohort_limit_are_refused(name: str) -> None:
    sampler: Any = build("method", {"name": name, "candidates": 3})
    clients = Clients((0, 1, 2, 3), np.ones(4, dtype=np.int64))
    sampler.check(clients, 3)
    message = rf"^method\.candidates must be at least 4, the cohort limit, for '{name}', got 3$"
    with pytest.raises(ConfigError, match=message):
        sampler.check(clients, 4)
