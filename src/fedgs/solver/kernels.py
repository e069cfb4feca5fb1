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


@compiled
def fill(H: Any, ids: Any, gains: Any, chosen: Any, near: Any, adds: Any) -> float:
    """Set `adds` and `near`, the chosen positions' distances, (r, p), for a choice; its value. O(p·r)."""
    for j in range(len(ids)):
        adds[j] = gains[j]
    for place in range(len(chosen)):
        row, own = H[ids[chosen[place]]], near[place]
        for j in range(len(ids)):
            own[j] = row[ids[j]]
            adds[j] += own[j]
    value = 0.0
    for place in range(len(chosen)):
        value += (adds[chosen[place]] + gains[chosen[place]]) / 2
    return value


@inlined
def grow(H: Any, ids: Any, gains: Any, first: int, chosen: Any, near: Any, adds: Any, inside: Any) -> float:
    """Greedy: begin with `first` (the largest gain where it is negative), then always take what adds most. O(p·r)."""
    count = len(ids)
    for j in range(count):
        inside[j] = False
        adds[j] = gains[j]
    value = 0.0
    for step in range(len(chosen)):
        best = first
        if step > 0 or first < 0:
            best, most = -1, -np.inf
            for j in range(count):
                if adds[j] > most and not inside[j]:
                    most = adds[j]
                    best = j
        chosen[step] = best
        inside[best] = True
        value += adds[best]
        row, own = H[ids[best]], near[step]
        for j in range(count):
            own[j] = row[ids[j]]
            adds[j] += own[j]
    return value


@compiled
def replace(H: Any, ids: Any, near: Any, place: int, enter: int, adds: Any) -> None:
    """`enter` takes a place in the choice. O(p)."""
    row, own = H[ids[enter]], near[place]
    for j in range(len(ids)):
        length = row[ids[j]]
        adds[j] += length - own[j]
        own[j] = length


def _openings(adds: Any, hold: Any, now: int, open: Any) -> float:
    """`open`: `adds` of the positions that may enter, -inf for the others; the largest of them."""
    most = -np.inf
    for j in range(len(adds)):
        open[j] = adds[j] if hold[j] <= now else -np.inf
        most = open[j] if open[j] > most else most
    return most


def _highest(open: Any, row: Any) -> float:
    """The largest open[j] - row[j]."""
    most = -np.inf
    for j in range(len(open)):
        value = open[j] - row[j]
        most = value if value > most else most
    return most


# Nothing here is NaN, and told so the compiler makes vector instructions of a maximum.
openings = compiled(_openings, fastmath={"nnan", "nsz"})
highest = compiled(_highest, fastmath={"nnan", "nsz"})


@compiled
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
        own, row = adds[ins[a]], near[a]
        if stay[a] > now or most - own < change or turn == lowest:
            continue
        top, at = highest(open, row), -1
        if abs(top - own) <= tolerance:  # perhaps a twin
            top = -np.inf
            for j in range(len(open)):
                value = open[j] - row[j]
                if value > top and (abs(value - own) > tolerance or row[j] > 1e6 * tolerance):
                    top, at = value, j
        gap = top - own
        if gap < change or top == -np.inf or (gap == change and ins[a] > ins[leave]):
            continue
        if at < 0:
            at = 0
            while open[at] - row[at] != top:
                at += 1
        leave, enter, change = a, at, gap
    return leave, enter, change


@compiled
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
    now: Any = np.int64(0)  # with a plain 0 numba compiles `best_swap` twice
    while now < 1_000_000:
        place, enter, change = best_swap(adds, ins, near, stay, hold, now, open, tolerance)
        if place < 0 or (idle == 0 and change <= tolerance):
            break
        replace(H, ids, near, place, enter, adds)
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
def ascending(members: Any, inside: Any, chosen: Any) -> None:
    """`chosen`: the members, ascending."""
    for j in range(len(inside)):
        inside[j] = False
    for place in range(len(members)):
        inside[members[place]] = True
    count = 0
    for j in range(len(inside)):
        if inside[j]:
            chosen[count] = j
            count += 1


@inlined
def farthest(H: Any, ids: Any, gains: Any) -> int:
    """The position that adds most to the one with the largest gain."""
    count = len(ids)
    top = 0
    for j in range(1, count):
        if gains[j] > gains[top]:
            top = j
    far, most = 0, -np.inf
    for j in range(count):
        reach = gains[j] + H[ids[top], ids[j]]
        if j != top and reach > most:
            far, most = j, reach
    return far


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


@compiled
def search(
    H: Any,
    ids: Any,
    gains: Any,
    chosen: Any,
    value: float,
    firsts: Any,
    rounds: int,
    idle: int,
    style: Any,
    state: Any,
    target: float,
    tolerance: float,
) -> float:
    """Starts with best-swap descent, then rounds of (perturbation, tabu walk) from the best choice so far.

    The starts: `chosen` as it comes, where `value` is -inf and chosen[0] >= 0; then a greedy choice for each of `firsts`: -1
    stands for the position with the largest gain, -2 for the one farthest from it. `chosen` gets the best, ascending; its value
    is returned. To go on later, call with that value and no `firsts`. For `style` see `residual.Plan`.
    """
    count, size = len(ids), len(chosen)
    inside, outside, adds, open = np.empty(count, np.bool_), np.empty(count, np.int64), np.empty(count), np.empty(count)
    trial, best, near = np.empty(size, np.int64), np.empty(size, np.int64), np.empty((size, count))
    stay, hold, tenures = np.empty(size, np.int64), np.empty(count, np.int64), np.empty(2, np.int64)
    starts = len(firsts)
    for task in range(-1, starts + rounds):
        if value >= target - tolerance:
            break
        tenures[0] = tenures[1] = 0
        if task == -1:
            if chosen[0] < 0 or value > -np.inf:
                continue
            for place in range(size):
                trial[place] = chosen[place]
            begin = fill(H, ids, gains, trial, near, adds)
        elif task < starts:
            first = farthest(H, ids, gains) if firsts[task] == -2 else firsts[task]
            begin = grow(H, ids, gains, first, trial, near, adds, inside)
        else:
            perturb(chosen, inside, outside, trial, style[4], style[5], state)
            tenures[0] = min(count - size - 1, style[0] + below(state, style[1]))
            tenures[1] = min(size - 1, style[2] + below(state, style[3]))
            begin = fill(H, ids, gains, trial, near, adds)
        moves = idle if task >= starts else 0
        reached = walk(H, ids, adds, trial, near, begin, moves, tenures, tolerance, best, stay, hold, open)
        if reached > value + tolerance:
            value = reached
            ascending(best, inside, chosen)
    return value


@compiled
def shuffle_ties(H: Any, ids: Any, gains: Any, chosen: Any, state: Any, tie: float) -> None:
    """Exchange each chosen position, twice, with one drawn from those that leave the value as it is (to `tie`)."""
    count, size = len(ids), len(chosen)
    inside, adds, near = np.zeros(count, np.bool_), np.empty(count), np.empty((size, count))
    fill(H, ids, gains, chosen, near, adds)
    for place in range(size):
        inside[chosen[place]] = True
    for step in range(2 * size):
        place = step % size
        leave, row = chosen[place], near[place]
        enter, equals = leave, 1
        for j in range(count):
            if abs(adds[j] - adds[leave] - row[j]) <= tie and not inside[j]:
                equals += 1
                if below(state, equals) == 0:
                    enter = j
        if enter != leave:
            replace(H, ids, near, place, enter, adds)
            inside[leave], inside[enter] = False, True
            chosen[place] = enter
    ascending(chosen, inside, chosen)
