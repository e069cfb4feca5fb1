"""Turns of the sampler `permutation`, taken or waited for."""

import numpy as np
import pytest

from fedgs.arrays import IntArray
from fedgs.clients import Clients, View
from fedgs.sampling import Permutation

N, M = 7, 3


def cohorts(present: list[IntArray], seed: int = 0) -> tuple[list[IntArray], list[IntArray]]:
    """The cohorts of rounds with these available clients, and the counts after each of them."""
    clients = Clients(tuple(range(N)), np.ones(N, dtype=np.int64))
    counts, found, after = np.zeros(N, dtype=np.int64), [], []
    for round, available in enumerate(present):
        view = View(round, clients, available, counts, cohort_limit=M)
        cohort = Permutation().select(view, np.random.default_rng([seed, round])).clients
        counts = counts.copy()
        counts[cohort] += 1
        found.append(cohort)
        after.append(counts)
    return found, after


@pytest.mark.parametrize("seed", range(5))
def test_counts_differ_by_1_at_most_where_all_are_available(seed: int) -> None:
    found, after = cohorts([np.arange(N)] * 14, seed)
    assert all(counts.max() - counts.min() <= 1 for counts in after)
    assert after[6].tolist() == [3] * N and after[13].tolist() == [6] * N  # 7 rounds: 3 passes
    drawn = [sorted(np.concatenate(found[i : i + 7]).tolist()) for i in (0, 7)]
    assert drawn[0] == drawn[1] == sorted([*range(N)] * 3)
    assert [c.tolist() for c in found[:7]] != [c.tolist() for c in found[7:]]


def test_a_first_turn_is_equally_likely_in_each_round_of_a_pass() -> None:
    first = np.zeros(3)
    for seed in range(700):
        found, _ = cohorts([np.arange(N)] * 2, seed)
        places = [0 in found[0], 0 in found[1] and 0 not in found[0]]
        first += [*places, not any(places)]
    # A permutation of 7 in cohorts of 3: probabilities 3/7, 3/7 and 1/7.
    np.testing.assert_allclose(first / 700, [3 / 7, 3 / 7, 1 / 7], atol=0.08)


def test_missed_turns_are_made_up() -> None:
    without = np.delete(np.arange(N), 2)
    found, after = cohorts([without] * 6 + [np.arange(N)] * 8)
    assert after[5].tolist() == [3, 3, 0, 3, 3, 3, 3]
    assert all(2 in cohort for cohort in found[6:9])
    assert after[13].tolist() == [6] * N
