"""Compiled tree knapsack. Loaded by `load_kernels`; the NumPy reference is in `tree`.

A spanning forest in preorder: vertex a has its parent up[a] < a (-1 for a root), length above[a] of
the edge to it, and its descendants follow it without a gap. Position i of those that can be chosen
is the vertex place[clients[i]] with gain gains[i].
"""

from typing import Any

import numpy as np

from fedgs.compiling import compiled


@compiled
def knapsack(
    up: Any,
    above: Any,
    place: Any,
    clients: Any,
    gains: Any,
    chance: float,
    start: int,
    stop: int,
    chosen: Any,
    ints: Any,
    reals: Any,
    splits: Any,
) -> float:
    """The best positions of the tree at start..stop-1, by tree distances and gains.

    They are written to `chosen`, ascending, as many as it has places. Their value is returned, -inf
    if the tree has fewer positions. f_v(k), the most that k choices below v give, gains
    above·k·(size-k) on the edge to the parent; children merge by max-plus convolution, the last
    first. The tables of unfinished vertices lie on a stack. Ties are broken by bonuses of `chance`
    times the square of the position, which are part of the value. O(n·size + p). For the last three
    arrays see `solver.tree.workspace`.
    """
    count, size = stop - start, len(chosen)
    amount, first, length, offset = ints[0], ints[1], ints[2], ints[3]
    gain, stack, merged = reals[0], reals[1], reals[2]
    # By vertex: the gain, NaN where nothing can be chosen; length -1: no table yet.
    for a in range(count):
        gain[a], amount[a], length[a] = np.nan, 0, -1
    for i in range(len(clients)):
        a = place[clients[i]] - start
        if 0 <= a < count:
            gain[a] = gains[i] + chance * i * i
            amount[a] = 1 if gain[a] == gain[a] else 0  # not for NaN
    for a in range(count - 1, 0, -1):  # how many can be chosen in each subtree
        amount[up[start + a] - start] += amount[a]
    if amount[0] < size:
        return -np.inf
    end = used = 0
    for a in range(count - 1, 0, -1):
        if amount[a] == 0:
            continue
        parent = up[start + a] - start
        # A table for a vertex without one: a leaf, and a parent whose last child this is.
        for _ in range(2):
            if length[a] < 0:
                first[a], length[a], stack[end], stack[end + 1] = end, 0, 0.0, gain[a]
                if stack[end + 1] == stack[end + 1]:
                    length[a] = 1
                end += length[a] + 1
            a, parent = parent, a
        low, high = first[a], first[parent]
        longer = min(length[a] + length[parent], size)
        for k in range(longer + 1):
            merged[k], splits[used + k] = -np.inf, max(0, k - length[parent])
        for b in range(length[a] + 1):
            value = stack[low + b] + above[start + a] * b * (size - b)
            for c in range(min(length[parent], size - b) + 1):
                if value + stack[high + c] > merged[b + c]:
                    merged[b + c] = value + stack[high + c]
                    splits[used + b + c] = b
        offset[a] = used
        used += longer + 1
        first[parent], length[parent] = min(low, high), longer
        for k in range(longer + 1):
            stack[first[parent] + k] = merged[k]
        end = first[parent] + longer + 1
    # From the root down: the first child was merged last.
    wanted = amount
    reached = stack[size] if length[0] >= 0 else gain[0]
    wanted[0] = size
    for a in range(1, count):
        if wanted[a] > 0:
            parent = up[start + a] - start
            wanted[a] = splits[offset[a] + wanted[parent]]
            wanted[parent] -= wanted[a]
    places = 0
    for i in range(len(clients)):
        a = place[clients[i]] - start
        if 0 <= a < count and wanted[a] > 0 and places < size:
            chosen[places] = i
            places += 1
    return float(reached)
