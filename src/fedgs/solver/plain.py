"""The search in plain NumPy: used where numba is not installed, and the kernels' reference.

W is the (p, p) matrix of distances, b the (p,) linear gains in the same unit: maximise sum over i<j
in S of w_ij + sum over S of b_i, |S| = r. Positions are in an order drawn by the caller, so that
"the first among equals" favours no client.

Reference: Palubeckis, "Iterated tabu search for the maximum diversity problem", Applied Mathematics
and Computation 189 (2007).
"""

from collections.abc import Iterable
from functools import lru_cache
from itertools import chain, combinations
from math import comb
from typing import NamedTuple

import numpy as np

from fedgs.arrays import FloatArray, FloatMatrix, IntArray
from fedgs.solver import limits

__all__ = [
    "Tenure",
    "Xorshift",
    "XorshiftState",
    "best_swap",
    "descend",
    "enumerate_all",
    "greedy",
    "iterate",
    "row_bound",
    "shuffle_ties",
    "value",
]


XorshiftState = np.ndarray[tuple[int], np.dtype[np.uint64]]
"""(1,) the state of the generator that the kernels draw from; it is written to."""


class Tenure(NamedTuple):
    """How long clients are held after a move of the tabu search, and how strong a perturbation is.

    Each number is drawn from `span` integers that begin with `least`.

    Attributes:
        out_least, out_span: moves for which a client that left stays out.
        stay_least, stay_span: moves for which a client that entered stays in.
        exchange_least, exchange_span: clients that a perturbation exchanges.
    """

    out_least: int
    out_span: int
    stay_least: int
    stay_span: int
    exchange_least: int
    exchange_span: int


class Xorshift:
    """The small generator of the kernels: integers that are the same on every platform.

    Reference: Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8 (2003).

    >>> Xorshift(np.array([1], dtype=np.uint64)).below(10)
    2
    """

    def __init__(self, state: XorshiftState) -> None:
        self.state = state

    def below(self, bound: int) -> int:
        """An integer in 0..bound-1."""
        x = int(self.state[0])
        x = (x ^ (x << 13)) & 0xFFFF_FFFF_FFFF_FFFF
        x ^= x >> 7
        x = (x ^ (x << 17)) & 0xFFFF_FFFF_FFFF_FFFF
        self.state[0] = x
        return (x >> 11) % bound


def value(W: FloatMatrix, gains: FloatArray, chosen: IntArray) -> float:
    """The value of a choice.

    >>> value(np.array([[0.0, 3.0], [3.0, 0.0]]), np.array([1.0, 0.5]), np.array([0, 1]))
    4.5
    """
    return float(W[np.ix_(chosen, chosen)].sum() / 2 + gains[chosen].sum())


def greedy(W: FloatMatrix, gains: FloatArray, size: int, *, first: int = -1) -> IntArray:
    """A choice built greedily: each step takes the position that adds most. O(p·r).

    Args:
        W: see the module, as `gains`.
        gains: likewise.
        size: r.
        first: the position to begin with; -1 for the one with the largest gain.

    >>> greedy(np.array([[0.0, 1.0, 3.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]]), np.zeros(3), 2)
    array([0, 2])
    """
    adds = gains.astype(np.float64)
    chosen = np.empty(size, dtype=np.int64)
    for step in range(size):
        chosen[step] = best = first if step == 0 and first >= 0 else int(np.argmax(adds))
        adds = adds + W[best]
        adds[chosen[: step + 1]] = -np.inf
    return chosen


def descend(
    W: FloatMatrix,
    gains: FloatArray,
    size: int,
    *,
    starts: Iterable[IntArray],
    firsts: Iterable[int],
    tolerance: float,
) -> tuple[IntArray, float]:
    """The best of several starts after best-swap descent, and its value.

    Descent exchanges the pair of positions that helps most until none helps by more than
    `tolerance`. Each exchange costs O(r·p).

    Args:
        W: see the module, as `gains`.
        gains: likewise.
        size: r.
        starts: choices to begin with.
        firsts: positions for a greedy choice to begin with; -1: the largest gain, -2: the one
            farthest from that.
        tolerance: differences up to this count as none.

    >>> triangle = np.array([[0.0, 1.0, 3.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]])
    >>> start = np.array([0, 1])
    >>> descend(triangle, np.zeros(3), 2, starts=[start], firsts=[], tolerance=1e-9)
    (array([0, 2]), 3.0)
    """
    top = int(np.argmax(gains))
    far = gains + W[top]
    far[top] = -np.inf
    begun = list(starts)
    for first in firsts:
        begun.append(greedy(W, gains, size, first=int(np.argmax(far)) if first == -2 else first))
    best, reached = begun[0], -np.inf
    for start in begun:
        end, end_value = _walk(W, gains, start, idle=0, tenures=(0, 0), tolerance=tolerance)
        # Of equal ends the last is taken: the one whose greedy choice began with any client.
        if end_value > reached - 1e-3 * tolerance:
            best, reached = end, end_value
    return best, reached


def iterate(
    W: FloatMatrix,
    gains: FloatArray,
    chosen: IntArray,
    reached: float,
    *,
    rounds: int,
    idle: int,
    tenure: Tenure,
    state: XorshiftState,
    target: float,
    tolerance: float,
) -> tuple[IntArray, float]:
    """Rounds of (perturbation, tabu walk) from the best choice so far.

    Args:
        W: see the module, as `gains`.
        gains: likewise.
        chosen: the best choice so far.
        reached: its value.
        rounds: how many, unless the target is met before.
        idle: moves without improvement that end a walk.
        tenure: how long clients are held, and how strong a perturbation is.
        state: of the generator that draws perturbations and tenures.
        target: no round begins from a value that meets it.
        tolerance: differences up to this count as none.

    Returns:
        The best choice and its value.
    """
    count, size, chance = len(gains), len(chosen), Xorshift(state)
    for _ in range(rounds):
        if reached >= target - tolerance:
            break
        inside, outside = chosen.copy(), np.setdiff1d(np.arange(count), chosen)
        for step in range(tenure.exchange_least + chance.below(tenure.exchange_span)):
            a, b = step + chance.below(size - step), step + chance.below(count - size - step)
            leave, enter = inside[a], outside[b]
            inside[a], outside[b] = inside[step], outside[step]
            inside[step], outside[step] = enter, leave
        out = min(count - size - 1, tenure.out_least + chance.below(tenure.out_span))
        tenures = (out, min(size - 1, tenure.stay_least + chance.below(tenure.stay_span)))
        end, end_value = _walk(W, gains, inside, idle=idle, tenures=tenures, tolerance=tolerance)
        if end_value > reached + tolerance:
            chosen, reached = end, end_value
    return chosen, reached


def shuffle_ties(
    W: FloatMatrix,
    gains: FloatArray,
    chosen: IntArray,
    state: XorshiftState,
    *,
    tie: float,
) -> IntArray:
    """Exchange each chosen position, twice, with one drawn from those of equal value (to `tie`)."""
    chance, inside = Xorshift(state), np.zeros(len(gains), dtype=bool)
    inside[chosen] = True
    adds = gains + W[chosen].sum(axis=0)
    members = chosen.copy()
    for step in range(2 * len(members)):
        leave = members[step % len(members)]
        equals = np.flatnonzero(~inside & (np.abs(adds - adds[leave] - W[leave]) <= tie))
        drawn = chance.below(len(equals) + 1) if len(equals) else 0
        if drawn:
            members[step % len(members)] = enter = equals[drawn - 1]
            inside[leave], inside[enter] = False, True
            adds += W[enter] - W[leave]
    return members


def enumerate_all(W: FloatMatrix, gains: FloatArray, size: int) -> IntArray:
    """The best of all choices, the first among equals: for small pools, and as a referee.

    O(p² + comb(p, r)·k²) with k = min(r, p-r).

    >>> enumerate_all(np.array([[0.0, 1.0, 3.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]]), np.zeros(3), 2)
    array([0, 2])
    """
    if size == len(gains):
        return np.arange(size)
    if 2 * size > len(gains):
        # Choose the positions that are left out. Each costs its gain and all its pairs, and the
        # pair of two of them counts twice in this: their distance is gained back.
        out = enumerate_all(W, -(gains + W.sum(axis=1)), len(gains) - size)
        return np.delete(np.arange(len(gains)), out)
    tabulated = comb(len(gains), size) <= limits.MAX_CHOICES_TABULATED
    choices = (_choices if tabulated else _choices.__wrapped__)(len(gains), size)
    values = gains[choices].sum(axis=1)
    if len(choices) <= limits.MAX_CHOICES_TABULATED:
        values += W[choices[:, :, None], choices[:, None, :]].sum(axis=(1, 2)) / 2
    else:  # pair by pair, to save memory
        for left in range(size):
            for right in range(left + 1, size):
                values += W[choices[:, left], choices[:, right]]
    # Sums of equal terms in another order differ in their last bits: the first among equals is
    # chosen to a tolerance.
    best = float(values.max())
    slack = 1e-12 * (abs(best) + float(W.max(initial=0.0)) * size)
    return np.asarray(choices[int(np.argmax(values >= best - slack))])


@lru_cache(maxsize=64)
def _choices(count: int, size: int) -> IntArray:
    """(comb, size) all ways to choose, in lexicographic order; do not write into it."""
    flat = np.fromiter(
        chain.from_iterable(combinations(range(count), size)),
        np.int64,
        count=comb(count, size) * size,
    )
    return flat.reshape(-1, size)


def row_bound(rows: Iterable[FloatMatrix], gains: FloatArray, size: int) -> float:
    """A value that no choice exceeds: each position counts half of its r-1 longest pairs. O(p²).

    Args:
        rows: (p, p) distances, cut between rows into pieces that fit into memory; they are
            overwritten.
        gains: (p,) linear gains.
        size: r >= 2.

    >>> row_bound([np.array([[0.0, 1.0, 3.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]])], np.zeros(3), 2)
    3.0
    """
    first, sums = len(gains) - size, []  # where the r largest of p begin, in ascending order
    for piece in rows:
        piece.partition(first + 1, axis=1)
        sums.append(np.add.reduce(piece[:, first + 1 :], axis=1))
    each = gains + (sums[0] if len(sums) == 1 else np.concatenate(sums)) / 2
    each.partition(first)
    return float(np.add.reduce(each[first:]))


def best_swap(
    W: FloatMatrix, adds: FloatArray, outs: IntArray, ins: IntArray, *, tolerance: float
) -> tuple[int, int, float]:
    """The exchange that changes the value most, the first among equals.

    Exchanges of twins, at distance 0 of each other, that change nothing are left out (-inf): they
    would use up the moves of a walk.

    Args:
        W: see the module.
        adds: (p,) gain of each position plus its distances to the choice.
        outs: (a,) positions that may leave, ascending.
        ins: (b,) positions that may enter, ascending.
        tolerance: changes up to this count as none.

    Returns:
        The position that leaves, the one that enters, and the change.

    >>> line = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    >>> adds = line[[1, 2]].sum(axis=0)
    >>> best_swap(line, adds, np.array([1, 2]), np.array([0, 3]), tolerance=1e-9)
    (1, 0, 1.0)
    """
    between = W[np.ix_(outs, ins)]  # (leaving, entering)
    change = (adds[ins] - between) - adds[outs, None]
    change[(np.abs(change) <= tolerance) & (between <= 1e6 * tolerance)] = -np.inf
    place = int(np.argmax(change))
    return int(outs[place // len(ins)]), int(ins[place % len(ins)]), float(change.flat[place])


def _walk(
    W: FloatMatrix,
    gains: FloatArray,
    chosen: IntArray,
    *,
    idle: int,
    tenures: tuple[int, int],
    tolerance: float,
) -> tuple[IntArray, float]:
    """Tabu search until `idle` moves in a row have not improved; with idle = 0 best-swap descent.

    The position that enters takes the place of the one that leaves.

    Returns:
        The best choice seen, and its value.
    """
    members = chosen.copy()
    inside = np.zeros(len(gains), dtype=bool)
    inside[chosen] = True
    adds = gains + W[chosen].sum(axis=0)
    current = float((adds[chosen] + gains[chosen]).sum() / 2)
    tabu = np.zeros(len(gains), dtype=np.int64)
    best, reached, since, now = members.copy(), current, 0, 0
    while now < 1_000_000:
        free = tabu <= now
        outs, ins = np.flatnonzero(inside & free), np.flatnonzero(~inside & free)
        if len(outs) == 0 or len(ins) == 0:
            break
        leave, enter, gain = best_swap(W, adds, outs, ins, tolerance=tolerance)
        if gain == -np.inf or (idle == 0 and gain <= tolerance):
            break
        adds += W[enter] - W[leave]
        inside[leave], inside[enter], members[members == leave] = False, True, enter
        current, now = current + gain, now + 1
        if idle:
            tabu[leave], tabu[enter] = now + tenures[0], now + tenures[1]
        if current > reached + tolerance:
            best, reached, since = members.copy(), current, 0
        else:
            since += 1
            if since >= idle:
                break
    return best, reached
