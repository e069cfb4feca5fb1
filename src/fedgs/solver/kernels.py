"""Compiled loops of the search. Loaded by `load_kernels`; references in NumPy are in `plain`, proofs in `proof_kernels`.

A residual problem is (H, ids, gains, r): choose r of p positions; position i is the client ids[i] with linear gain gains[i], and
a pair i, j adds H[ids[i], ids[j]]. `adds[i]` is what position i has with the current choice: gains[i] + its distances to the
chosen. Positions are in an order drawn by the caller, so that "the first among equals" favours nobody. Loops are written out:
array expressions take seconds to compile.
"""

from typing import Any

import numpy as np

from fedgs.compiling import compiled, inlined


@compiled
def below(state: Any, bound: int) -> int:
    """A random integer in 0..bound-1 (xorshift64), the same on every platform."""
    x = state[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state[0] = x
    return np.int64(x >> np.uint64(11)) % bound  # type: ignore[return-value]


@inlined
def join(H: Any, ids: Any, gains: Any, known: int, first: int, chosen: Any, near: Any, adds: Any, inside: Any) -> float:
    """Take the first `known` of a choice as they are, the others greedily: always who adds most. Its value. O(p·r).

    Sets `adds`; `near`, the chosen positions' distances, (r, p); and `inside`. With first >= 0 that position comes first.
    """
    count = len(ids)
    for j in range(count):
        inside[j] = False
        adds[j] = gains[j]
    value = 0.0
    for step in range(len(chosen)):
        if step >= known:
            best, most = first, -np.inf
            if step > 0 or first < 0:
                for j in range(count):
                    if adds[j] > most and not inside[j]:
                        best, most = j, adds[j]
            chosen[step] = best
        value += adds[chosen[step]]
        inside[chosen[step]] = True
        member = ids[chosen[step]]
        for j in range(count):
            near[step, j] = H[member, ids[j]]
        for j in range(count):
            adds[j] += near[step, j]
    return value


def _openings(adds: Any, hold: Any, now: int, open: Any) -> float:
    """`open`: `adds` of the positions that may enter, -inf for the others; the largest of them."""
    most = -np.inf
    for j in range(len(adds)):
        open[j] = adds[j] if hold[j] <= now else -np.inf
        most = open[j] if open[j] > most else most
    return most


def _highest(open: Any, near: Any, place: int) -> float:
    """The largest open[j] - near[place, j]."""
    most = -np.inf
    for j in range(len(open)):
        value = open[j] - near[place, j]
        most = value if value > most else most
    return most


# Nothing here is NaN, and told so the compiler makes vector instructions of a maximum.
openings = compiled(_openings, fastmath={"nnan", "nsz"})
highest = compiled(_highest, fastmath={"nnan", "nsz"})


@inlined
def best_swap(adds: Any, ins: Any, near: Any, stay: Any, hold: Any, now: int, open: Any, tolerance: float) -> Any:
    """The exchange that changes the value most: (place in `ins`, who enters, change), or (-1, -1, -inf). O(p·r) at worst.

    Exchanges of twins are left out: positions next to each other whose exchange changes nothing would use up the moves of a walk.
    Of exchanges with the same change, the one with the smallest positions is taken, whatever their order in `ins`.

    Args:
        ins: the chosen positions; near: their distances to all, (r, p).
        stay, hold: until which move a place keeps its position, and a position stays out; now: the move.
        open: scratch, (p,).
    """
    most = openings(adds, hold, now, open)
    least, lowest = np.inf, -1
    for a in range(len(ins)):
        if adds[ins[a]] < least and stay[a] <= now:
            least, lowest = adds[ins[a]], a
    leave, enter, change = -1, -1, -np.inf
    if lowest < 0 or most == -np.inf:
        return leave, enter, change
    for turn in range(-1, len(ins)):  # the smallest first, which then often rules the others out
        a = lowest if turn < 0 else turn
        own = adds[ins[a]]
        if stay[a] > now or most - own < change or turn == lowest:
            continue
        top, at = highest(open, near, a), -1
        if abs(top - own) <= tolerance:  # perhaps a twin
            top = -np.inf
            for j in range(len(open)):
                value = open[j] - near[a, j]
                if value > top and (abs(value - own) > tolerance or near[a, j] > 1e6 * tolerance):
                    top, at = value, j
        gap = top - own
        if gap < change or top == -np.inf or (gap == change and ins[a] > ins[leave]):
            continue
        if at < 0:
            at = 0
            while open[at] - near[a, at] != top:
                at += 1
        leave, enter, change = a, at, gap
    return leave, enter, change


@inlined
def walk(
    H: Any,
    ids: Any,
    adds: Any,
    ins: Any,
    near: Any,
    value: float,
    idle: int,
    tenures: Any,
    tolerance: float,
    best: Any,
    stay: Any,
    hold: Any,
    open: Any,
) -> float:
    """Tabu search from the choice `ins` until `idle` moves in a row have not improved; `best` gets the best choice seen.

    With idle = 0 it is the plain best-swap descent: it stops at the first move that does not improve. A client that left
    stays out for tenures[0] moves, one that came stays in for tenures[1].
    """
    member = 1 << 62
    for j in range(len(ids)):
        hold[j] = 0
    for place in range(len(ins)):
        hold[ins[place]] = member
        best[place] = ins[place]
        stay[place] = 0
    reached, since = value, 0
    now = 0
    while now < 1_000_000:
        place, enter, change = best_swap(adds, ins, near, stay, hold, now, open, tolerance)
        if place < 0 or (idle == 0 and change <= tolerance):
            break
        entering = ids[enter]
        for j in range(len(ids)):
            length = H[entering, ids[j]]
            adds[j] += length - near[place, j]
            near[place, j] = length
        leave, ins[place] = ins[place], enter
        value += change
        now += 1
        hold[enter], hold[leave] = member, 0
        if idle > 0:
            hold[leave], stay[place] = now + tenures[0], now + tenures[1]
        if value > reached + tolerance:
            reached, since = value, 0
            for place in range(len(ins)):
                best[place] = ins[place]
        else:
            since += 1
            if since >= idle:
                break
    return reached


@inlined
def perturb(chosen: Any, inside: Any, outside: Any, trial: Any, least: int, most: int, state: Any) -> None:
    """`trial`: the choice with `least` to `most` of its positions, drawn at random, exchanged for others."""
    count = len(inside)
    size, others = len(chosen), 0
    for j in range(count):
        inside[j] = False
    for place in range(size):
        inside[chosen[place]] = True
        trial[place] = chosen[place]
    for j in range(count):
        if not inside[j]:
            outside[others] = j
            others += 1
    least = min(least, min(size, others))
    most = max(least, min(most, min(size, others)))
    for step in range(least + below(state, most - least + 1)):
        # Without replacement: whoever was moved lies before `step`.
        a = step + below(state, size - step)
        b = step + below(state, others - step)
        leave, enter = trial[a], outside[b]
        trial[a], outside[b] = trial[step], outside[step]
        trial[step], outside[step] = enter, leave


@inlined
def shuffle_ties(H: Any, ids: Any, gains: Any, chosen: Any, state: Any, tie: float, inside: Any, adds: Any) -> None:
    """Exchange each chosen position, twice, with one drawn from those that leave the value as it is (to `tie`). O(p·r)."""
    count, size = len(ids), len(chosen)
    for j in range(count):
        inside[j] = False
        adds[j] = gains[j]
    for place in range(size):
        inside[chosen[place]] = True
        member = ids[chosen[place]]
        for j in range(count):
            adds[j] += H[member, ids[j]]
    for step in range(2 * size):
        leave = chosen[step % size]
        leaving, own = ids[leave], adds[leave]
        enter, equals = leave, 1
        for j in range(count):
            if abs(adds[j] - own - H[leaving, ids[j]]) <= tie and not inside[j]:
                equals += 1
                if below(state, equals) == 0:
                    enter = j
        if enter != leave:
            entering = ids[enter]
            for j in range(count):
                adds[j] += H[entering, ids[j]] - H[leaving, ids[j]]
            inside[leave], inside[enter] = False, True
            chosen[step % size] = enter


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
    style: Any,
    state: Any,
    target: float,
    tolerance: float,
    tie: float,
) -> float:
    """Starts with best-swap descent, then rounds of (perturbation, tabu walk) from the best choice so far; ties are drawn last.

    The starts: `chosen` as it comes, where `value` is -inf and chosen[0] >= 0; then, with starts = 3, greedy choices that begin
    with the largest gain, with the position farthest from that, and with any. `chosen` gets the best, in any order; its value is
    returned. To go on later, call with that value and starts = 0. With tie >= 0 chance decides in the end between choices whose
    values differ by no more. For `style` see `residual.Plan`. One kernel of inlined parts compiles fastest.
    """
    count, size = len(ids), len(chosen)
    inside, outside, adds, open = np.empty(count, np.bool_), np.empty(count, np.int64), np.empty(count), np.empty(count)
    trial, best, near = np.empty(size, np.int64), np.empty(size, np.int64), np.empty((size, count))
    stay, hold, tenures = np.empty(size, np.int64), np.empty(count, np.int64), np.empty(2, np.int64)
    first = farthest = -1
    drawn = below(state, count) if starts > 0 else -1
    for task in range(-1, starts + rounds):
        if value >= target - tolerance:
            break
        if task == -1 and (chosen[0] < 0 or value > -np.inf):
            continue
        known, moves = size, 0
        tenures[0] = tenures[1] = 0
        if task == -1:
            for place in range(size):
                trial[place] = chosen[place]
        elif task < starts:
            known, first = 0, -1 if task == 0 else farthest if task == 1 else drawn
        else:
            perturb(chosen, inside, outside, trial, style[4], style[5], state)
            tenures[0] = min(count - size - 1, style[0] + below(state, style[1]))
            tenures[1] = min(size - 1, style[2] + below(state, style[3]))
            moves = idle
        begin = join(H, ids, gains, known, first, trial, near, adds, inside)
        if task == 0:
            farthest = trial[1]
        reached = walk(H, ids, adds, trial, near, begin, moves, tenures, tolerance, best, stay, hold, open)
        if reached > value + tolerance:
            value = reached
            for place in range(size):
                chosen[place] = best[place]
    if tie >= 0:
        shuffle_ties(H, ids, gains, chosen, state, tie, inside, adds)
    return value
