"""The search of what the reduction leaves open, and its bounds, proofs and ties.

Every step calls a compiled kernel, or `plain` where numba is not installed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import comb
from time import perf_counter
from types import ModuleType

import numpy as np

from fedgs.arrays import FloatArray, FloatMatrix, IntArray
from fedgs.compiling import load_kernels
from fedgs.solver import limits, plain
from fedgs.solver.plain import XorshiftState
from fedgs.solver.problem import Effort

__all__ = [
    "DESCENT",
    "Clock",
    "Incumbent",
    "SearchPlan",
    "Residual",
    "improve",
    "search_plan",
    "prove",
    "search",
    "settle_ties",
    "tenure_of",
    "tighten",
]


@dataclass(eq=False)
class Residual:
    """What the reduction leaves open: choose `size` = r of p positions.

    Attributes:
        matrix: distances, of these and perhaps of other clients.
        ids: (p,) the row of `matrix` that each position stands for.
        gains: (p,) linear gains, in units of distance.
        size: r.
        tolerance: differences up to this count as none; `limits.TOLERANCE_OF_LARGEST_DISTANCE` of
            the largest distance.
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
        """Values within this count as the same when chance decides.

        Many such exchanges do not add up to `tolerance`. It stays above the rounding of a sum over
        the choice.
        """
        return self.tolerance * limits.TIE_OF_TOLERANCE * max(1.0, self.size / 1000)

    def block(self) -> FloatMatrix:
        """(p, p) distances between positions in C order; do not write into them."""
        if len(self.ids) <= limits.MAX_CLIENTS_SMALL_POOL:
            return self.matrix.take(self.ids, axis=0).take(self.ids, axis=1)
        if len(self.ids) == len(self.matrix) and np.array_equal(self.ids, np.arange(len(self.ids))):
            return self.matrix
        return self.matrix[np.ix_(self.ids, self.ids)]

    def rows(self) -> Iterator[FloatMatrix]:
        """Distances between positions, in writeable blocks of whole rows of bounded size."""
        if len(self.ids) <= limits.MAX_CLIENTS_SMALL_POOL:
            yield self.block()
            return
        step = max(1, limits.MAX_DISTANCES_COPIED // len(self.ids))
        for first in range(0, len(self.ids), step):
            yield self.matrix[np.ix_(self.ids[first : first + step], self.ids)]


@dataclass
class Incumbent:
    """The best choice so far.

    Attributes:
        chosen: (r,) its positions, in any order.
        value: its value.
        bound: a value that no choice exceeds.
    """

    chosen: IntArray
    value: float
    bound: float = np.inf

    def proven(self, tolerance: float) -> bool:
        """Whether the bound is met, to the tolerance and the rounding of sums over many pairs."""
        return self.value >= self.bound - tolerance - 1e-13 * abs(self.bound)


class Clock:
    """The outer stop.

    Attributes:
        limit: seconds, or None.
        fired: whether `over` has returned True.
    """

    def __init__(self, limit: float | None) -> None:
        self.started, self.limit, self.fired = perf_counter(), limit, False

    def over(self) -> bool:
        """Whether the limit, if there is one, has passed."""
        self.fired = self.fired or (
            self.limit is not None and perf_counter() - self.started >= self.limit
        )
        return self.fired


@dataclass(frozen=True, eq=False)
class SearchPlan:
    """How long and in what manner to search.

    Attributes:
        rounds: most rounds of perturbation and tabu search.
        idle: moves without improvement that end a round.
        rows: rows of distances read by compiled code, after which no further round begins.
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


DESCENT = SearchPlan(0, 0, limits.MAX_ROWS, plain.Tenure(0, 1, 0, 1, 0, 1))


def search(
    residual: Residual,
    given: IntArray | None,
    *,
    bound: float,
    plan: SearchPlan,
    state: XorshiftState,
) -> Incumbent:
    """Best-swap descent from several starts, then the plan's rounds.

    The starts are a given choice and, unless that meets the bound, greedy choices. These begin with
    the largest gain, in pools below 500 clients also with the client farthest from that one, and
    with any client.
    """
    # The sums that a descent keeps cost O(p·r): in large pools, first see whether it is needed.
    if given is not None and len(residual) > limits.MAX_CLIENTS_ANY_ORDER:
        places = np.sort(residual.ids[given])
        pairs = residual.matrix[places[:, None], places].sum() / 2
        incumbent = Incumbent(given, float(pairs + residual.gains[given].sum()), bound)
        if incumbent.proven(residual.tolerance):
            return incumbent
    kernels = load_kernels("fedgs.solver.kernels.search")
    starts = 3 if len(residual) < limits.MANY_CLIENTS else 2
    if kernels is None:
        incumbent = _plain_descent(residual, given, starts=starts, bound=bound, state=state)
        _rounds(residual, incumbent, plan, state)
        return incumbent
    incumbent = Incumbent(np.full(residual.size, -1) if given is None else given, -np.inf, bound)
    _search(kernels, residual, incumbent, plan=plan, state=state, starts=starts)
    return incumbent


def _plain_descent(
    residual: Residual, given: IntArray | None, *, starts: int, bound: float, state: XorshiftState
) -> Incumbent:
    chosen, value = plain.descend(
        residual.block(),
        residual.gains,
        residual.size,
        starts=[] if given is None else [given],
        firsts=[*(-1, -2)[: starts - 1], plain.Xorshift(state).below(len(residual))],
        tolerance=residual.tolerance,
    )
    return Incumbent(chosen, value, bound)


@lru_cache(maxsize=1024)
def search_plan(effort: Effort, count: int, size: int, *, plain_numpy: bool) -> SearchPlan:
    """The search of an effort for a choice of `size` = r of `count` = p positions.

    "thorough" searches in long rounds until a number of rows was read. The other efforts search in
    short rounds after strong perturbations; in small pools, rounds of a few moves are best.

    >>> search_plan("default", 100, 10, plain_numpy=False).rounds
    12
    """
    ways = min(size, count - size)
    swaps = max(2, ways // 2)
    if effort != "thorough":
        fitting = (
            short
            for (pool, most), short in limits.SHORT_ROUNDS.items()
            if count <= pool and size <= most
        )
        rounds, idle = next(fitting, limits.SHORT_ROUNDS_ELSE)
        if plain_numpy:
            rounds = min(rounds, 16 if count <= 40 else 4)
        least, most = max(2, swaps // 2), 2 * swaps  # strong
        if count >= limits.MANY_CLIENTS:  # descent from afar would take long
            least, most = 2, swaps
        moves = (2, 3, 0, 1) if count <= 40 else (5, 10, 2, 3)
        tenure = tenure_of(moves, least=least, most=most, ways=ways)
        return SearchPlan(0 if effort == "fast" else rounds, idle, limits.MAX_ROWS, tenure)
    idle = min(max(30 * min(size, count - size), 100), 1500)
    stay = min(size // 10, 5)
    rounds = max(10, limits.THOROUGH_ROUNDS_DISTANCES // ((count + 100) * idle))
    tenure = tenure_of((15, 10, 1 + stay, 1 + stay), least=1, most=swaps, ways=ways)
    if plain_numpy:
        return SearchPlan(rounds // 10, idle, limits.MAX_ROWS, tenure)
    return SearchPlan(10 * rounds, idle, int(limits.THOROUGH_DISTANCES // (count + 100)), tenure)


def tenure_of(
    moves: tuple[int, int, int, int], *, least: int, most: int, ways: int
) -> plain.Tenure:
    """A tenure whose perturbations exchange `least` to `most` clients.

    Args:
        moves: the first four numbers of `Tenure`.
        least: see above.
        most: see above.
        ways: how many clients can change at most, min(r, p - r).

    >>> tenure_of((5, 10, 2, 3), least=2, most=5, ways=3)[4:]
    (2, 2)
    """
    least = min(least, ways)
    return plain.Tenure(*moves, least, max(least, min(most, ways)) - least + 1)


def improve(
    residual: Residual,
    incumbent: Incumbent,
    plan: SearchPlan,
    *,
    clock: Clock,
    state: XorshiftState,
) -> None:
    """The plan's rounds from the best choice so far, until the bound is met or the time is over."""
    rounds, rows = plan.rounds, plan.rows
    at_once = rounds
    if clock.limit is not None:
        at_once = max(1, limits.DISTANCES_PER_CLOCK // (8 * plan.idle * len(residual)))
    while rounds > 0 and rows > 0 and not incumbent.proven(residual.tolerance) and not clock.over():
        now = replace(plan, rounds=min(rounds, at_once), rows=rows)
        rows -= _rounds(residual, incumbent, now, state)
        rounds -= now.rounds


def _rounds(
    residual: Residual, incumbent: Incumbent, plan: SearchPlan, state: XorshiftState
) -> int:
    """Run rounds and return how many rows were read, 0 without numba."""
    kernels = load_kernels("fedgs.solver.kernels.search")
    if kernels is not None:
        return _search(kernels, residual, incumbent, plan=plan, state=state, starts=0)
    incumbent.chosen, incumbent.value = plain.iterate(
        residual.block(),
        residual.gains,
        incumbent.chosen,
        incumbent.value,
        rounds=plan.rounds,
        idle=plan.idle,
        tenure=plan.tenure,
        state=state,
        target=incumbent.bound,
        tolerance=residual.tolerance,
    )
    return 0


def prove(residual: Residual, incumbent: Incumbent, work: int, clock: Clock) -> None:
    """Prove the best choice or improve it, unless the bound is met.

    Branch and bound reads up to `work` distances. Where it is not available, pools with few choices
    are enumerated. After a complete proof, the bound is the value.
    """
    if incumbent.proven(residual.tolerance):
        return
    count, size = len(residual), residual.size
    kernels = load_kernels("fedgs.solver.kernels.proof")
    if kernels is not None and count <= limits.MAX_CLIENTS_PROVEN and size >= 3:
        _branch_and_bound(kernels, residual, incumbent, work=work, clock=clock)
    elif (
        count <= limits.MAX_CLIENTS_ANY_ORDER
        and comb(count, size) * min(size, count - size) ** 2 <= limits.MAX_PAIRS_ENUMERATED
    ):
        incumbent.chosen = plain.enumerate_all(residual.block(), residual.gains, size)
        incumbent.value = incumbent.bound = plain.value(
            residual.block(), residual.gains, incumbent.chosen
        )


def _branch_and_bound(
    kernels: ModuleType, residual: Residual, incumbent: Incumbent, *, work: int, clock: Clock
) -> None:
    count, size = len(residual), residual.size
    block = np.ascontiguousarray(residual.block())
    members = np.empty((size, count), dtype=np.int64)
    adds, potential, halves = (np.empty((size, count)) for _ in range(3))
    members[0], adds[0] = np.arange(count), residual.gains
    kernels.longest_pairs(block, halves)
    counts, values = np.full(size, count), np.zeros(size)
    nexts, path = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    meta = np.array([incumbent.value, residual.tolerance, 0.0])
    while work > 0 and meta[kernels.DEPTH] >= 0 and not clock.over():
        step = min(work, limits.DISTANCES_PER_CLOCK)
        incumbent.value = kernels.branch(
            block, halves, members, adds, potential,
            counts, nexts, values, path, incumbent.chosen, meta, step,
        )  # fmt: skip
        work -= step
    if meta[kernels.DEPTH] < 0:
        incumbent.bound = incumbent.value


def tighten(residual: Residual, incumbent: Incumbent, *, always: bool) -> None:
    """Lower the bound by the row bound, unless it is met. O(p²), for small pools O(p²·r).

    Each position counts at most half of its r-1 longest pairs.

    Args:
        residual: the open positions.
        incumbent: gets the bound.
        always: also in pools for which this costs more than the search.
    """
    count, size = len(residual), residual.size
    if incumbent.proven(residual.tolerance) or (
        count > limits.MAX_CLIENTS_ROW_BOUND and not always
    ):
        return
    kernels = None
    if count <= limits.MAX_CLIENTS_SMALL_POOL:
        kernels = load_kernels("fedgs.solver.kernels.small")
    if kernels is None:
        bound = plain.row_bound(residual.rows(), residual.gains, size)
    else:
        working = np.empty((2, count)), np.empty((size - 1, count))
        bound = kernels.row_bound(residual.matrix, residual.ids, residual.gains, size, *working)
    incumbent.bound = min(incumbent.bound, bound)


def settle_ties(residual: Residual, incumbent: Incumbent, state: XorshiftState) -> None:
    """Let chance decide between choices of the same value."""
    kernels, count = load_kernels("fedgs.solver.kernels.search"), len(residual)
    if kernels is None:
        incumbent.chosen = plain.shuffle_ties(
            residual.block(), residual.gains, incumbent.chosen, state, tie=residual.tie
        )
        return
    working = np.empty((1, count), dtype=np.int64), np.empty((1, count))
    matrix, ids, gains, tie = residual.matrix, residual.ids, residual.gains, residual.tie
    if count <= limits.MAX_CLIENTS_ANY_ORDER:
        kernels.shuffle_ties(matrix, ids, gains, incumbent.chosen, state, tie, *working)
    else:  # rows of a large matrix are read far faster in their own order
        order = np.argsort(ids)
        place = np.empty_like(order)
        place[order] = np.arange(count)
        chosen = place[incumbent.chosen]
        kernels.shuffle_ties(matrix, ids[order], gains[order], chosen, state, tie, *working)
        incumbent.chosen = order[chosen]


def _search(
    kernels: ModuleType,
    residual: Residual,
    incumbent: Incumbent,
    *,
    plan: SearchPlan,
    state: XorshiftState,
    starts: int,
) -> int:
    """Improve the best choice by descents and the plan's rounds; how many rows were read."""
    incumbent.value, rows_read = kernels.search(
        residual.matrix, residual.ids, residual.gains, incumbent.chosen, incumbent.value,
        starts, plan.rounds, plan.idle, plan.rows, plan.numbers,
        state, incumbent.bound, residual.tolerance,
        *kernels.workspace(len(residual), residual.size),
    )  # fmt: skip
    return int(rows_read)
