"""Compiled tree knapsack. Loaded by `load_kernels`; the NumPy reference is in `tree`.

Arrays describe the relevant part of a spanning forest in preorder: vertex a has its parent up[a] < a (-1 for a root), length
above[a] of the edge to it, gain gains[a] (NaN where it cannot be chosen), and stands before its descendants.
"""

from typing import Any

import numpy as np

from fedgs.compiling import compiled, inlined


@compiled
def relevant(parent: Any, above: Any, order: Any, clients: Any, gains: Any) -> Any:
    """The part of a forest below which something can be chosen, in preorder: place in `clients` (-1: none), up, above, gains."""
    count = len(parent)
    weight, place_of, free = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    for vertex in range(count):
        weight[vertex], place_of[vertex] = 0, -1
    for i in range(len(clients)):
        weight[clients[i]] = 1
    for place in range(count - 1, -1, -1):
        vertex = order[place]  # weight: relevant vertices in the subtree; what can be chosen has been counted
        if weight[vertex] > 0 and parent[vertex] >= 0:
            if weight[parent[vertex]] == 0:
                weight[parent[vertex]] = 1
            weight[parent[vertex]] += weight[vertex]
    total = 0
    for place in range(count):
        vertex = order[place]
        if weight[vertex] > 0:
            if parent[vertex] < 0:
                place_of[vertex] = total
                total += weight[vertex]
            else:
                place_of[vertex] = free[parent[vertex]]
                free[parent[vertex]] += weight[vertex]
            free[vertex] = place_of[vertex] + 1
    member, up = np.empty(total, np.int64), np.empty(total, np.int64)
    lengths, own = np.empty(total, np.float64), np.empty(total, np.float64)
    for vertex in range(count):
        place = place_of[vertex]
        if place >= 0:
            member[place], own[place], lengths[place] = -1, np.nan, above[vertex]
            up[place] = place_of[parent[vertex]] if parent[vertex] >= 0 else -1
    for i in range(len(clients)):
        place = place_of[clients[i]]
        member[place], own[place] = i, gains[i]
    return member, up, lengths, own


@compiled
def knapsack(up: Any, above: Any, gains: Any, start: int, stop: int, size: int, traced: bool, picked: Any) -> float:
    """The best choice of `size` vertices of the tree at start..stop-1, by tree distances and gains; sets `picked` if `traced`.

    f_v(k), the most that k choices below v give, gains above·k·(size-k) on the edge to the parent; children merge by max-plus
    convolution. Tables of finished subtrees lie on a stack: the first child's is on top. O(n·size).
    """
    count = stop - start
    amount, offset = np.empty(count, np.int64), np.empty(count, np.int64)
    for a in range(count):
        amount[a] = offset[a] = 0
    room = 0
    if traced:
        for a in range(count - 1, -1, -1):  # how many can be chosen in each subtree
            if gains[start + a] == gains[start + a]:
                amount[a] += 1
            if a > 0:
                amount[up[start + a] - start] += amount[a]
        for a in range(1, count):
            offset[a] = room
            room += min(amount[up[start + a] - start], size) + 1
        for a in range(count):
            amount[a] = 0
    splits = np.empty(room, np.int32)
    stack, places = np.empty(3 * count + 3, np.float64), np.empty(count + 1, np.int64)
    table, merged = np.empty(size + 1, np.float64), np.empty(size + 1, np.float64)
    tables, end = 0, 0
    for a in range(count - 1, -1, -1):
        own = gains[start + a]
        table[0] = 0.0
        length = 0
        if own == own:
            table[1] = own
            length = 1
        for _ in range(amount[a]):  # by now the number of its children
            tables -= 1
            child = places[tables]
            reach = int(stack[end - 1])  # a table ends with the largest number it has
            low = end - 2 - reach
            longer = min(length + reach, size)
            for k in range(longer + 1):
                merged[k] = -np.inf
            base = offset[child]
            for b in range(reach + 1):
                value = stack[low + b]
                for c in range(min(length, size - b) + 1):
                    both = value + table[c]
                    if both > merged[b + c]:
                        merged[b + c] = both
                        if traced:
                            splits[base + b + c] = b
            length = longer
            for k in range(length + 1):
                table[k] = merged[k]
            end = low
        if a == 0:
            break
        amount[up[start + a] - start] += 1
        for k in range(length + 1):
            stack[end + k] = table[k] + above[start + a] * k * (size - k)
        end += length + 1
        stack[end] = length
        end += 1
        places[tables] = a
        tables += 1
    if length < size:
        return -np.inf
    if traced:
        trace(up, gains, start, stop, size, offset, splits, picked)
    return float(table[size])


@compiled
def best_on_tree(parent: Any, above: Any, order: Any, clients: Any, gains: Any, size: int, chosen: Any) -> float:
    """The best choice on one tree, its positions ascending in `chosen`; NaN where what can be chosen lies in several trees."""
    member, up, lengths, own = relevant(parent, above, order, clients, gains)
    total, count = len(up), len(clients)
    for a in range(1, total):
        if up[a] < 0:
            return np.nan
    picked, inside = np.empty(total, np.bool_), np.empty(count, np.bool_)
    value = knapsack(up, lengths, own, 0, total, size, True, picked)
    for a in range(total):
        if member[a] >= 0:
            inside[member[a]] = picked[a]
    place = 0
    for i in range(count):
        if inside[i]:
            chosen[place] = i
            place += 1
    return value


@inlined
def trace(up: Any, gains: Any, start: int, stop: int, size: int, offset: Any, splits: Any, picked: Any) -> None:
    """Follow the splits from the root down. Children were merged in preorder, so they are undone in reverse."""
    count = stop - start
    wanted = np.empty(count, np.int64)
    # The last child merged is undone first: children of a vertex, latest first, as a linked list.
    latest, previous = np.empty(count, np.int64), np.empty(count, np.int64)
    for a in range(count):
        wanted[a], latest[a], previous[a] = 0, -1, -1
    wanted[0] = size
    for a in range(1, count):
        above = up[start + a] - start
        previous[a] = latest[above]
        latest[above] = a
    for a in range(count):
        left = wanted[a]
        child = latest[a]
        while child >= 0:
            wanted[child] = splits[offset[child] + left]
            left -= wanted[child]
            child = previous[child]
        picked[start + a] = left > 0 and gains[start + a] == gains[start + a]
