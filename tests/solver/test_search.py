"""The compiled search against plain NumPy, and both against what they must never do."""

from typing import Any

import numpy as np
import pytest
from tests.solver.conftest import distance_of, whole_number_problem

from fedgs.compiling import load_kernels
from fedgs.solver import limits, plain
from fedgs.solver.search import tenure_of


def tenure(count: int, size: int) -> plain.Tenure:
    return tenure_of((5, 10, 2, 3), least=2, most=5, ways=min(size, count - size))


def search(
    kernels: Any,
    H: np.ndarray,
    ids: np.ndarray,
    gains: np.ndarray,
    *,
    chosen: np.ndarray,
    value: float,
    state: np.ndarray,
    starts: int = 0,
    rounds: int = 0,
    enough: int = limits.MAX_ROWS,
) -> tuple[float, int]:
    """The compiled search: descents from `starts`, or rounds of 20 idle moves."""
    walk = np.array(tenure(len(ids), len(chosen)))
    value, rows_read = kernels.search(
        H, ids, gains, chosen, value, starts, rounds, 20, enough, walk, state, np.inf, 1e-9,
        *kernels.workspace(len(ids), len(chosen)),
    )  # fmt: skip
    return value, rows_read


def plain_rounds(
    W: np.ndarray,
    gains: np.ndarray,
    *,
    chosen: np.ndarray,
    value: float,
    state: np.ndarray,
    rounds: int,
) -> tuple[np.ndarray, float]:
    """The same rounds in NumPy."""
    return plain.iterate(
        W,
        gains,
        chosen,
        value,
        rounds=rounds,
        idle=20,
        tenure=tenure(len(gains), len(chosen)),
        state=state,
        target=np.inf,
        tolerance=1e-9,
    )


@pytest.fixture
def kernels() -> object:
    return load_kernels("fedgs.solver.kernels.search") or pytest.skip("numba is not installed")


@pytest.mark.parametrize("seed", range(40))
def test_compiled_search_makes_the_same_moves(seed: int, kernels: object) -> None:
    W, gains, size = whole_number_problem(seed)
    count = len(gains)
    ids, chosen = np.arange(count), np.full(size, -1)
    state, other = (np.array([seed + 7], dtype=np.uint64) for _ in range(2))
    starts = 2 + seed % 3 % 2
    firsts = [*(-1, -2)[: starts - 1], plain.Xorshift(other).below(count)]
    value, _ = search(
        kernels, W, ids, gains, chosen=chosen, value=-np.inf, state=state, starts=starts
    )
    expected, reached = plain.descend(W, gains, size, starts=[], firsts=firsts, tolerance=1e-9)
    assert (value, chosen.tolist()) == (reached, expected.tolist())
    value, _ = search(kernels, W, ids, gains, chosen=chosen, value=value, state=state, rounds=5)
    expected, reached = plain_rounds(
        W, gains, chosen=expected, value=reached, state=other, rounds=5
    )
    assert (value, chosen.tolist()) == (reached, expected.tolist())
    assert state == other


@pytest.mark.parametrize(("count", "size"), [(40, 7), (512, 20), (513, 20), (513, 512), (530, 300)])
def test_compiled_search_makes_the_same_moves_among_scattered_clients(
    count: int, size: int, kernels: Any
) -> None:
    # Up to 512 positions every row of distances is kept, above only those of the choice.
    rng = np.random.default_rng(count)
    H, ids = distance_of("integer", count + 25, rng), rng.permutation(count + 25)[:count]
    gains, given = rng.integers(-5, 6, count).astype(float), rng.permutation(count)[:size]
    W, chosen = H[np.ix_(ids, ids)], given.copy()
    state, other = (np.array([2**63 + count], dtype=np.uint64) for _ in range(2))
    value, _ = search(kernels, H, ids, gains, chosen=chosen, value=-np.inf, state=state, starts=3)
    firsts = [-1, -2, plain.Xorshift(other).below(count)]
    expected, reached = plain.descend(W, gains, size, starts=[given], firsts=firsts, tolerance=1e-9)
    assert (value, sorted(chosen.tolist())) == (reached, sorted(expected.tolist()))
    expected = chosen.copy()  # in the same order
    value, rows_read = search(
        kernels, H, ids, gains, chosen=chosen, value=value, state=state, rounds=3
    )
    expected, reached = plain_rounds(
        W, gains, chosen=expected, value=reached, state=other, rounds=3
    )
    assert (value, sorted(chosen.tolist())) == (reached, sorted(expected.tolist()))
    assert state == other
    assert rows_read > 3 * 20


def test_enough_rows_end_the_search(kernels: Any) -> None:
    W, gains = distance_of("euclidean", 50, np.random.default_rng(0)), np.zeros(50)
    state = np.array([77], dtype=np.uint64)
    read = []
    for enough in (0, 1, 1000, limits.MAX_ROWS):
        _, rows_read = search(
            kernels,
            W,
            np.arange(50),
            gains,
            chosen=np.arange(8),
            value=0.0,
            state=state,
            rounds=100,
            enough=enough,
        )
        read.append(rows_read)
    assert read[0] == 0 < read[1] < 1000 <= read[2] < read[3]


def settle(
    kernels: Any, W: np.ndarray, gains: np.ndarray, chosen: np.ndarray, state: np.ndarray
) -> None:
    """The compiled draw between equals."""
    working = np.empty((1, len(W)), dtype=np.int64), np.empty((1, len(W)))
    kernels.shuffle_ties(W, np.arange(len(W)), gains, chosen, state, 1e-12, *working)


def test_ties_keep_the_value_and_favour_nobody(kernels: object) -> None:
    # Eight equal clients, choose two, 2000 times: each is chosen 500 times, standard deviation
    # 19.4; 6 of them are 117.
    W, gains = 1.0 - np.eye(8), np.zeros(8)
    state, rng = np.array([5], dtype=np.uint64), np.random.default_rng(0)
    for shuffle in ("plain", "compiled"):
        times = np.zeros(8)
        for _ in range(2000):
            order = rng.permutation(8)  # callers number the clients at random
            chosen = np.sort(np.argsort(order)[:2])  # always clients 0 and 1
            if shuffle == "plain":
                chosen = plain.shuffle_ties(W, gains, chosen, state, tie=1e-12)
            else:
                settle(kernels, W, gains, chosen, state)
            assert len(set(chosen.tolist())) == 2
            times[order[chosen]] += 1
        assert np.abs(times - 500).max() < 117


def test_ties_leave_better_choices_alone(kernels: object) -> None:
    W, gains = distance_of("line", 6, np.random.default_rng(0)), np.zeros(6)
    chosen, state = np.array([0, 5]), np.array([5], dtype=np.uint64)
    settle(kernels, W, gains, chosen, state)
    assert chosen.tolist() == [0, 5]
    assert plain.shuffle_ties(W, gains, chosen, state, tie=1e-12).tolist() == [0, 5]


def test_generator_is_the_same_in_both(kernels: object) -> None:
    states = [np.array([2**63 + 12345], dtype=np.uint64) for _ in range(2)]
    chance = plain.Xorshift(states[0])
    assert [chance.below(1000) for _ in range(50)] == [
        kernels.below(states[1], 1000) for _ in range(50)
    ]  # type: ignore[attr-defined]
