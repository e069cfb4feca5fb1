"""Compiled loops of the search. Loaded by `load_kernels`; references in NumPy are in `plain`, proofs in `proof_kernels`.

A residual problem is (H, ids, gains, r): choose r of p positions; position i is the client ids[i] with linear gain gains[i], and
a pair i, j adds H[ids[i], ids[j]]. `adds[i]` is what position i has with the current choice: gains[i] + its distances to the
chosen. Positions are in an order drawn by the caller, so that "the first among equals" favours nobody.

Loops are written out, and the search is one long kernel, because of the time numba takes: seconds for array expressions, for
functions that hand arrays to each other (what a kernel calls is compiled again into it), a fifth more for inner functions.
"""

from typing import Any

import numpy as np

from fedgs.compiling import compiled

_KEPT = 512  # positions
_MEMBER = 1 << 62  # held out until that move: chosen


@compiled
def below(state: Any, bound: int) -> int:
    """A random integer in 0..bound-1 (xorshift64), the same on every platform."""
    x = state[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state[0] = x
    return np.int64(x >> np.uint64(11)) % bound  # type: ignore[return-value]


def _highest(open: Any, near: Any, place: int) -> float:
    """The largest open[j] - near[place, j]."""
    most = -np.inf
    for j in range(len(open)):
        value = open[j] - near[place, j]
        most = value if value > most else most
    return most


# Nothing here is NaN, and told so the compiler makes vector instructions of a maximum.
highest = compiled(_highest, fastmath={"nnan", "nsz"}, no_cpython_wrapper=True)


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
    style: Any,
    state: Any,
    target: float,
    tolerance: float,
) -> tuple[float, int]:
    """Starts with best-swap descent, then rounds of (perturbation, tabu walk) from the best choice so far.

    The starts: `chosen` as it comes, where `value` is -inf and chosen[0] >= 0; then, with starts = 3, greedy choices that begin
    with the largest gain, with the position farthest from that (starts = 2 leaves this out), and with any. `chosen` gets the
    best, in any order; its value is returned, and how many rows were looked at; once that is `enough`, nothing more is begun.
    To go on later, call with that value and starts = 0. For `style` see `residual.Plan`.
    """
    count, size = len(ids), len(chosen)
    inside, outside, adds, open = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count), np.empty(count)
    ins, stay, hold = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(count, np.int64)
    # Rows of distances, copied: of every position once it is needed (`known`), in large pools of the choice only, and one to
    # spare. The last holds zeros.
    kept = count <= _KEPT
    rows = count if kept else size + 1
    near, slot, known = np.empty((rows + 1, count)), np.empty(size, np.int64), np.empty(count, np.int64)
    for j in range(count):
        near[rows, j] = 0.0
        known[j] = 0
    farthest, looked = -1, 0
    drawn = below(state, count) if starts > 0 else -1
    for task in range(-1, starts + rounds):
        if value >= target - tolerance or looked >= enough:
            break
        if task == -1 and (chosen[0] < 0 or value > -np.inf):
            continue

        # What the task begins with: `ins`, or else greedily, from `first` where that is given; and how it walks.
        given, first, moves, out, remain = True, -1, 0, 0, 0
        if task == -1:
            for place in range(size):
                ins[place] = chosen[place]
        elif task < starts:
            given, first = False, drawn if task == starts - 1 else -1 if task == 0 else farthest
        else:  # the best choice with style[4] to style[5] of its positions, drawn at random, exchanged for others
            others = 0
            for j in range(count):
                inside[j] = 0
            for place in range(size):
                inside[chosen[place]] = 1
                ins[place] = chosen[place]
            for j in range(count):
                if inside[j] == 0:
                    outside[others] = j
                    others += 1
            least = min(style[4], min(size, others))
            most = max(least, min(style[5], min(size, others)))
            for step in range(least + below(state, most - least + 1)):
                # Without replacement: whoever was moved lies before `step`.
                a = step + below(state, size - step)
                b = step + below(state, others - step)
                leaves, enters = ins[a], outside[b]
                ins[a], outside[b] = ins[step], outside[step]
                ins[step], outside[step] = enters, leaves
            out = min(count - size - 1, style[0] + below(state, style[1]))
            remain = min(size - 1, style[2] + below(state, style[3]))
            moves = idle

        # Take one after the other; greedily, always who adds most. O(p·r).
        current, spare = 0.0, size
        for j in range(count):
            inside[j] = 0
            adds[j] = gains[j]
        for place in range(size):
            if not given and (place > 0 or first < 0):
                highest_add = -np.inf
                for j in range(count):
                    if adds[j] > highest_add and inside[j] == 0:
                        ins[place], highest_add = j, adds[j]
            elif not given:
                ins[place] = first
            current += adds[ins[place]]
            inside[ins[place]] = 1
            slot[place] = row = ins[place] if kept else place
            if known[row] == 0 or not kept:
                known[row], member = 1, ids[ins[place]]
                for j in range(count):
                    near[row, j] = H[member, ids[j]]
            for j in range(count):
                adds[j] += near[row, j]
        if task == 0:
            farthest = ins[1]

        # Tabu search until so many moves in a row have not improved on its best; with moves = 0 plain best-swap descent, which
        # stops at the first move that does not improve. A client that left stays out for `out` moves, one that came stays in for
        # `remain`. `chosen` gets what is better than the best value so far.
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
            if since > moves or (since == moves > 0) or now == 1_000_000:
                break

            # The exchange of a place `leave` and a position `enter` that changes the value most; leave -1 where there is none.
            # Exchanges of twins are left out: positions next to each other whose exchange changes nothing would use up the moves.
            # Of equal changes, that of the smallest positions is taken, whatever their order in `ins`. O(p·r) at worst.
            leave, enter, change = -1, -1, -np.inf
            looked += 3  # with the update
            for j in range(count):
                open[j] = adds[j] if hold[j] <= now else -np.inf
            top_open = highest(open, near, rows)
            lowest_add, lowest = np.inf, -1
            for place in range(size):
                if adds[ins[place]] < lowest_add and stay[place] <= now:
                    lowest_add, lowest = adds[ins[place]], place
            for turn in range(-1, size if lowest >= 0 and top_open > -np.inf else -1):
                place = lowest if turn < 0 else turn  # the smallest first, which then often rules the others out
                own = adds[ins[place]]
                if stay[place] > now or top_open - own < change or turn == lowest:
                    continue
                row, looked = slot[place], looked + 1
                top, at = highest(open, near, row), -1
                if abs(top - own) <= tolerance:  # perhaps a twin
                    top = -np.inf
                    for j in range(count):
                        other = open[j] - near[row, j]
                        if other > top and (abs(other - own) > tolerance or near[row, j] > 1e6 * tolerance):
                            top, at = other, j
                gap = top - own
                if gap < change or top == -np.inf or (gap == change and ins[place] > ins[leave]):
                    continue
                if at < 0:
                    at = 0
                    while open[at] - near[row, at] != top:
                        at += 1
                leave, enter, change = place, at, gap
            if leave < 0 or (moves == 0 and change <= tolerance):
                break

            former, old, row = ins[leave], slot[leave], enter if kept else spare
            if known[row] == 0 or not kept:
                known[row], member = 1, ids[enter]
                for j in range(count):
                    near[row, j] = H[member, ids[j]]
            for j in range(count):
                adds[j] += near[row, j] - near[old, j]
            ins[leave], slot[leave], spare = enter, row, old
            current, now, since = current + change, now + 1, since + 1
            hold[enter], hold[former] = _MEMBER, 0
            if moves > 0:
                hold[former], stay[leave] = now + out, now + remain
            if current > reached + tolerance:
                reached, since = current, 0
        if moves == 0 and current > value - 1e-3 * tolerance:  # of equal starts the last: the choice that begins with any client
            value = current
            for place in range(size):
                chosen[place] = ins[place]
    return value, looked


@compiled
def shuffle_ties(H: Any, ids: Any, gains: Any, chosen: Any, state: Any, tie: float) -> None:
    """Exchange each chosen position, twice, with one drawn from those that leave the value as it is (to `tie`). O(p·r)."""
    count, size = len(ids), len(chosen)
    inside, adds = np.empty(count, np.int64), np.empty(count)
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
        member, own = ids[leave], adds[leave]
        enter, equals = leave, 1
        for j in range(count):
            if abs(adds[j] - own - H[member, ids[j]]) <= tie and inside[j] == 0:
                equals += 1
                if below(state, equals) == 0:
                    enter = j
        if enter != leave:
            other = ids[enter]
            for j in range(count):
                adds[j] += H[other, ids[j]] - H[member, ids[j]]
            inside[leave], inside[enter] = 0, 1
            chosen[step % size] = enter
