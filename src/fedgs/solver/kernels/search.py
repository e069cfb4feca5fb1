"""Compiled loops of the search, loaded by `load_kernels`. Their references are in `solver.plain`.

A residual problem is (H, ids, gains, r): choose r of p positions; position i is the client ids[i]
with linear gain gains[i], and a pair i, j adds H[ids[i], ids[j]]. `adds[i]` is gains[i] plus the
distances of position i to the current choice. Positions are in an order drawn by the caller, so
that "the first among equals" favours no client.

Loops are written out, and the search is one long kernel, because of numba's compile time: array
expressions take seconds to compile, a kernel is compiled again into each kernel that calls it, and
inner functions cost a fifth more. Kernels create no arrays. They work in arrays that the caller
passes.
"""

from typing import Any

import numpy as np

from fedgs.arrays import FloatMatrix, IntArray
from fedgs.compiling import compiled, larger_of_two
from fedgs.solver import limits

# The rows of a workspace, which numba compiles as constants. They stand here because numba's cache
# does not notice a change in another file.
INSIDE = 0  # by position: 1 if it is in the choice. First, for `shuffle_ties`.
OUTSIDE = 1  # the positions that are not in the choice, in the order of a perturbation's draws
HOLD = 2  # by position: the move until which it may not enter
KNOWN = 3  # by position: 1 if its row of `near` has been read
INS = 4  # by place: the position that is chosen
STAY = 5  # by place: the move until which its position may not leave
SLOT = 6  # by place: the row of `near` with its distances
QUEUE = 7  # the places whose best exchange is still to be computed
INT_ROWS = 8

ADDS = 0  # by position: gain plus distances to the choice. First, for `shuffle_ties`.
OPEN = 1  # by position: the same, or -inf if it may not enter
REAL_ROWS = 2

_MEMBER = 1 << 62  # held out until that move: chosen
_LOWEST, _HIGHEST = -np.inf, np.inf


def workspace(count: int, size: int) -> tuple[IntArray, FloatMatrix, FloatMatrix]:
    """The last three arguments of `search`, for `size` = r of `count` = p positions, r < p.

    Returns:
        (INT_ROWS, p) and (REAL_ROWS, p) numbers; `near`, rows of p distances: one for every
        position that was read, in large pools one for each of the choice and one to spare. The last
        row of `near` holds zeros.
    """
    rows = count if count <= limits.MAX_CLIENTS_ALL_ROWS else size + 1
    ints, reals = np.empty((INT_ROWS, count), dtype=np.int64), np.empty((REAL_ROWS, count))
    return ints, reals, np.empty((rows + 1, count))


@compiled
def below(state: Any, bound: int) -> np.int64:
    """A random integer in 0..bound-1 (xorshift64), the same on every platform."""
    x = state[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state[0] = x
    return np.int64(x >> np.uint64(11)) % bound


larger = larger_of_two()


@compiled
def highest(open: Any, near: Any, place: int, count: int) -> float:
    """The largest open[j] - near[place, j], j < count."""
    most = _LOWEST
    for j in range(count):
        most = larger(open[j] - near[place, j], most)
    return most


@compiled
def search(
    H: Any,
    ids: Any,
    gains: Any,
    chosen: Any,
    value: float,
    starts: int,
    rounds: int,
    idle: int,
    enough: int,
    tenure: Any,
    state: Any,
    target: float,
    tolerance: float,
    ints: Any,
    reals: Any,
    near: Any,
) -> tuple[float, int]:
    """Starts with best-swap descent, then rounds of perturbation and tabu walk.

    The starts are `chosen` as it comes, if `value` is -inf and chosen[0] >= 0; then greedy choices
    that begin with the largest gain, with the position farthest from that one (only if starts = 3),
    and with any position. A round begins from the best choice so far.

    `chosen` gets the best choice, in any order. Its value is returned, and how many rows were read.
    Once that is `enough`, nothing more is begun. To continue later, call with that value and starts
    = 0. `tenure` is a `plain.Tenure`; see `workspace` for the last three.
    """
    count, size = len(ids), len(chosen)
    inside, outside, hold, known = ints[INSIDE], ints[OUTSIDE], ints[HOLD], ints[KNOWN]
    ins, stay, slot, queue = ints[INS], ints[STAY], ints[SLOT], ints[QUEUE]
    adds, open = reals[ADDS], reals[OPEN]
    out_least, out_span, stay_least, stay_span = tenure[0], tenure[1], tenure[2], tenure[3]
    exchange_least, exchange_span = tenure[4], tenure[5]
    every_row, zeros = len(near) > count, len(near) - 1
    for j in range(count):
        near[zeros, j] = 0.0
        known[j] = 0
    farthest, rows_read = -1, 0
    drawn = below(state, count) if starts > 0 else -1
    for task in range(-1 if chosen[0] >= 0 and value == _LOWEST else 0, starts + rounds):
        if value >= target - tolerance or rows_read >= enough:
            break

        # --- 1. What the task begins with, and how it walks ---------------------------------------
        # It begins with all of `ins`, with its first position, or with none.
        given, moves = size, 0
        out, remain = 0, 0
        for place in range(size):
            ins[place] = chosen[place]
        if 0 <= task < starts:
            given = 0 if task == 0 else 1
            ins[0] = drawn if task == starts - 1 else farthest
        elif task >= starts:  # the best choice after some random exchanges
            others = 0
            for j in range(count):
                inside[j] = 0
            for place in range(size):
                inside[ins[place]] = 1
            for j in range(count):
                if inside[j] == 0:
                    outside[others] = j
                    others += 1
            for step in range(exchange_least + below(state, exchange_span)):
                # Without replacement: positions that were moved lie before `step`.
                a = step + below(state, size - step)
                b = step + below(state, others - step)
                leaves, enters = ins[a], outside[b]
                ins[a], outside[b] = ins[step], outside[step]
                ins[step], outside[step] = enters, leaves
            moves = idle
            out = min(others - 1, out_least + below(state, out_span))
            remain = min(size - 1, stay_least + below(state, stay_span))
        patience = moves if moves > 0 else 1

        # --- 2. The task's first choice -----------------------------------------------------------
        # The given positions, then always the position that adds most. O(p·r).
        current, spare = 0.0, size
        for j in range(count):
            inside[j] = 0
            adds[j] = gains[j]
        for place in range(size):
            if place >= given:
                highest_add, pick = _LOWEST, -1
                for j in range(count):
                    if adds[j] > highest_add and inside[j] == 0:
                        pick, highest_add = j, adds[j]
                # Only where all are NaN, since distances were changed after their check:
                while pick < 0 or inside[pick] != 0:
                    pick += 1
                ins[place] = pick
            current += adds[ins[place]]
            inside[ins[place]] = 1
            slot[place] = row = ins[place] if every_row else place
            if known[row] == 0 or not every_row:
                known[row], member = 1, ids[ins[place]]
                for j in range(count):
                    near[row, j] = H[member, ids[j]]
            for j in range(count):
                adds[j] += near[row, j]
        if task == 0:
            farthest = ins[1]

        # --- 3. The walk --------------------------------------------------------------------------
        # Tabu search until `moves` moves in a row have not improved on its best; with moves = 0
        # best-swap descent, which stops at the first move that does not improve. A position that
        # left stays out for `out` moves, one that entered stays in for `remain`. `chosen` gets
        # every choice that is better than the best value so far.
        reached, since, now = current, 0, 0
        for j in range(count):
            hold[j] = 0
        for place in range(size):
            hold[ins[place]], stay[place] = _MEMBER, 0
        while True:
            if current > value + tolerance:
                value = current
                for place in range(size):
                    chosen[place] = ins[place]
            if since >= patience or now == 1_000_000:
                break

            # The exchange of a place `leave` and a position `enter` that changes the value most;
            # leave -1 where there is none. Exchanges of twins are left out: positions at distance 0
            # whose exchange changes nothing would use up the moves. Of equal changes, that of the
            # smallest positions is taken, whatever their order in `ins`. O(p·r) at worst.
            leave, leaver, enter = -1, -1, -1
            change, best_top = _LOWEST, _LOWEST
            rows_read += 3  # with the update
            for j in range(count):
                open[j] = adds[j] if hold[j] <= now else _LOWEST
            top_open = highest(open, near, zeros, count)
            lowest_add, lowest = _HIGHEST, -1
            for place in range(size):
                if adds[ins[place]] < lowest_add and stay[place] <= now:
                    lowest_add, lowest = adds[ins[place]], place
            queue[0] = lowest
            turn, turns = 0, 1 if lowest >= 0 else 0
            while turn < turns:
                place = queue[turn]
                add, row = adds[ins[place]], slot[place]
                top, at = highest(open, near, row, count), -1
                turn, rows_read = turn + 1, rows_read + 1
                if abs(top - add) <= tolerance:  # perhaps a twin
                    top = _LOWEST
                    for j in range(count):
                        other = open[j] - near[row, j]
                        if other > top and (
                            abs(other - add) > tolerance or near[row, j] > 1e6 * tolerance
                        ):
                            top, at = other, j
                gap = top - add
                if gap > change or (gap == change and ins[place] < leaver):
                    leave, leaver, enter = place, ins[place], at
                    change, best_top = gap, top
                if turn == 1:
                    # The place that adds least often rules others out. No branches here, since they
                    # would be mispredicted.
                    for other_place in range(size):
                        queue[turns] = other_place
                        able = (top_open - adds[ins[other_place]] >= change) & (
                            stay[other_place] <= now
                        )
                        turns += able & (other_place != lowest)
            if leave < 0 or (moves == 0 and change <= tolerance):
                break
            former, old = ins[leave], slot[leave]
            if enter < 0:
                enter = 0
                while enter < count - 1 and open[enter] - near[old, enter] != best_top:
                    enter += 1

            # The exchange itself.
            row = enter if every_row else spare
            if known[row] == 0 or not every_row:
                known[row], member = 1, ids[enter]
                for j in range(count):
                    near[row, j] = H[member, ids[j]]
            for j in range(count):
                adds[j] += near[row, j] - near[old, j]
            ins[leave], slot[leave], spare = enter, row, old
            current, now, since = current + change, now + 1, since + 1
            hold[enter], hold[former], stay[leave] = _MEMBER, now + out, now + remain
            if current > reached + tolerance:
                reached, since = current, 0

        # --- 4. The end of a descent --------------------------------------------------------------
        # Of equal ends the last is taken: the one whose greedy choice began with any client.
        if moves == 0 and current > value - 1e-3 * tolerance:
            value = current
            for place in range(size):
                chosen[place] = ins[place]
    return value, rows_read


@compiled
def shuffle_ties(
    H: Any, ids: Any, gains: Any, chosen: Any, state: Any, tie: float, ints: Any, reals: Any
) -> None:
    """Exchange each chosen position, twice, with one drawn from those of equal value (to `tie`).

    O(p·r). Of `ints` and `reals`, only the first row is used.
    """
    count, size, inside, adds = len(ids), len(chosen), ints[INSIDE], reals[ADDS]
    for j in range(count):
        inside[j] = 0
        adds[j] = gains[j]
    for place in range(size):
        inside[chosen[place]] = 1
        member = ids[chosen[place]]
        for j in range(count):
            adds[j] += H[member, ids[j]]
    for step in range(2 * size):
        leave = chosen[step % size]
        member, add = ids[leave], adds[leave]
        enter, equals = leave, 1
        for j in range(count):
            if abs(adds[j] - add - H[member, ids[j]]) <= tie and inside[j] == 0:
                equals += 1
                if below(state, equals) == 0:
                    enter = j
        if enter != leave:
            other = ids[enter]
            for j in range(count):
                adds[j] += H[other, ids[j]] - H[member, ids[j]]
            inside[leave], inside[enter] = 0, 1
            chosen[step % size] = enter
