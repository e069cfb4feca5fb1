"""Compiled tree knapsack. Loaded by `load_kernels`; the NumPy reference is in `tree`.

Arrays describe a spanning forest in preorder: vertex a has its parent up[a] < a (-1 for a root), length above[a] of the edge to
it, gain gains[a] (NaN where it cannot be chosen), and its descendants follow it without a gap.
"""

from typing import Any

import numpy as np

from fedgs.compiling import compiled


@compiled
def knapsack(up: Any, above: Any, gains: Any, start: int, stop: int, size: int, picked: Any) -> float:
    """The best choice of `size` vertices of the tree at start..stop-1, by tree distances and gains; `picked` says which.

    f_v(k), the most that k choices below v give, gains above·k·(size-k) on the edge to the parent; children merge by max-plus
    convolution, the last first. The tables of what is not yet finished lie on a stack. -inf where the tree has fewer vertices
    to choose. O(n·size).
    """
    count = stop - start
    amount, first, length = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    for a in range(count):
        amount[a] = 1 if gains[start + a] == gains[start + a] else 0
        length[a] = -1  # no table yet
    room = 0
    for a in range(count - 1, 0, -1):  # how many can be chosen in each subtree, and the space that its merges take
        parent = up[start + a] - start
        amount[parent] += amount[a]
        room += min(amount[parent], size) + 1
    if amount[0] < size:
        return -np.inf
    splits, offset = np.empty(room, np.int32), np.empty(count, np.int64)
    stack, merged = np.empty(2 * count + 2, np.float64), np.empty(size + 1, np.float64)
    end = room = 0
    for a in range(count - 1, 0, -1):
        if amount[a] == 0:
            continue
        parent = up[start + a] - start
        for _ in range(2):  # a table for what has none: a leaf, and a parent whose last child this is
            if length[a] < 0:
                first[a], length[a], stack[end], stack[end + 1] = end, 0, 0.0, gains[start + a]
                if stack[end + 1] == stack[end + 1]:
                    length[a] = 1
                end += length[a] + 1
            a, parent = parent, a
        low, high = first[a], first[parent]
        longer = min(length[a] + length[parent], size)
        for k in range(longer + 1):
            merged[k] = -np.inf
        for b in range(length[a] + 1):
            value = stack[low + b] + above[start + a] * b * (size - b)
            for c in range(min(length[parent], size - b) + 1):
                if value + stack[high + c] > merged[b + c]:
                    merged[b + c] = value + stack[high + c]
                    splits[room + b + c] = b
        offset[a] = room
        room += longer + 1
        first[parent], length[parent] = min(low, high), longer
        for k in range(longer + 1):
            stack[first[parent] + k] = merged[k]
        end = first[parent] + longer + 1
    # From the root down: the first child was merged last.
    wanted = amount
    reached = stack[size] if length[0] >= 0 else gains[start]
    wanted[0] = size
    for a in range(1, count):
        picked[start + a] = False
        if wanted[a] > 0:
            parent = up[start + a] - start
            wanted[a] = splits[offset[a] + wanted[parent]]
            wanted[parent] -= wanted[a]
    for a in range(count):
        picked[start + a] = wanted[a] > 0 and gains[start + a] == gains[start + a]
    return float(reached)
