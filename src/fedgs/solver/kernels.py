"""Compiled loops of the search. Loaded by `load_kernels`; the NumPy reference of each is in `plain`.

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
def fill(H: Any, ids: Any, gains: Any, chosen: Any, inside: Any, adds: Any) -> float:
    """Set `inside` and `adds` for a choice; its value. O(p·r)."""
    size = len(chosen)
    count = len(ids)
    for j in range(count):
        inside[j] = False
        adds[j] = gains[j]
    for place in range(size):
        inside[chosen[place]] = True
        row = H[ids[chosen[place]]]
        for j in range(count):
            adds[j] += row[ids[j]]
    value = 0.0
    for place in range(size):
        value += (adds[chosen[place]] + gains[chosen[place]]) / 2
    return value


@inlined
def grow(H: Any, ids: Any, gains: Any, first: int, chosen: Any, inside: Any, adds: Any) -> float:
    """Greedy: begin with `first` (the largest gain where it is negative), then always take what adds most. O(p·r)."""
    size = len(chosen)
    count = len(ids)
    for j in range(count):
        inside[j] = False
        adds[j] = gains[j]
    value = 0.0
    for step in range(size):
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
        row = H[ids[best]]
        for j in range(count):
            adds[j] += row[ids[j]]
    return value


@inlined
def best_swap(H: Any, ids: Any, adds: Any, inside: Any, tabu: Any, now: int, low: Any, high: Any, tolerance: float) -> Any:
    """The exchange that changes the value most, tabu positions left alone: (leave, enter, change), (-1, -1, -inf) if none.

    Exchanges of twins are left out: positions next to each other whose exchange changes nothing would use up the moves of a walk.
    Only positions that could beat the pair (smallest inside, largest outside) are compared: exact, and about O(p).
    """
    count = len(ids)
    least, most, leave, enter = np.inf, -np.inf, -1, -1
    for j in range(count):
        if tabu[j] <= now:
            if inside[j]:
                if adds[j] < least:
                    least, leave = adds[j], j
            elif adds[j] > most:
                most, enter = adds[j], j
    if leave < 0 or enter < 0:
        return -1, -1, -np.inf
    row = H[ids[leave]]
    near = 1e6 * tolerance
    between = row[ids[enter]]
    floor = most - least - between
    if between <= near and abs(floor) <= tolerance:
        floor = -np.inf
        for j in range(count):
            if tabu[j] <= now and not inside[j]:
                between = row[ids[j]]
                if between > near and adds[j] - least - between > floor:
                    floor = adds[j] - least - between
    lows, highs = 0, 0
    for j in range(count):
        if tabu[j] <= now:
            if inside[j]:
                if most - adds[j] >= floor:
                    low[lows] = j
                    lows += 1
            elif adds[j] - least >= floor:
                high[highs] = j
                highs += 1
    change = -np.inf
    for a in range(lows):
        i = low[a]
        row = H[ids[i]]
        own = adds[i]
        if most - own <= change:
            continue
        for b in range(highs):
            j = high[b]
            gap = adds[j] - own
            if gap > change and gap >= floor:
                between = row[ids[j]]
                gap -= between
                if gap > change and (abs(gap) > tolerance or between > near):
                    change, leave, enter = gap, i, j
    if change == -np.inf:
        leave = -1
    return leave, enter, change


@inlined
def exchange(H: Any, ids: Any, adds: Any, inside: Any, leave: int, enter: int) -> None:
    """Make a swap. O(p)."""
    count = len(ids)
    inside[leave] = False
    inside[enter] = True
    gone, come = H[ids[leave]], H[ids[enter]]
    for j in range(count):
        adds[j] += come[ids[j]] - gone[ids[j]]


@inlined
def walk(
    H: Any, ids: Any, adds: Any, inside: Any, value: float, idle: int, tenures: Any, tolerance: float, best: Any, tabu: Any
) -> float:
    """Tabu search from the current choice until `idle` moves in a row have not improved; `best` gets the best choice seen.

    With idle = 0 it is the plain best-swap descent: it stops at the first move that does not improve. A client that left
    stays out for tenures[0] moves, one that came stays in for tenures[1].
    """
    count = len(ids)
    low, high = np.empty(len(ids), np.int64), np.empty(len(ids), np.int64)
    reached, since, now = value, 0, 0
    for j in range(count):
        tabu[j] = 0
        best[j] = inside[j]
    while now < 1_000_000:
        leave, enter, change = best_swap(H, ids, adds, inside, tabu, now, low, high, tolerance)
        if leave < 0 or (idle == 0 and change <= tolerance):
            break
        exchange(H, ids, adds, inside, leave, enter)
        value += change
        now += 1
        tabu[leave] = now + tenures[0]
        tabu[enter] = now + tenures[1]
        if idle == 0:
            tabu[leave] = tabu[enter] = 0
        if value > reached + tolerance:
            reached, since = value, 0
            for j in range(count):
                best[j] = inside[j]
        else:
            since += 1
            if since >= idle:
                break
    return reached


@inlined
def positions(inside: Any, chosen: Any) -> None:
    """The chosen positions, ascending."""
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
    inside, best, adds = np.empty(count, np.bool_), np.empty(count, np.bool_), np.empty(count, np.float64)
    tabu, tenures = np.empty(count, np.int64), np.empty(2, np.int64)
    trial, outside = np.empty(size, np.int64), np.empty(count, np.int64)
    starts = len(firsts)
    for task in range(-1, starts + rounds):
        if value >= target - tolerance:
            break
        tenures[0] = tenures[1] = 0
        if task == -1:
            if chosen[0] < 0 or value > -np.inf:
                continue
            begin = fill(H, ids, gains, chosen, inside, adds)
        elif task < starts:
            first = farthest(H, ids, gains) if firsts[task] == -2 else firsts[task]
            begin = grow(H, ids, gains, first, trial, inside, adds)
        else:
            perturb(chosen, inside, outside, trial, style[4], style[5], state)
            tenures[0] = min(count - size - 1, style[0] + below(state, style[1]))
            tenures[1] = min(size - 1, style[2] + below(state, style[3]))
            begin = fill(H, ids, gains, trial, inside, adds)
        reached = walk(H, ids, adds, inside, begin, idle if task >= starts else 0, tenures, tolerance, best, tabu)
        if reached > value + tolerance:
            value = reached
            positions(best, chosen)
    return value


@compiled
def shuffle_ties(H: Any, ids: Any, gains: Any, chosen: Any, state: Any, tie: float) -> None:
    """Exchange each chosen position, twice, with one drawn from those that leave the value as it is (to `tie`)."""
    count = len(ids)
    inside, adds = np.empty(count, np.bool_), np.empty(count, np.float64)
    fill(H, ids, gains, chosen, inside, adds)
    for step in range(2 * len(chosen)):
        place = step % len(chosen)
        leave = chosen[place]
        row = H[ids[leave]]
        enter, equals = leave, 1
        for j in range(count):
            if not inside[j]:
                change = adds[j] - adds[leave]
                if change >= -tie and abs(change - row[ids[j]]) <= tie:
                    equals += 1
                    if below(state, equals) == 0:
                        enter = j
        if enter != leave:
            exchange(H, ids, adds, inside, leave, enter)
            chosen[place] = enter
    positions(inside, chosen)


@compiled
def longest_pairs(W: Any, members: Any, count: int, size: int, half: Any, top: Any) -> None:
    """half[i] = half the sum of the `size` longest distances from members[i] to other members. O(count²·size) at worst."""
    for a in range(count):
        row = W[members[a]]
        filled = 0
        total = 0.0
        for b in range(count):
            if b != a:
                length = row[members[b]]
                if filled < size or length > top[size - 1]:
                    place = filled
                    if filled < size:
                        filled += 1
                    else:
                        total -= top[size - 1]
                        place = size - 1
                    total += length
                    while place > 0 and top[place - 1] < length:
                        top[place] = top[place - 1]
                        place -= 1
                    top[place] = length
        half[a] = total / 2


@compiled
def potentials(H: Any, ids: Any, gains: Any, size: int, each: Any) -> None:
    """each[i] = the gain and half of the r-1 longest pairs of position i: no choice is worth more than its r largest. O(p²)."""
    count = len(ids)
    longest_pairs(H, ids, len(ids), size - 1, each, np.empty(size, np.float64))
    for j in range(count):
        each[j] += gains[j]


@compiled
def rank(W: Any, members: Any, adds: Any, potential: Any, count: int, rest: int, top: Any) -> None:
    """Potentials adds + half the `rest` longest pairs, for the open positions of a node, which are put in descending order."""
    longest_pairs(W, members, count, rest, potential, top)
    for a in range(count):
        potential[a] += adds[a]
    for a in range(1, count):
        key, member, add = potential[a], members[a], adds[a]
        b = a
        while b > 0 and potential[b - 1] < key:
            potential[b], members[b], adds[b] = potential[b - 1], members[b - 1], adds[b - 1]
            b -= 1
        potential[b], members[b], adds[b] = key, member, add


@compiled
def branch(
    W: Any,
    members: Any,
    adds: Any,
    potential: Any,
    counts: Any,
    nexts: Any,
    values: Any,
    path: Any,
    chosen: Any,
    meta: Any,
    work: int,
) -> float:
    """Depth-first branch and bound on (p, p) distances W; goes on where it stopped.

    meta = [best value, tolerance, depth]; depth -1 when all is proven. Row d of `members`, `adds`, `potential` holds the
    positions that are open after d have been chosen (`path`); r >= 3. `work` limits the number of distances looked at.
    """
    size = len(chosen)
    best, tolerance, depth = meta[0], meta[1], int(meta[2])
    top = np.empty(size, np.float64)
    done = 0
    while depth >= 0 and done < work:
        left = size - depth
        at = nexts[depth]
        bound = values[depth]
        if at + left <= counts[depth]:
            for a in range(at, at + left):
                bound += potential[depth, a]
        else:
            bound = -np.inf
        if bound <= best + tolerance:
            depth -= 1
            continue
        nexts[depth] += 1
        member = members[depth, at]
        path[depth] = member
        value = values[depth] + adds[depth, at]
        row = W[member]
        deeper = depth + 1
        count: Any = np.int64(0)  # with a plain 0 numba compiles `rank` twice
        for a in range(at + 1, counts[depth]):
            other = members[depth, a]
            members[deeper, count] = other
            adds[deeper, count] = adds[depth, a] + row[other]
            count += 1
        done += count
        if left == 3:  # two more: the best pair at once
            for a in range(count):
                one = W[members[deeper, a]]
                base = value + adds[deeper, a]
                for b in range(a):
                    total = base + adds[deeper, b] + one[members[deeper, b]]
                    if total > best + tolerance:
                        best = total
                        for place in range(size - 2):
                            chosen[place] = path[place]
                        chosen[size - 2], chosen[size - 1] = members[deeper, a], members[deeper, b]
            done += count * count // 2
            continue
        rank(W, members[deeper], adds[deeper], potential[deeper], count, left - 2, top)
        done += count * count
        counts[deeper], nexts[deeper], values[deeper] = count, 0, value
        depth = deeper
    meta[0], meta[2] = best, depth
    return float(best)


@compiled
def try_all(W: Any, gains: Any, chosen: Any) -> float:
    """The best of all choices by trying every one, without any bound: a referee. O(comb(p, r)·r)."""
    count, size = len(gains), len(chosen)
    at, sums = np.empty(size, np.int64), np.empty(size + 1, np.float64)
    sums[0] = 0.0
    best, depth = -np.inf, 0
    at[0] = -1
    while depth >= 0:
        at[depth] += 1
        if at[depth] > count - size + depth:
            depth -= 1
            continue
        total = sums[depth] + gains[at[depth]]
        for place in range(depth):
            total += W[at[place], at[depth]]
        if depth == size - 1:
            if total > best:
                best = total
                for place in range(size):
                    chosen[place] = at[place]
        else:
            sums[depth + 1] = total
            at[depth + 1] = at[depth]
            depth += 1
    return best
