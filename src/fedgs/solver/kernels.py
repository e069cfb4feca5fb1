"""Compiled loops of the search. Loaded by `load_kernels`; references in NumPy are in `plain`, proofs in `proof_kernels`.

A residual problem is (H, ids, gains, r): choose r of p positions; position i is the client ids[i] with linear gain gains[i], and
a pair i, j adds H[ids[i], ids[j]]. `adds[i]` is what position i has with the current choice: gains[i] + its distances to the
chosen. Positions are in an order drawn by the caller, so that "the first among equals" favours nobody.

Loops are written out, since array expressions take seconds to compile. The search is one kernel of inner functions that share its
arrays: numba compiles them in place, which is faster, and runs faster, than functions that hand arrays to each other. They carry
their types in comments because numba refuses annotations on inner functions.
"""

from typing import Any

import numpy as np

from fedgs.compiling import compiled

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
    with the largest gain, with the position farthest from that (starts = 2 leaves this out), and with any. `chosen` gets the
    best, in any order; its value is returned. To go on later, call with that value and starts = 0. With tie >= 0 chance decides
    in the end between choices whose values differ by no more. For `style` see `residual.Plan`.
    """
    count, size = len(ids), len(chosen)
    inside, outside, adds, open = np.empty(count, np.bool_), np.empty(count, np.int64), np.empty(count), np.empty(count)
    ins, near = np.empty(size, np.int64), np.empty((size, count))  # the present choice and its distances to all
    stay, hold = np.empty(size, np.int64), np.empty(count, np.int64)  # until which move a place keeps its position; one stays out

    def join(known, first):  # type: (int, int) -> float
        """Take the first `known` of `ins` as they are, the others greedily: always who adds most. The value. O(p·r).

        With first >= 0 that position comes first.
        """
        total = 0.0
        for j in range(count):
            inside[j] = False
            adds[j] = gains[j]
        for place in range(size):
            if place >= known:
                best, most = first, -np.inf
                if place > 0 or first < 0:
                    for j in range(count):
                        if adds[j] > most and not inside[j]:
                            best, most = j, adds[j]
                ins[place] = best
            total += adds[ins[place]]
            inside[ins[place]] = True
            member = ids[ins[place]]
            for j in range(count):
                near[place, j] = H[member, ids[j]]
            for j in range(count):
                adds[j] += near[place, j]
        return total

    def best_swap(now):  # type: (int) -> tuple[int, int, float]
        """The exchange that changes the value most: (place, who enters, change); place -1 where there is none. O(p·r) at worst.

        Exchanges of twins are left out: positions next to each other whose exchange changes nothing would use up the moves of a
        walk. Of exchanges with the same change, the one with the smallest positions is taken, whatever their order in `ins`.
        """
        leave, enter, change = -1, -1, -np.inf
        most = openings(adds, hold, now, open)
        least, lowest = np.inf, -1
        for place in range(size):
            if adds[ins[place]] < least and stay[place] <= now:
                least, lowest = adds[ins[place]], place
        for turn in range(-1, size if lowest >= 0 and most > -np.inf else -1):
            place = lowest if turn < 0 else turn  # the smallest first, which then often rules the others out
            own = adds[ins[place]]
            if stay[place] > now or most - own < change or turn == lowest:
                continue
            top, at = highest(open, near, place), -1
            if abs(top - own) <= tolerance:  # perhaps a twin
                top = -np.inf
                for j in range(count):
                    other = open[j] - near[place, j]
                    if other > top and (abs(other - own) > tolerance or near[place, j] > 1e6 * tolerance):
                        top, at = other, j
            gap = top - own
            if gap < change or top == -np.inf or (gap == change and ins[place] > ins[leave]):
                continue
            if at < 0:
                at = 0
                while open[at] - near[place, at] != top:
                    at += 1
            leave, enter, change = place, at, gap
        return leave, enter, change

    def walk(current, moves, out, remain):  # type: (float, int, int, int) -> tuple[float, float]
        """Tabu search from `ins`, whose value is `current`, until so many moves in a row have not improved on its best.

        With moves = 0 it is the plain best-swap descent: it stops at the first move that does not improve. A client that left
        stays out for `out` moves, one that came stays in for `remain`. `chosen` gets what is better than the best value so far.
        The best value, and the one at the end.
        """
        best, reached, since, now = value, current, 0, 0
        for j in range(count):
            hold[j] = 0
        for place in range(size):
            hold[ins[place]], stay[place] = _MEMBER, 0
        while True:
            if current > best + tolerance:
                best = current
                for place in range(size):
                    chosen[place] = ins[place]
            if since > moves or (since == moves > 0) or now == 1_000_000:
                break
            place, enter, change = best_swap(now)
            if place < 0 or (moves == 0 and change <= tolerance):
                break
            member = ids[enter]
            for j in range(count):
                length = H[member, ids[j]]
                adds[j] += length - near[place, j]
                near[place, j] = length
            leave, ins[place] = ins[place], enter
            current, now, since = current + change, now + 1, since + 1
            hold[enter], hold[leave] = _MEMBER, 0
            if moves > 0:
                hold[leave], stay[place] = now + out, now + remain
            if current > reached + tolerance:
                reached, since = current, 0
        return best, current

    def perturb():  # type: () -> None
        """`ins`: the best choice with style[4] to style[5] of its positions, drawn at random, exchanged for others."""
        others = 0
        for j in range(count):
            inside[j] = False
        for place in range(size):
            inside[chosen[place]] = True
            ins[place] = chosen[place]
        for j in range(count):
            if not inside[j]:
                outside[others] = j
                others += 1
        least = min(style[4], min(size, others))
        most = max(least, min(style[5], min(size, others)))
        for step in range(least + below(state, most - least + 1)):
            # Without replacement: whoever was moved lies before `step`.
            a = step + below(state, size - step)
            b = step + below(state, others - step)
            leave, enter = ins[a], outside[b]
            ins[a], outside[b] = ins[step], outside[step]
            ins[step], outside[step] = enter, leave

    def shuffle_ties():  # type: () -> None
        """Exchange each chosen position, twice, with one drawn from those that leave the value as it is (to `tie`). O(p·r)."""
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
            member, own = ids[leave], adds[leave]
            enter, equals = leave, 1
            for j in range(count):
                if abs(adds[j] - own - H[member, ids[j]]) <= tie and not inside[j]:
                    equals += 1
                    if below(state, equals) == 0:
                        enter = j
            if enter != leave:
                other = ids[enter]
                for j in range(count):
                    adds[j] += H[other, ids[j]] - H[member, ids[j]]
                inside[leave], inside[enter] = False, True
                chosen[step % size] = enter

    farthest = -1
    drawn = below(state, count) if starts > 0 else -1
    for task in range(-1, starts + rounds):
        if value >= target - tolerance:
            break
        if task == -1 and (chosen[0] < 0 or value > -np.inf):
            continue
        known, first, moves, out, remain = size, -1, 0, 0, 0
        if task == -1:
            for place in range(size):
                ins[place] = chosen[place]
        elif task < starts:
            known, first = 0, drawn if task == starts - 1 else -1 if task == 0 else farthest
        else:
            perturb()
            out = min(count - size - 1, style[0] + below(state, style[1]))
            remain = min(size - 1, style[2] + below(state, style[3]))
            moves = idle
        current = join(known, first)
        if task == 0:
            farthest = ins[1]
        value, current = walk(current, moves, out, remain)
        if moves == 0 and current > value - 1e-3 * tolerance:  # of equal starts the last: the choice that begins with any client
            value = current
            for place in range(size):
                chosen[place] = ins[place]
    if tie >= 0:
        shuffle_ties()
    return value
