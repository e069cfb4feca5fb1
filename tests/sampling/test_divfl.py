"""DivFL: greedy selection against brute force, and the sampler's settings."""

from dataclasses import replace
from itertools import combinations
from math import e
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgs import Clients, View
from fedgs.arrays import FloatMatrix
from fedgs.clients import Memory, Outcome, Selection
from fedgs.errors import ConfigError, SelectionError
from fedgs.registry import build, table
from fedgs.rng import stream
from fedgs.sampling import DivFL, LearnsFromModels, Remembers, Wish, divfl_greedy
from fedgs.sampling.divfl_greedy import lazy_greedy, plain_greedy
from fedgs.weighting import as_weighting, checked_weights


def integer_distances(rows: int, columns: int, seed: int) -> FloatMatrix:
    """Small integers: many ties, and sums without rounding."""
    return np.random.default_rng(seed).integers(0, 6, size=(rows, columns)).astype(np.float64)


def gain(distance: FloatMatrix, rows: tuple[int, ...]) -> float:
    """f(S) = G(empty) - G(S), one client at a time."""
    largest = distance.max()
    return sum(
        largest - min([largest, *(distance[row, i] for row in rows)])
        for i in range(distance.shape[1])
    )


@given(rows=st.integers(1, 9), columns=st.integers(1, 7), seed=st.integers(0, 10**6))
def test_the_decrease_is_monotone_and_submodular(rows: int, columns: int, seed: int) -> None:
    distance, rng = integer_distances(rows, columns, seed), np.random.default_rng(seed)
    order = rng.permutation(rows).tolist()
    small, large = sorted(rng.integers(0, rows, size=2).tolist())
    less, more, new = tuple(order[:small]), tuple(order[:large]), order[-1]
    assert 0 <= gain(distance, less) <= gain(distance, more)
    added = gain(distance, (*more, new)) - gain(distance, more)
    assert added <= gain(distance, (*less, new)) - gain(distance, less)


@given(
    rows=st.integers(1, 10),
    columns=st.integers(1, 10),
    places=st.integers(1, 5),
    seed=st.integers(0, 10**6),
)
def test_greedy_reaches_its_share_of_the_optimum(
    rows: int, columns: int, places: int, seed: int
) -> None:
    distance, places = integer_distances(rows, columns, seed), min(places, rows)
    best = max(gain(distance, cohort) for cohort in combinations(range(rows), places))
    chosen = plain_greedy(distance, places).tolist()
    assert len(set(chosen)) == places
    assert gain(distance, tuple(chosen)) >= (1 - 1 / e) * best


@given(rows=st.integers(1, 9), columns=st.integers(1, 7), seed=st.integers(0, 10**6))
def test_each_step_takes_the_first_of_the_best_rows(rows: int, columns: int, seed: int) -> None:
    distance = integer_distances(rows, columns, seed)
    chosen: list[int] = []
    for row in plain_greedy(distance, rows).tolist():
        rest = [k for k in range(rows) if k not in chosen]
        gains = [gain(distance, (*chosen, k)) for k in rest]
        assert row == rest[gains.index(max(gains))]
        chosen.append(row)


@given(
    rows=st.integers(1, 25),
    columns=st.integers(0, 25),
    share=st.floats(0, 1),
    seed=st.integers(0, 10**6),
    exact=st.booleans(),
)
def test_lazy_greedy_is_plain_greedy(
    rows: int, columns: int, share: float, seed: int, exact: bool
) -> None:
    distance = integer_distances(rows, columns, seed)
    if not exact:  # sums with rounding, of which many are equal but for that
        distance = np.sqrt(distance) / 3
    places = round(share * rows)
    assert lazy_greedy(distance, places).tolist() == plain_greedy(distance, places).tolist()


def test_lazy_greedy_computes_fewer_gains(monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.random.default_rng(0).random((60, 2))
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    calls = []
    plain_gain = divfl_greedy._gain
    monkeypatch.setattr(divfl_greedy, "_gain", lambda *given: calls.append(1) or plain_gain(*given))
    chosen = lazy_greedy(distance, 12).tolist()
    lazy, _ = len(calls), calls.clear()
    assert plain_greedy(distance, 12).tolist() == chosen
    assert len(calls) == sum(60 - step for step in range(12))
    assert lazy < len(calls) / 2


def test_the_first_is_the_medoid() -> None:
    points = np.random.default_rng(1).random((20, 3))
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    assert lazy_greedy(distance, 1).tolist() == [int(distance.sum(axis=1).argmin())]


def clients_of(count: int) -> Clients:
    return Clients(tuple(range(count)), np.arange(1, count + 1))


def view_of(memory: Memory, count: int, *, limit: int, available: list[int] | None = None) -> View:
    indices = np.arange(count) if available is None else np.array(available)
    return View(
        3, clients_of(count), indices, np.zeros(count, dtype=np.int64), limit, memory=memory
    )


def on_a_line(sampler: DivFL, places: list[float]) -> Memory:
    """The memory where the updates of all clients are these numbers."""
    return sampler.start_from(clients_of(len(places)), np.array(places)[:, None])


def cohort(sampler: DivFL, view: View, seed: int = 0) -> list[int]:
    return sampler.select(view, stream(seed, "select", 3)).clients.tolist()


@pytest.mark.parametrize("limit", [3, 4, 50])
@pytest.mark.parametrize("first_updates", ["zeros", "first_contact"])
def test_all_are_selected_where_at_most_m_are_available(first_updates: str, limit: int) -> None:
    sampler = build("method", {"name": "divfl", "first_updates": first_updates})
    assert isinstance(sampler, DivFL)
    memory = sampler.start(clients_of(6))
    view = view_of(memory, 6, limit=limit, available=[0, 3, 5])
    assert cohort(sampler, view) == [0, 3, 5]
    outcome = Outcome(np.array([0, 5]), np.ones(2) / 2, np.eye(2))
    later = view_of(sampler.observe(memory, view, outcome), 6, limit=limit, available=[0, 3, 5])
    assert cohort(sampler, later) == [0, 3, 5]


def test_the_sum_runs_over_all_clients_or_over_the_available_ones() -> None:
    places = [0.0, 1.0, 2.0, 10.0, 10.0, 10.0, 10.0]
    for cover, expected in (("all", [2]), ("available", [1])):
        sampler = build("method", {"name": "divfl", "cover": cover})
        assert isinstance(sampler, DivFL)
        view = view_of(on_a_line(sampler, places), 7, limit=1, available=[0, 1, 2])
        assert cohort(sampler, view) == expected


def test_the_distance_decides() -> None:
    # Medoids: of l2 the median 1, of the squares what is nearest to the mean 4.2.
    places = [0.0, 1.0, 1.0, 5.0, 14.0]
    for distance, expected in (("l2", {1, 2}), ("squared", {3})):
        sampler = build("method", {"name": "divfl", "distance": distance})
        assert isinstance(sampler, DivFL)
        assert set(cohort(sampler, view_of(on_a_line(sampler, places), 5, limit=1))) <= expected
    cosine = DivFL(distance="cosine")
    directions = np.array([[1.0, 0], [9, 0], [0, 1], [0, 7], [0.1, 5]])
    view = view_of(cosine.start_from(clients_of(5), directions), 5, limit=2)
    first, second = cohort(cosine, view)
    assert first in (0, 1) and second in (2, 3, 4)


def test_equal_updates_are_chosen_at_random() -> None:
    sampler = DivFL()
    view = view_of(sampler.start(clients_of(5)), 5, limit=2)
    cohorts = [tuple(cohort(sampler, view, seed)) for seed in range(400)]
    counts = [cohorts.count(pair) for pair in combinations(range(5), 2)]
    # 400 draws of 10 pairs: 40 each with standard error 6; all within six of them: odds 1e-7.
    assert min(counts) > 4 and max(counts) < 76


def test_clients_without_an_update_come_first() -> None:
    sampler = DivFL(first_updates="first_contact")
    memory = sampler.start(clients_of(6))
    view = view_of(memory, 6, limit=2)
    outcome = Outcome(np.array([1, 2, 4]), np.ones(3) / 3, np.array([[0.0], [1.0], [2.0]]))
    memory = sampler.observe(memory, view, outcome)
    assert memory["known"].tolist() == [False, True, True, False, True, False]
    two = view_of(memory, 6, limit=2)
    assert {pair for seed in range(60) for pair in cohort(sampler, two, seed)} == {0, 3, 5}
    # One place is left: the middle one of the known clients; the unknown ones do not pull it to 0.
    assert cohort(sampler, view_of(memory, 6, limit=4)) == [0, 2, 3, 5]
    assert cohort(sampler, view_of(memory, 6, limit=2, available=[0, 1, 2, 4])) == [0, 2]


def test_clients_that_never_took_part_have_zeros() -> None:
    sampler = DivFL()
    memory = sampler.start(clients_of(6))
    view = view_of(memory, 6, limit=2)
    outcome = Outcome(np.array([1, 2]), np.ones(2) / 2, np.array([[8.0], [9.0]]))
    memory = sampler.observe(memory, view, outcome)
    for seed in range(20):
        one, other = cohort(sampler, view_of(memory, 6, limit=2), seed)
        assert sorted([one in (1, 2), other in (1, 2)]) == [False, True]


def test_everyone_trains_before_round_0_only_where_that_is_set() -> None:
    everyone = DivFL(first_updates="everyone", sketch=32)
    assert isinstance(everyone, LearnsFromModels) and isinstance(everyone, Remembers)
    assert everyone.wish("start") == everyone.wish("round") == Wish("update", sketch=32)
    assert DivFL().wish("start") is None
    assert DivFL().wish("round") == Wish("update", sketch=4096)
    with pytest.raises(ConfigError, match=r"^method\.first_updates = 'everyone' needs an update"):
        everyone.start(clients_of(2))


def test_missing_memory_and_missing_updates_are_refused() -> None:
    view = view_of({}, 3, limit=1)
    with pytest.raises(SelectionError, match=r"^'divfl' needs the memory that start\(clients\)"):
        DivFL().select(view, np.random.default_rng(0))
    with pytest.raises(SelectionError, match=r"^'divfl' needs the cohort's updates in outcome\."):
        DivFL().observe(DivFL().start(view.clients), view, Outcome(np.array([0]), np.ones(1)))


@pytest.mark.parametrize(
    ("setting", "allowed"),
    [
        ("cover", "'all' or 'available'"),
        ("first_updates", "'zeros', 'everyone' or 'first_contact'"),
        ("distance", "'l2', 'squared' or 'cosine'"),
    ],
)
def test_unknown_words_are_refused(setting: str, allowed: str) -> None:
    with pytest.raises(ConfigError, match=f"^method.{setting} should be {allowed}, got 'far'"):
        build("method", {"name": "divfl", setting: "far"})


def test_clients_that_do_not_answer_are_not_first_in_every_round() -> None:
    sampler = DivFL(first_updates="first_contact")
    memory = sampler.start(clients_of(6))
    outcome = Outcome(np.array([0, 1, 2]), np.ones(3) / 3, np.array([[1.0], [2.0], [9.0]]))
    memory = sampler.observe(memory, view_of(memory, 6, limit=3), outcome)
    view = view_of(memory, 6, limit=2)
    # 3 and 4 were selected and gave no update: 5 comes first, and greedy selects among the others.
    waiting = replace(view, failures=np.array([0, 0, 0, 1, 2, 0]))
    for seed in range(20):
        chosen = sampler.select(waiting, np.random.default_rng(seed)).clients.tolist()
        assert chosen == [1, 5]
    silent = replace(view, failures=np.ones(6, dtype=np.int64))
    assert sampler.select(silent, np.random.default_rng(0)).clients.tolist() == [1, 2]
    # Where nobody has an update, the cohort is still full.
    nobody = view_of(sampler.start(clients_of(6)), 6, limit=4)
    nobody = replace(nobody, failures=np.ones(6, dtype=np.int64))
    assert len(sampler.select(nobody, np.random.default_rng(0)).clients) == 4


# --- weighting `coverage`


def weights_of(sampler: DivFL, view: View, chosen: list[int]) -> list[float]:
    selection = Selection(np.array(chosen))
    return checked_weights(as_weighting(sampler.weighting), view, selection, {}).tolist()


def test_a_client_weighs_as_many_clients_as_it_is_nearest_to() -> None:
    sampler = DivFL(weighting="coverage")
    memory = on_a_line(sampler, [0.0, 1.0, 4.0, 8.0, 9.0, 9.5])
    view = view_of(memory, 6, limit=2, available=[0, 3, 5])
    assert weights_of(sampler, view, [0, 3]) == [2.5 / 6, 3.5 / 6]  # 4 is halfway
    assert weights_of(sampler, view, [0, 3, 5]) == [2.5 / 6, 1.5 / 6, 2 / 6]
    assert weights_of(sampler, view, [3]) == [1.0]
    nearby = DivFL(weighting="coverage", cover="available")
    assert weights_of(nearby, view, [0, 3]) == [1 / 3, 2 / 3]


def test_a_client_without_an_update_weighs_as_one() -> None:
    sampler = DivFL(first_updates="first_contact", weighting="coverage")
    memory = sampler.start(clients_of(5))
    view = view_of(memory, 5, limit=2)
    assert weights_of(sampler, view, [1, 4]) == [0.5, 0.5]
    outcome = Outcome(np.array([0, 1, 2]), np.ones(3) / 3, np.array([[0.0], [1.0], [5.0]]))
    later = view_of(sampler.observe(memory, view, outcome), 5, limit=3)
    assert weights_of(sampler, later, [0, 2, 4]) == [2 / 4, 1 / 4, 1 / 4]


def test_updates_of_zeros_share_their_weight() -> None:
    sampler = DivFL(weighting="coverage")
    assert (
        weights_of(sampler, view_of(sampler.start(clients_of(6)), 6, limit=3), [0, 2, 5])
        == [pytest.approx(1 / 3)] * 3
    )


def test_the_weighting_has_the_cover_of_the_method() -> None:
    def checked(**settings: Any) -> None:
        sampler = build("method", {"name": "divfl", **settings})
        assert build("method", table(sampler)) == sampler  # type: ignore[arg-type]
        as_weighting(sampler.weighting).check(clients_of(2), 1, sampler)  # type: ignore[attr-defined]

    for cover in ("all", "available"):
        checked(cover=cover, weighting="coverage")
        checked(cover=cover, weighting={"name": "coverage"})
        checked(cover=cover)
    with pytest.raises(ConfigError, match=r"^method\.weighting\.cover must be 'all', the cover of"):
        checked(weighting={"name": "coverage", "cover": "available"})


def test_coverage_needs_divfl() -> None:
    sampler = build("method", {"name": "uniform", "weighting": "coverage"})
    with pytest.raises(ConfigError, match=r"'coverage' needs the distances of method 'divfl', got"):
        as_weighting("coverage").check(clients_of(2), 1, sampler)
