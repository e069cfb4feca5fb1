"""Searching what the reduction has left: one interface over compiled kernels, plain NumPy, and distances without a matrix."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import comb
from time import perf_counter
from typing import Any

import numpy as np

from fedgs.arrays import FloatArray, FloatMatrix, IntArray
from fedgs.compiling import load_kernels
from fedgs.solver import limits, plain
from fedgs.solver.problem import Effort

__all__ = [
    "DESCENT",
    "Clock",
    "Found",
    "Plan",
    "Residual",
    "improve",
    "planned",
    "prove",
    "workspace",
    "search",
    "settle_ties",
    "tenure_of",
    "tighten",
]


@dataclass(eq=False)
class Residual:
    """Choose `size` = r of p positions; position i is row ids[i] of `matrix`, with linear gain gains[i] in units of distance.

    Differences within `tolerance` (`limits.TOLERANCE_OF_LARGEST_DISTANCE` of the largest distance)
    count as none.
    """

    matrix: FloatMatrix
    ids: IntArray
    gains: FloatArray
    size: int
    tolerance: float

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def tie(self) -> float:
        """What counts as the same value when chance decides: many such exchanges do not add up to `tolerance`.

        It stays above the rounding of a sum over the choice.
        """
        return self.tolerance * limits.TIE_OF_TOLERANCE * max(1.0, self.size / 1000)

    def block(self) -> FloatMatrix:
        """(p, p) distances between positions, C-ordered; do not write into them."""
        if len(self.ids) <= limits.MAX_CLIENTS_SMALL_POOL:
            return self.matrix.take(self.ids, axis=0).take(self.ids, axis=1)
        if len(self.ids) == len(self.matrix) and np.array_equal(self.ids, np.arange(len(self.ids))):
            return self.matrix
        return self.matrix[np.ix_(self.ids, self.ids)]

    def rows(self) -> Iterator[FloatMatrix]:
        """Distances between positions, in pieces of bounded size between rows: copies to write into."""
        if len(self.ids) <= limits.MAX_CLIENTS_SMALL_POOL:
            yield self.block()
            return
        step = max(1, limits.MAX_DISTANCES_COPIED // len(self.ids))
        for first in range(0, len(self.ids), step):
            yield self.matrix[np.ix_(self.ids[first : first + step], self.ids)]


@dataclass
class Found:
    """The best choice so far (positions, in any order; its value), and a value that none exceeds."""

    chosen: IntArray
    value: float
    bound: float = np.inf

    def proven(self, tolerance: float) -> bool:
        """Whether the bound is met, to the tolerance and the rounding of sums over many pairs."""
        return self.value >= self.bound - tolerance - 1e-13 * abs(self.bound)


class Clock:
    """The outer stop: `over` is True once the limit, if any, has passed; `fired` remembers that it was asked and said so."""

    def __init__(self, limit: float | None) -> None:
        self.started, self.limit, self.fired = perf_counter(), limit, False

    def over(self) -> bool:
        self.fired = self.fired or (
            self.limit is not None and perf_counter() - self.started >= self.limit
        )
        return self.fired


@dataclass(frozen=True, eq=False)
class Plan:
    """How long and in what manner to search.

    Attributes:
        rounds: of perturbation and tabu search, at most.
        idle: moves without improvement that end a round.
        rows: of distances looked at by compiled code, after which no further round begins.
        tenure: how long clients are held after a move, and how strong perturbations are.
    """

    rounds: int
    idle: int
    rows: int
    tenure: plain.Tenure

    @cached_property
    def numbers(self) -> IntArray:
        """The tenure as the array that kernels read."""
        return np.array(self.tenure)


DESCENT = Plan(0, 0, limits.MAX_ROWS, plain.Tenure(0, 1, 0, 1, 0, 1))


def search(
    residual: Residual, given: IntArray | None, *, bound: float, plan: Plan, state: Any
) -> Found:
    """Best-swap descent from a given choice and, unless that meets the bound, from greedy ones; then the plan's rounds.

    The greedy choices begin with the largest gain, in pools below 500 also with who is farthest
    from that, and with anybody.
    """
    # What each client adds costs O(p·r): in large pools, find out first whether it is needed.
    if given is not None and len(residual) > limits.MAX_CLIENTS_ANY_ORDER:
        places = np.sort(residual.ids[given])
        found = Found(
            given,
            float(residual.matrix[places[:, None], places].sum() / 2 + residual.gains[given].sum()),
            bound,
        )
        if found.proven(residual.tolerance):
            return found
    kernels, starts = (
        load_kernels("fedgs.solver.kernels.search"),
        3 if len(residual) < limits.MANY_CLIENTS else 2,
    )
    if kernels is None:
        begun, firsts = (
            [] if given is None else [given],
            [*(-1, -2)[: starts - 1], plain.Xorshift(state).below(len(residual))],
        )
        found = Found(
            *plain.descend(
                residual.block(),
                residual.gains,
                residual.size,
                starts=begun,
                firsts=firsts,
                tolerance=residual.tolerance,
            ),
            bound,
        )
        _rounds(residual, found, plan, state)
    else:
        chosen = np.full(residual.size, -1) if given is None else given
        found = Found(
            chosen,
            _search(
                kernels,
                residual,
                chosen=chosen,
                value=-np.inf,
                plan=plan,
                state=state,
                target=bound,
                starts=starts,
            )[0],
            bound,
        )
    return found


@lru_cache(maxsize=1024)
def planned(effort: Effort, count: int, size: int, *, plain_numpy: bool) -> Plan:
    """Short rounds from strong perturbations, or, for "thorough", long rounds until so many rows were looked at.

    Small pools are searched best by rounds of a few moves.

    >>> planned("default", 100, 10, plain_numpy=False).rounds
    12
    """
    ways = min(size, count - size)
    swaps = max(2, ways // 2)
    if effort != "thorough":
        rounds, idle = next(
            (
                short
                for (pool, most), short in limits.SHORT_ROUNDS.items()
                if count <= pool and size <= most
            ),
            limits.SHORT_ROUNDS_ELSE,
        )
        if plain_numpy:
            rounds = min(rounds, 16 if count <= 40 else 4)
        least, most = max(2, swaps // 2), 2 * swaps  # from afar
        if count >= limits.MANY_CLIENTS:  # that would take long
            least, most = 2, swaps
        moves = (2, 3, 0, 1) if count <= 40 else (5, 10, 2, 3)
        tenure = tenure_of(moves, least=least, most=most, ways=ways)
        return Plan(0 if effort == "fast" else rounds, idle, limits.MAX_ROWS, tenure)
    idle = min(max(30 * min(size, count - size), 100), 1500)
    stay = min(size // 10, 5)
    rounds = max(10, limits.THOROUGH_ROUNDS_DISTANCES // ((count + 100) * idle))
    tenure = tenure_of((15, 10, 1 + stay, 1 + stay), least=1, most=swaps, ways=ways)
    if plain_numpy:
        return Plan(rounds // 10, idle, limits.MAX_ROWS, tenure)
    return Plan(10 * rounds, idle, int(limits.THOROUGH_DISTANCES // (count + 100)), tenure)


def tenure_of(
    moves: tuple[int, int, int, int], *, least: int, most: int, ways: int
) -> plain.Tenure:
    """A tenure whose perturbations exchange `least` to `most` clients, and at most `ways`: as many as can change.

    >>> tenure_of((5, 10, 2, 3), least=2, most=5, ways=3)[4:]
    (2, 2)
    """
    least = min(least, ways)
    return plain.Tenure(*moves, least, max(least, min(most, ways)) - least + 1)


def improve(residual: Residual, found: Found, plan: Plan, *, clock: Clock, state: Any) -> None:
    """The plan's rounds from the best choice so far, until the bound is met or the time is over."""
    rounds, rows = plan.rounds, plan.rows
    at_once = (
        rounds
        if clock.limit is None
        else max(1, limits.DISTANCES_PER_CLOCK // (8 * plan.idle * len(residual)))
    )
    while rounds > 0 and rows > 0 and not found.proven(residual.tolerance) and not clock.over():
        now = replace(plan, rounds=min(rounds, at_once), rows=rows)
        rows -= _rounds(residual, found, now, state)
        rounds -= now.rounds


def _rounds(residual: Residual, found: Found, plan: Plan, state: Any) -> int:
    kernels = load_kernels("fedgs.solver.kernels.search")
    if kernels is None:
        found.chosen, found.value = plain.iterate(
            residual.block(), residual.gains, found.chosen, found.value, rounds=plan.rounds, idle=plan.idle, tenure=plan.tenure,
            state=state, target=found.bound, tolerance=residual.tolerance,
        )  # fmt: skip
        return 0
    found.value, looked = _search(
        kernels,
        residual,
        chosen=found.chosen,
        value=found.value,
        plan=plan,
        state=state,
        target=found.bound,
    )
    return looked


def prove(residual: Residual, found: Found, work: int, clock: Clock) -> None:
    """Branch and bound, unless the bound is met, as far as `work` goes: the bound becomes the value where it comes to its end."""
    count, size = len(residual), residual.size
    if found.proven(residual.tolerance):
        return
    kernels = load_kernels("fedgs.solver.kernels.proof")
    if kernels is None or count > limits.MAX_CLIENTS_PROVEN or size < 3:
        if (
            count <= limits.MAX_CLIENTS_ANY_ORDER
            and comb(count, size) * min(size, count - size) ** 2 <= limits.MAX_PAIRS_ENUMERATED
        ):
            found.chosen = plain.enumerate_all(residual.block(), residual.gains, size)
            found.value = found.bound = plain.value(residual.block(), residual.gains, found.chosen)
        return
    block = np.ascontiguousarray(residual.block())
    members, adds, potential = (
        np.empty((size, count), dtype=np.int64),
        np.empty((size, count)),
        np.empty((size, count)),
    )
    members[0], adds[0] = np.arange(count), residual.gains
    halves = np.empty((size, count))
    kernels.longest_pairs(block, halves)
    counts, nexts, path = (
        np.full(size, count),
        np.zeros(size, dtype=np.int64),
        np.zeros(size, dtype=np.int64),
    )
    values, meta = np.zeros(size), np.array([found.value, residual.tolerance, 0.0])
    while work > 0 and meta[2] >= 0 and not clock.over():
        step = min(work, limits.DISTANCES_PER_CLOCK)
        found.value = kernels.branch(
            block, halves, members, adds, potential, counts, nexts, values, path, found.chosen, meta, step
        )  # fmt: skip
        work -= step
    if meta[2] < 0:
        found.bound = found.value


def tighten(residual: Residual, found: Found, *, always: bool) -> None:
    """Lower the bound, unless it is met: each position counts at most half of its r-1 longest pairs. O(p²), for a few O(p²·r).

    Pools for which that is dear compared to the search are left as they are, if not `always`.
    """
    if found.proven(residual.tolerance) or (
        len(residual) > limits.MAX_CLIENTS_ROW_BOUND and not always
    ):
        return
    kernels = (
        load_kernels("fedgs.solver.kernels.small")
        if len(residual) <= limits.MAX_CLIENTS_SMALL_POOL
        else None
    )
    if kernels is None:
        bound = plain.row_bound(residual.rows(), residual.gains, residual.size)
    else:
        working = np.empty((2, len(residual))), np.empty((residual.size - 1, len(residual)))
        bound = kernels.row_bound(
            residual.matrix, residual.ids, residual.gains, residual.size, *working
        )
    found.bound = min(found.bound, bound)


def settle_ties(residual: Residual, found: Found, state: Any) -> None:
    """Let chance decide between choices of the same value."""
    kernels, count = load_kernels("fedgs.solver.kernels.search"), len(residual)
    if kernels is None:
        found.chosen = plain.shuffle_ties(
            residual.block(), residual.gains, found.chosen, state, tie=residual.tie
        )
        return
    working = np.empty((1, count), dtype=np.int64), np.empty((1, count))
    if count <= limits.MAX_CLIENTS_ANY_ORDER:
        kernels.shuffle_ties(
            residual.matrix,
            residual.ids,
            residual.gains,
            found.chosen,
            state,
            residual.tie,
            *working,
        )
    else:  # rows of a large matrix are read far faster in their own order
        order = np.argsort(residual.ids)
        place = np.empty_like(order)
        place[order] = np.arange(count)
        chosen = place[found.chosen]
        kernels.shuffle_ties(
            residual.matrix,
            residual.ids[order],
            residual.gains[order],
            chosen,
            state,
            residual.tie,
            *working,
        )
        found.chosen = order[chosen]


def workspace(count: int, size: int) -> tuple[IntArray, FloatMatrix, FloatMatrix]:
    """What the compiled search works in, for `size` = r of `count` = p positions, r < p: (8, p), (2, p), and rows of distances.

    Rows are kept of every position once it is needed, in large pools of the choice only, and one to
    spare; the last: zeros.
    """
    rows = count if count <= limits.MAX_CLIENTS_ALL_ROWS else size + 1
    return np.empty((8, count), dtype=np.int64), np.empty((2, count)), np.empty((rows + 1, count))


def _search(
    kernels: Any,
    residual: Residual,
    *,
    chosen: IntArray,
    value: float,
    plan: Plan,
    state: Any,
    target: float,
    starts: int = 0,
) -> tuple[float, int]:
    """The value of what is now `chosen`, and how many rows were looked at."""
    value, looked = kernels.search(
        residual.matrix, residual.ids, residual.gains, chosen, value, starts, plan.rounds, plan.idle, plan.rows, plan.numbers,
        state, target, residual.tolerance, *workspace(len(residual), residual.size),
    )  # fmt: skip
    return value, looked
