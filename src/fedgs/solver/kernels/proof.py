"""Compiled branch and bound, loaded by `load_kernels` where a proof is tried.

W is a (p, p) matrix of distances between positions.
"""

from functools import partial
from typing import Any

import numpy as np

from fedgs.compiling import compiled
from fedgs.solver.kernels.small import insert

BEST, TOLERANCE, DEPTH = 0, 1, 2  # of `meta` in `branch`


@compiled
def longest_pairs(W: Any, halves: Any) -> None:
    """halves[k, i] = half the sum of the k longest distances from position i to others.

    For k = 0..r-1, r >= 2. O(p²·r) at worst.
    """
    longest, count = halves.shape[0] - 1, len(W)
    top = np.empty(longest)
    for i in range(count):
        for k in range(longest):
            top[k] = 0.0
        for j in range(count):
            insert(W[i, j], top, longest)
        halves[0, i] = 0.0
        for k in range(longest):
            halves[k + 1, i] = halves[k, i] + top[k] / 2


@partial(compiled, inline="always")
def rank(members: Any, adds: Any, potential: Any, count: int, half: Any) -> None:
    """Sort the open positions of a node by descending potential: adds + half the longest pairs."""
    for a in range(count):
        key, member, add = adds[a] + half[members[a]], members[a], adds[a]
        b = a
        while b > 0 and potential[b - 1] < key:
            potential[b], members[b], adds[b] = potential[b - 1], members[b - 1], adds[b - 1]
            b -= 1
        potential[b], members[b], adds[b] = key, member, add


@compiled
def branch(
    W: Any,
    halves: Any,
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
    """Depth-first branch and bound on (p, p) distances W; resumes where it stopped.

    `halves`: see `longest_pairs`, over all p positions. `meta` holds the best value, the tolerance
    and the depth, which is -1 when the proof is complete. Row d of `members`, `adds`, `potential`
    holds the positions that are open after d have been chosen (`path`); r >= 3. `work` limits the
    number of distances read.
    """
    size = len(chosen)
    best, tolerance, depth = meta[BEST], meta[TOLERANCE], int(meta[DEPTH])
    done = 0
    if nexts[0] == 0 and depth == 0:
        rank(members[0], adds[0], potential[0], counts[0], halves[size - 1])
    while depth >= 0 and done < work:
        left = size - depth
        at = nexts[depth]
        bound = values[depth]
        if at + left <= counts[depth]:
            for a in range(at, at + left):
                bound += potential[depth, a]
        if at + left > counts[depth] or bound <= best + tolerance:
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
            most = -np.inf
            for a in range(count):
                most = max(most, adds[deeper, a])
            for a in range(count):
                row = W[members[deeper, a]]
                base = value + adds[deeper, a]
                if base + most + 2 * halves[1, members[deeper, a]] <= best + tolerance:
                    continue
                done += a
                for b in range(a):
                    total = base + adds[deeper, b] + row[members[deeper, b]]
                    if total > best + tolerance:
                        best = total
                        for place in range(size - 2):
                            chosen[place] = path[place]
                        chosen[size - 2], chosen[size - 1] = members[deeper, a], members[deeper, b]
            continue
        rank(members[deeper], adds[deeper], potential[deeper], count, halves[left - 2])
        done += 5 * count
        counts[deeper], nexts[deeper], values[deeper] = count, 0, value
        depth = deeper
    meta[BEST], meta[DEPTH] = best, depth
    return float(best)
