"""Compiled steps for small pools, loaded by `load_kernels`.

They do what `reduction`, `plain.row_bound` and `plain.enumerate_all` do, which they are tested
against. In small pools, the overhead of NumPy's calls exceeds the work.
"""

from typing import Any

import numpy as np

from fedgs.compiling import compiled
from fedgs.solver.kernels.search import below


@compiled
def insert(value: float, top: Any, count: int) -> None:
    """Insert `value` into top[:count], the largest values so far in descending order."""
    if value > top[count - 1]:
        place = count - 1
        while place > 0 and top[place - 1] < value:
            top[place] = top[place - 1]
            place -= 1
        top[place] = value


@compiled
def begin(clients: Any, penalty: Any, weight: float, spread: float, state: Any, gains: Any) -> bool:
    """Shuffle the clients; `gains` gets their negative penalties.

    Returns whether these differ by more than `spread`. If not, nothing can be decided before the
    search, and the gains are converted to units of distance, the first one's subtracted.
    """
    for i in range(len(clients) - 1, 0, -1):
        j = below(state, i + 1)
        clients[i], clients[j] = clients[j], clients[i]
    lowest, highest = np.inf, -np.inf
    for i in range(len(clients)):
        gains[i] = -penalty[clients[i]]
        lowest = gains[i] if gains[i] < lowest else lowest
        highest = gains[i] if gains[i] > highest else highest
    if highest - lowest > spread:
        return True
    first = gains[0]
    for i in range(len(clients)):
        gains[i] = (gains[i] - first) / weight
    return False


@compiled
def narrow(
    H: Any, clients: Any, gains: Any, weight: float, largest: float, cohort: Any, reals: Any
) -> tuple[int, int]:
    """As `reduction.reduced`: how many clients every best cohort holds, and how many remain open.

    `cohort` begins with the former afterwards, `clients` and `gains` with the latter, in their
    order. `gains` are converted to units of distance. Of `reals`, one row of one more than the
    cohort is used.
    """
    size, count, taken, unit, top = len(cohort), len(clients), 0, weight * largest, reals[0]
    for turn in range(size + 1):
        left, before = size - taken, taken
        lowest = gains[0]
        for k in range(left + 1):
            top[k] = -np.inf
        for i in range(count):
            lowest = gains[i] if gains[i] < lowest else lowest
            insert(gains[i], top, left + 1)
        least, most = -np.inf, np.inf  # gains below are out, gains above are in
        if top[0] - lowest > (left - 1) * unit:
            delta = (left - 1) * unit * (1 + 1e-12) + 1e-14 * (abs(top[left - 1]) + abs(top[left]))
            least, most = top[left - 1] - delta, top[left] + delta
        total, count = count, 0
        for i in range(total):
            doubt = 1e-14 * abs(gains[i])
            if gains[i] - doubt > most:
                cohort[taken] = clients[i]
                taken += 1
            elif gains[i] + doubt >= least:
                clients[count], gains[count] = clients[i], gains[i]
                count += 1
        if taken == size or size - taken == count:
            break
        if turn == 0:
            first = gains[0]
            for i in range(count):
                gains[i] = (gains[i] - first) / weight
            unit = largest
        if taken == before:
            break
        for i in range(count):
            added = 0.0
            for place in range(before, taken):
                added += H[cohort[place], clients[i]]
            gains[i] += added
    return taken, count


@compiled
def row_bound(H: Any, clients: Any, gains: Any, size: int, reals: Any, longest: Any) -> float:
    """A value that no choice exceeds: each position counts half of its r-1 longest pairs.

    O(p²·r) in vector instructions, for r >= 2. Of `reals`, two rows of p are used, of `longest` r-1
    rows of p.
    """
    count, row, best = len(clients), reals[0], reals[1]
    for k in range(size - 1):
        for i in range(count):
            longest[k, i] = 0.0
    for j in range(count):
        for i in range(count):
            row[i] = H[clients[j], clients[i]]
        for k in range(size - 1):  # longest[:, i] stays in descending order
            for i in range(count):
                a, b = row[i], longest[k, i]
                longest[k, i], row[i] = a if a > b else b, b if a > b else a
    for k in range(size):
        best[k] = -np.inf
    for i in range(count):
        each = gains[i]
        for k in range(size - 1):
            each += longest[k, i] / 2
        insert(each, best, size)
    bound = 0.0
    for k in range(size):
        bound += best[k]
    return bound


@compiled
def conclude(H: Any, penalty: Any, weight: float, cohort: Any) -> float:
    """Sort the cohort in place; its objective."""
    for a in range(len(cohort)):
        client, b = cohort[a], a
        while b > 0 and cohort[b - 1] > client:
            cohort[b] = cohort[b - 1]
            b -= 1
        cohort[b] = client
    pairs = prices = 0.0
    for a in range(len(cohort)):
        prices += penalty[cohort[a]]
        for b in range(a):
            pairs += H[cohort[a], cohort[b]]
    return weight * pairs - prices


@compiled
def try_all(
    H: Any, clients: Any, gains: Any, chosen: Any, tolerance: float, ints: Any, reals: Any
) -> float:
    """The best of all choices by enumeration, the first of those within `tolerance`.

    O(comb(p, r)·r), without any bound. Of `ints` and `reals`, one row of r is used.
    """
    count, size, at, sums = len(gains), len(chosen), ints[0], reals[0]
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
            total += H[clients[at[place]], clients[at[depth]]]
        if depth == size - 1:
            if total > best + tolerance:
                best = total
                for place in range(size):
                    chosen[place] = at[place]
        else:
            sums[depth + 1] = total
            at[depth + 1] = at[depth]
            depth += 1
    return best
