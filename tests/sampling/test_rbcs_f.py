"""RBCS-F: exact cohorts, queues over empty rounds, and guaranteed rates."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgs.clients import Clients, Memory, Outcome, View
from fedgs.errors import SelectionError
from fedgs.sampling.rbcs_f import RBCSF, fastest_cohort


@given(st.integers(1, 7), st.integers(0, 10**6))
def test_the_cohort_is_the_best_of_all(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, count + 1))
    costs, queues = rng.integers(0, 4, count) / 2, rng.integers(0, 5, count) / 4

    def cost(cohort: list[int]) -> float:
        return float(costs[cohort].max() - queues[cohort].sum())

    chosen = fastest_cohort(costs, queues, size).tolist()
    assert len(set(chosen)) == size
    assert cost(chosen) == min(cost(list(c)) for c in itertools.combinations(range(count), size))


def view(round: int, available: list[int], memory: Memory, seconds: list[float] | None) -> View:
    clients = Clients(tuple(range(4)), np.ones(4, dtype=np.int64))
    told = None if seconds is None else np.array(seconds)
    counts = np.zeros(4, dtype=np.int64)
    return View(
        round, clients, np.array(available), counts, cohort_limit=2, memory=memory, seconds=told
    )


def test_queues_by_hand_over_an_empty_round() -> None:
    sampler = RBCSF(guaranteed=0.5)  # beta = 0.5 · 2/4
    clients = Clients(tuple(range(4)), np.ones(4, dtype=np.int64))
    memory = sampler.start(clients)
    first = view(0, [0, 1, 2], memory, None)
    memory = sampler.observe(memory, first, Outcome(np.array([0, 1]), np.full(2, 0.5)))
    np.testing.assert_allclose(memory["queues"], [0, 0, 0.25, 0.25])
    later = view(3, [0, 2], memory, None)  # rounds 1 and 2 had no cohort
    np.testing.assert_allclose(sampler.queues(later), [0.5, 0.5, 0.75, 0.75])
    memory = sampler.observe(memory, later, Outcome(np.array([2]), np.ones(1)))
    np.testing.assert_allclose(memory["queues"], [0.75, 0.75, 0, 1.0])


def test_a_slow_client_waits_until_its_queue_pays_for_it() -> None:
    sampler = RBCSF(penalty=0.1)
    for queue, expected in ((0.5, [0, 1]), (1.5, [0, 3])):  # 10 seconds more cost one turn
        memory = {"queues": np.array([0.2, 0.1, 0.0, queue]), "round": np.array([5])}
        seen = view(5, [0, 1, 3], memory, [10.0, 10.0, np.nan, 20.0])
        chosen = sampler.select(seen, np.random.default_rng(0)).clients.tolist()
        assert chosen == expected, queue


@pytest.mark.parametrize("seed", range(3))
def test_every_client_has_its_guaranteed_rate(seed: int) -> None:
    rng = np.random.default_rng(seed)
    clients = Clients(tuple(range(4)), np.ones(4, dtype=np.int64))
    sampler, rounds = RBCSF(guaranteed=0.6, penalty=0.5), 600  # beta = 0.3
    memory, counts = sampler.start(clients), np.zeros(4, dtype=np.int64)
    seconds = np.array([1.0, 1.0, 5.0, 60.0])  # clients 2 and 3 are selected for their queues alone
    for round in range(rounds):
        available = np.flatnonzero(rng.random(4) < [1.0, 1.0, 0.9, 0.5])
        seen = View(
            round, clients, available, counts, cohort_limit=2, memory=memory, seconds=seconds
        )
        cohort = sampler.select(seen, rng).clients
        memory = sampler.observe(memory, seen, Outcome(cohort, np.ones(len(cohort))))
        counts[cohort] += 1
    # What is missing is in the queue, which is no longer than the slowest client's cost, 0.5 · 60.
    assert (counts >= 0.3 * rounds - memory["queues"] - 1e-9).all()
    assert memory["queues"].max() <= 0.5 * 60 + 2
    assert 0.3 * rounds - 32 <= counts[3] <= 0.3 * rounds + 5  # no more than it must


def test_without_a_memory_it_says_so() -> None:
    with pytest.raises(SelectionError, match=r"^'rbcs_f' needs its memory in view\.memory"):
        RBCSF().select(view(0, [0, 1], {}, None), np.random.default_rng(0))
