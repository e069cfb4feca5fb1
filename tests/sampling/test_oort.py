"""Oort: utilities by hand, shares of exploration, the cut-off, and both rules of the pacer."""

from typing import Any

import numpy as np
import pytest
from tests.conftest import make_federation
from tests.driving import make_plan

from fedgs.availability import Ideal
from fedgs.clients import Clients, Outcome, View
from fedgs.errors import ConfigError, SelectionError
from fedgs.registry import build
from fedgs.rng import stream
from fedgs.sampling.oort import Oort
from fedgs.system import SystemTime
from fedgs.system_settings import System

EXPLOITS = {"exploration": 0.0, "exploration_least": 0.0}


def view_of(
    sampler: Oort,
    losses: list[float],
    *,
    round: int = 0,
    limit: int = 2,
    counts: list[int] | None = None,
    sizes: list[int] | None = None,
    **fields: Any,
) -> View:
    count = len(losses)
    clients = Clients(tuple(range(count)), np.array(sizes or [1] * count))
    memory = {**sampler.start(clients), "losses": np.array(losses)}
    memory |= {key: np.array(fields.pop(key)) for key in ("last", "preferred") if key in fields}
    met = np.array([1] * count if counts is None else counts)
    return View(round, clients, np.arange(count), met, limit, memory=memory, **fields)


def test_utilities_are_losses_uncertainty_and_speed() -> None:
    sampler = Oort(clip=1.0, preferred=0.5, penalty=2.0)
    view = view_of(
        sampler,
        [0.5, 2.0, np.nan, 1.0],
        round=6,
        sizes=[2, 3, 5, 1],
        last=[0, 3, -1, 5],
        seconds=np.array([10.0, 20.0, np.nan, 40.0]),
    )
    # Gains 1, 6, their mean with 1 (8/3), and 1; T is the second of three durations.
    uncertain = [np.sqrt(0.1 * np.log(7) / (last + 1)) for last in (0, 3, 0, 5)]
    expected = [
        1 + uncertain[0],
        6 + uncertain[1],
        (8 / 3 + uncertain[2]) / 4,  # as slow as the slowest
        (1 + uncertain[3]) / 4,
    ]
    np.testing.assert_allclose(sampler.utilities(view), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "changes", [{"penalty": 0.0}, {"preferred": 1.0}, {}], ids=["alpha 0", "T inf", "no clock"]
)
def test_without_durations_the_factor_is_one(changes: dict[str, Any]) -> None:
    sampler = Oort(clip=1.0, **changes)
    seconds = np.array([1.0, 99.0]) if changes else None
    utilities = sampler.utilities(view_of(sampler, [0.5, 2.0], seconds=seconds))
    assert utilities.tolist() == [0.5, 2.0]


def test_utilities_above_the_percentile_are_clipped_and_infinite_ones_too() -> None:
    sampler = Oort(clip=0.5)
    utilities = sampler.utilities(view_of(sampler, [1.0, 2.0, 3.0, np.inf]))
    assert utilities.tolist() == [1.0, 2.0, 2.0, 2.0]


def cohorts(sampler: Oort, view: View, seeds: int = 400) -> list[list[int]]:
    return [
        sampler.select(view, stream(seed, "select", 0)).clients.tolist() for seed in range(seeds)
    ]


def test_exploited_clients_are_close_to_the_best_and_drawn_by_utility() -> None:
    losses = [4.0, 4.0, 3.9, 3.0, 0.1]
    sampler = Oort(**EXPLOITS, clip=1.0)
    drawn = cohorts(sampler, view_of(sampler, losses))
    assert {k for cohort in drawn for k in cohort} == {0, 1, 2}  # 3.9 >= .95·4
    loose = Oort(**EXPLOITS, clip=1.0, cut_off=0.05)
    drawn = cohorts(loose, view_of(loose, losses), 4000)
    # Two draws in proportion to 4, 4, 3.9, 3 (.1 is below .05·4): client 3 is in a cohort with
    # 3/14.9 + sum over first draws of w/14.9 · 3/(14.9 - w) = .422, sd .0078; five sd.
    first = [4, 4, 3.9]
    expected = 3 / 14.9 + sum(w / 14.9 * 3 / (14.9 - w) for w in first)
    assert abs(np.mean([3 in cohort for cohort in drawn]) - expected) < 0.04
    assert not any(4 in cohort for cohort in drawn)


def test_exploration_decays_to_its_least_share_and_takes_clients_never_selected() -> None:
    sampler = Oort(exploration=0.8, exploration_decay=0.5, exploration_least=0.2)
    losses, counts = [1.0] * 10 + [np.nan] * 10, [1] * 10 + [0] * 10
    for round, explored in ((0, 8), (1, 4), (2, 2), (9, 2)):
        view = view_of(sampler, losses, round=round, counts=counts, limit=10)
        drawn = cohorts(sampler, view, 20)
        assert {sum(k >= 10 for k in cohort) for cohort in drawn} == {explored}
        assert all(len(set(cohort)) == 10 for cohort in drawn)


@pytest.mark.parametrize("new", [0, 1, 6])
def test_clients_of_the_other_kind_fill_the_cohort(new: int) -> None:
    for exploration in (0.0, 0.9):
        sampler = Oort(exploration=exploration, exploration_least=0.0)
        counts = [0] * new + [3] * (6 - new)
        view = view_of(sampler, [0.0] * 6, counts=counts, limit=5)
        assert {len(cohort) for cohort in cohorts(sampler, view, 20)} == {5}


def test_never_selected_clients_are_drawn_by_their_data() -> None:
    sampler = Oort(exploration=1.0, exploration_decay=1.0)
    view = view_of(sampler, [np.nan] * 3, counts=[0] * 3, sizes=[1, 1, 8], limit=1)
    share = np.mean([cohort == [2] for cohort in cohorts(sampler, view, 2000)])
    assert abs(share - 0.8) < 0.045  # sd .0089


@pytest.mark.parametrize(
    ("pacer", "gains", "preferred"),
    [
        ("paper", [5, 5, 4, 4], 0.4),  # it falls: slower clients are let in
        ("paper", [4, 4, 5, 5], 0.3),
        ("paper", [5, 5, 5, 5], 0.3),
        ("code", [5, 5, 4.6, 4.6], 0.4),  # it is flat
        ("code", [5, 5, 4, 4], 0.3),
        ("code", [1, 1, 7, 7], 0.2),  # it changes sharply
        ("code", [4, 4, 5, 5], 0.3),
    ],
)
def test_the_pacer_moves_the_preferred_duration(
    pacer: Any, gains: list[float], preferred: float
) -> None:
    sampler = Oort(pacer=pacer, pacer_rounds=2, pacer_step=0.1)
    clients = Clients(("a", "b"), np.array([1, 2]))
    memory = sampler.start(clients)
    shares = []
    for round, gain in enumerate(gains):
        view = View(round, clients, np.arange(2), np.ones(2, dtype=np.int64), 1, memory=memory)
        reports = {"rms_loss": np.array([gain / 2])}
        outcome = Outcome(np.array([1]), np.array([1.0]), reports=reports)
        memory = sampler.observe(memory, view, outcome)
        shares.append(float(memory["preferred"][0]))
    assert shares == pytest.approx([0.3, 0.3, 0.3, preferred])
    assert memory["last"].tolist() == [-1, 3] and memory["losses"][1] == gains[-1] / 2


def test_what_is_missing_is_named() -> None:
    sampler = Oort()
    clients = Clients(("a",), np.array([1]))
    view = View(0, clients, np.arange(1), np.zeros(1, dtype=np.int64), 1)
    with pytest.raises(SelectionError, match=r"^'oort' needs its memory in view\.memory"):
        sampler.select(view, stream(0, "select", 0))
    with pytest.raises(SelectionError, match=r"^'oort' needs the losses of local training"):
        sampler.observe({}, view, Outcome(np.array([0]), np.array([1.0])))
    for settings in ({"clip": 0}, {"preferred": 0}, {"pacer": "none"}, {"penalty": -1}):
        with pytest.raises(ConfigError, match=next(iter(settings))):
            build("method", {"name": "oort", **settings})


@pytest.mark.parametrize(
    "settings",
    [{"penalty": 0.0}, {"preferred": 1.0}, {"pacer": "code"}, {"pacer_rounds": 5},
     {"pacer_step": 0.1}],
)  # fmt: skip
def test_settings_about_durations_need_a_clock(settings: dict[str, Any]) -> None:
    federation = make_federation((9, 4, 7))
    name = next(iter(settings))
    with pytest.raises(ConfigError, match=rf"method\.{name} has no effect without \[system\]"):
        make_plan(federation, sampler=Oort(**settings), cohort_limit=2)
    make_plan(federation, sampler=Oort(cut_off=0.5), cohort_limit=2)
    clock = SystemTime(System(), federation.clients, Ideal(), 2, np.full(3, 1.0))
    make_plan(federation, sampler=Oort(**settings), cohort_limit=2, time=clock)
