"""The clients with the longest time since their last participation."""

import numpy as np
import pytest

from fedgs.clients import Clients, Memory, Outcome, View
from fedgs.rng import stream
from fedgs.sampling import LeastRecent

SAMPLER = LeastRecent()


def clients_of(count: int) -> Clients:
    return Clients(tuple(range(count)), np.ones(count, dtype=np.int64))


def view_of(round: int, available: list[int], limit: int, memory: Memory) -> View:
    count = len(memory["last"])
    counts = np.zeros(count, dtype=np.int64)
    return View(round, clients_of(count), np.array(available), counts, limit, memory=memory)


def step(memory: Memory, round: int, available: list[int], limit: int) -> tuple[list[int], Memory]:
    view = view_of(round, available, limit, memory)
    cohort = SAMPLER.select(view, stream(0, "select", round)).clients
    outcome = Outcome(cohort, np.full(len(cohort), 1 / len(cohort)))
    return cohort.tolist(), SAMPLER.observe(memory, view, outcome)


@pytest.mark.parametrize(
    ("available", "limit", "expected"),
    [
        ([0, 1, 2, 3, 4], 2, [2, 4]),  # never seen, then the oldest
        ([0, 1, 3], 2, [1, 3]),
        ([0], 2, [0]),
        ([0, 1, 2, 3, 4], 9, [0, 1, 2, 3, 4]),
    ],
)
def test_the_longest_absent_of_the_available_are_selected(
    available: list[int], limit: int, expected: list[int]
) -> None:
    memory = {"last": np.array([8, 5, -1, 6, 3])}
    assert step(memory, 9, available, limit)[0] == expected


@pytest.mark.parametrize("limit", [1, 2, 3, 6])
def test_clients_that_are_always_available_take_turns(limit: int) -> None:
    memory, last = SAMPLER.start(clients_of(6)), np.full(6, -1)
    for t in range(24):
        cohort, memory = step(memory, t, list(range(6)), limit)
        last[cohort] = t
        # Nobody waits longer than a turn of N/M rounds.
        assert t < 6 // limit or t - last.min() <= -(-6 // limit)
    assert memory["last"].tolist() == last.tolist()


def test_rounds_without_a_cohort_change_nothing_of_the_order() -> None:
    memory = SAMPLER.start(clients_of(3))
    _, memory = step(memory, 0, [1], 1)
    _, memory = step(memory, 5, [0], 1)  # rounds 1 to 4 are empty: no `observe`
    assert memory["last"].tolist() == [5, 0, -1]
    assert step(memory, 9, [0, 1], 1)[0] == [1]
    assert step(memory, 9, [0, 1, 2], 1)[0] == [2]


def test_ties_are_random() -> None:
    memory = {"last": np.array([2, 1, 1, 1])}
    view = view_of(3, [0, 1, 2, 3], 1, memory)
    chosen = [int(SAMPLER.select(view, stream(s, "select", 3)).clients[0]) for s in range(600)]
    # 600 draws of rate 1/3: sd .019; five sd for three shares: odds below 1 : 500,000.
    shares = np.bincount(chosen, minlength=4) / 600
    assert shares[0] == 0
    np.testing.assert_allclose(shares[1:], 1 / 3, atol=0.097)
