"""Power-of-Choice."""

import numpy as np
import pytest

from fedgs import Clients, View
from fedgs.errors import ConfigError, SelectionError
from fedgs.registry import build, table
from fedgs.rng import stream
from fedgs.sampling import AsksLosses, PowerOfChoice, Uniform


def view_of(
    losses: list[float] | None,
    *,
    limit: int,
    sizes: list[int] | None = None,
    available: list[int] | None = None,
) -> View:
    count = len(sizes or losses or [])
    return View(
        round=0,
        clients=Clients(tuple(range(count)), np.array(sizes or [1] * count)),
        available=np.arange(count) if available is None else np.array(available),
        counts=np.zeros(count, dtype=np.int64),
        cohort_limit=limit,
        losses=None if losses is None else np.array(losses),
    )


def cohort(
    losses: list[float], *, limit: int, available: list[int] | None = None, seed: int = 0
) -> list[int]:
    view = view_of(losses, limit=limit, available=available)
    return PowerOfChoice().select(view, stream(seed, "select", 0)).clients.tolist()


def test_the_highest_losses_are_selected() -> None:
    assert cohort([0.3, 0.9, 0.1, 0.8, 0.2], limit=2) == [1, 3]


def test_only_available_clients_are_selected() -> None:
    assert cohort([0.3, 0.9, 0.1, 0.8, 0.2], limit=2, available=[0, 2, 4]) == [0, 4]


def test_inf_comes_first_and_nan_last() -> None:
    losses = [float("nan"), 0.5, float("inf"), 0.0, float("nan")]
    assert cohort(losses, limit=1) == [2]
    assert cohort(losses, limit=3) == [1, 2, 3]
    assert {tuple(cohort(losses, limit=4, seed=seed)) for seed in range(40)} == {
        (0, 1, 2, 3),
        (1, 2, 3, 4),
    }


def test_equal_losses_are_a_uniform_sample() -> None:
    chosen = (
        np.bincount(
            [k for seed in range(1500) for k in cohort([0.7] * 5, limit=2, seed=seed)], minlength=5
        )
        / 1500
    )
    # Probability 2/5, standard error .0127; six of them: odds 1e-8.
    np.testing.assert_allclose(chosen, 0.4, atol=0.076)


def test_ties_at_the_border_are_broken_at_random_and_the_rest_is_certain() -> None:
    cohorts = {tuple(cohort([0.9, 0.5, 0.5, 0.1], limit=2, seed=seed)) for seed in range(40)}
    assert cohorts == {(0, 1), (0, 2)}  # 40 fair coins all alike: odds 2e-12


def test_all_available_are_candidates_by_default() -> None:
    view = view_of(None, sizes=[1, 2, 3, 4], limit=2, available=[0, 2, 3])
    assert PowerOfChoice().loss_candidates(view, stream(0, "candidates", 0)).tolist() == [0, 2, 3]


def test_candidates_are_distinct_and_available_and_d_of_them() -> None:
    view = view_of(None, sizes=[1, 2, 3, 4, 5, 6], limit=2, available=[0, 2, 3, 5])
    for t in range(50):
        asked = PowerOfChoice(candidates=3).loss_candidates(view, stream(0, "candidates", t))
        assert len(asked) == 3
        assert np.all(np.diff(asked) > 0)
        assert np.isin(asked, [0, 2, 3, 5]).all()
    assert PowerOfChoice(candidates=9).loss_candidates(
        view, stream(0, "candidates", 0)
    ).tolist() == [0, 2, 3, 5]


def test_candidates_are_drawn_in_proportion_to_data_without_replacement() -> None:
    view, times = view_of(None, sizes=[1, 2, 5], limit=1), 4000
    pairs = [
        tuple(
            PowerOfChoice(candidates=2).loss_candidates(view, stream(0, "candidates", t)).tolist()
        )
        for t in range(times)
    ]
    # {i, j}: p_i p_j/(1-p_i) + p_j p_i/(1-p_j) with p = 1/8, 2/8, 5/8.
    p = np.array([1, 2, 5]) / 8
    for i, j in ((0, 1), (0, 2), (1, 2)):
        chance = p[i] * p[j] / (1 - p[i]) + p[i] * p[j] / (1 - p[j])
        # Standard error at most .0079; six of them: odds 1e-8.
        assert pairs.count((i, j)) / times == pytest.approx(chance, abs=0.048)


def test_clients_that_were_not_asked_are_not_selected_while_others_have_losses() -> None:
    view = view_of(None, sizes=[1] * 20, limit=4)
    sampler = PowerOfChoice(candidates=6)
    asked = sampler.loss_candidates(view, stream(0, "candidates", 0))
    losses = np.full(20, np.nan)
    losses[asked] = -1.0
    chosen = sampler.select(view_of(losses.tolist(), limit=4), stream(0, "select", 0)).clients
    assert np.isin(chosen, asked).all()


def test_fewer_candidates_than_the_cohort_limit_is_an_error_at_load() -> None:
    clients = Clients((0, 1, 2, 3), np.ones(4, dtype=np.int64))
    PowerOfChoice(candidates=3).check(clients, 3)
    message = (
        r"^method\.candidates must be at least 4, the cohort limit, for 'power_of_choice', got 3$"
    )
    with pytest.raises(ConfigError, match=message):
        PowerOfChoice(candidates=3).check(clients, 4)
    with pytest.raises(ConfigError, match=message):
        PowerOfChoice(candidates=3).loss_candidates(
            view_of(None, sizes=[1] * 5, limit=4), stream(0, "candidates", 0)
        )


def test_selecting_without_losses_is_refused() -> None:
    with pytest.raises(
        SelectionError, match=r"^'power_of_choice' needs the local losses of its candidates"
    ):
        PowerOfChoice().select(view_of(None, sizes=[1, 1], limit=1), stream(0, "select", 0))


def test_it_asks_for_losses_and_others_do_not() -> None:
    assert isinstance(PowerOfChoice(), AsksLosses)
    assert not isinstance(Uniform(), AsksLosses)


def test_defaults_and_tables() -> None:
    sampler = build("method", "power_of_choice")
    assert table(sampler) == {"name": "power_of_choice", "weighting": "equal", "loss_on": "train"}
    assert table(build("method", {"name": "power_of_choice", "candidates": 5}))["candidates"] == 5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"candidates": 0}, r"method\.candidates should be greater than or equal to 1, got 0"),
        ({"loss_on": "test"}, r"method\.loss_on should be 'train' or 'validation', got 'test'"),
        (
            {"losson": "train"},
            r"method\.losson is not a setting; known are .*; did you mean 'loss_on'\?",
        ),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build("method", {"name": "power_of_choice", **settings})
