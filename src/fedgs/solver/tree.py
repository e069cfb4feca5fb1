"""Exact selection on a spanning forest: a start for the search, and an upper bound.

On a tree the edge above v counts once for each pair of chosen clients on its two sides, so the
pairs' distances are separable. Shortest paths are never longer than the tree's, so the tree's best
value bounds the problem's.
"""

from types import ModuleType

import numpy as np

from fedgs.arrays import BoolArray, FloatArray, FloatMatrix, IntArray
from fedgs.compiling import load_kernels
from fedgs.graph.tree import Preorder, SpanningForest
from fedgs.solver import limits

__all__ = ["Workspace", "best_on_forest", "linked", "plain_best_on_forest", "workspace"]

Workspace = tuple[IntArray, FloatMatrix, IntArray]
"""The last three arguments of `kernels.tree.knapsack`."""


def best_on_forest(
    forest: SpanningForest,
    clients: IntArray,
    gains: FloatArray,
    size: int,
    *,
    apart: float,
    working: Workspace | None = None,
) -> tuple[IntArray, float]:
    """The best choice by the forest's own distances, and a value that none exceeds.

    O(N·r) on one tree, O(N·r²) on a forest. Ties are broken by bonuses for later clients, which are
    part of the value and sum to less than 1e-10 of the largest distance. So if the order of the
    clients is random, ties are broken at random.

    Args:
        forest: over all N clients; those that cannot be chosen are passed through.
        clients: (p,) distinct indices of those that can be chosen.
        gains: (p,) linear gains, in units of distance.
        size: r >= 1, how many are chosen.
        apart: the distance between different trees, the largest of all.
        working: for one tree, a workspace to reuse: from `workspace`, for at least these sizes.

    Returns:
        (r,) positions in `clients`, ascending; the value by forest distances.

    >>> path = SpanningForest(np.array([-1, 0, 1]), np.array([0.0, 1.0, 2.0]), np.arange(3))
    >>> best, value = best_on_forest(path, np.arange(3), np.zeros(3), 2, apart=3.0)
    >>> best.tolist(), round(value, 6)
    ([0, 2], 3.0)
    """
    chance = 1e-10 * apart / (size * len(clients) ** 2)
    kernels = load_kernels("fedgs.solver.kernels.tree")
    if kernels is None:
        every = np.full(len(forest), np.nan)
        every[clients] = gains + chance * np.arange(len(clients)) ** 2
        chosen, value = plain_best_on_forest(linked(forest, apart), every, size)
        return chosen[clients].nonzero()[0], value
    order = forest.preorder
    if len(order.roots) > 1:
        return _shared_out(
            kernels, order, clients=clients, gains=gains, size=size, apart=apart, chance=chance
        )
    best = np.arange(size)
    if working is None:
        working = workspace(order.up, order.sizes, size)
    value = kernels.knapsack(
        order.up, order.above, order.place, clients, gains, chance, 0, len(order.up), best, *working
    )
    return best, value


def workspace(up: IntArray, sizes: IntArray, size: int) -> Workspace:
    """Arrays for `knapsack`: numbers by vertex, tables, and how tables were split among children.

    Where a child is merged, its parent's table has at most as many numbers as the parent's subtree
    has vertices.

    Args:
        up: (N,) parents of trees in preorder, see `Preorder`.
        sizes: (N,) vertices of each subtree.
        size: r.
    """
    splits = int(np.minimum(sizes[up], size).sum()) + len(up)
    return (
        np.empty((4, len(up)), dtype=np.int64),
        np.empty((3, 2 * len(up) + 2)),
        np.empty(splits, dtype=np.int32),
    )


def linked(forest: SpanningForest, apart: float) -> SpanningForest:
    """One tree that dominates the forest: further roots hang on the first by edges of `apart`.

    >>> linked(SpanningForest(np.array([-1, -1]), np.zeros(2), np.arange(2)), 2.0).parent
    array([-1,  0])
    """
    roots = np.flatnonzero(forest.parent < 0)
    first = int(forest.order[0])
    parent, above = forest.parent.copy(), forest.above.copy()
    others = roots[roots != first]
    parent[others], above[others] = first, apart
    return SpanningForest(parent, above, forest.order, forest.shortfall)


def plain_best_on_forest(
    tree: SpanningForest, gains: FloatArray, size: int
) -> tuple[BoolArray, float]:
    """Tree knapsack on one tree in NumPy: the reference of the compiled one.

    Args:
        tree: one tree over N vertices.
        gains: (N,) linear gains, NaN for vertices that cannot be chosen.
        size: r, at most the number of vertices that can be chosen.

    Returns:
        (N,) whether each vertex is chosen, and the value by tree distances.

    >>> path = SpanningForest(np.array([-1, 0, 1]), np.array([0.0, 1.0, 2.0]), np.arange(3))
    >>> plain_best_on_forest(path, np.zeros(3), 2)[1]
    3.0
    """
    tables = [np.array([0.0]) if np.isnan(gain) else np.array([0.0, gain]) for gain in gains]
    # Parent, child, and for each total k how many are chosen below the child.
    merges: list[tuple[int, int, IntArray]] = []
    for child in tree.order[:0:-1]:
        numbers = np.arange(len(tables[child]))
        below = tables[child] + tree.above[child] * numbers * (size - numbers)
        above = int(tree.parent[child])
        tables[above], split = _merged(tables[above], below, size)
        merges.append((above, int(child), split))
    wanted = np.zeros(len(tree), dtype=np.int64)
    wanted[tree.order[0]] = size
    # Merges are undone from the last to the first: so each vertex has its number before it shares
    # it with its children.
    for above, child, split in reversed(merges):
        wanted[child] = split[wanted[above]]
        wanted[above] -= wanted[child]
    return wanted > 0, float(tables[tree.order[0]][size])


def _shared_out(
    kernels: ModuleType,
    forest: Preorder,
    *,
    clients: IntArray,
    gains: FloatArray,
    size: int,
    apart: float,
    chance: float,
) -> tuple[IntArray, float]:
    """The best choice on several trees, and its value.

    Given k_T, the number chosen in tree T, T's value does not depend on the others, and pairs in
    different trees count apart/2·(r² - sum of k_T²). Trees with only one client that can be chosen
    are treated together.
    """
    place, up, above, roots, sizes = forest
    tree = np.searchsorted(roots, place[clients], side="right") - 1  # of each position
    able = np.bincount(tree, minlength=len(roots))
    begins, ends = roots, np.append(roots[1:], len(up))

    chosen = np.arange(size)

    def best(begin: int, end: int, number: int) -> float:
        """The best choice of one tree's positions, written to chosen[:number]; its value."""
        value = kernels.knapsack(
            up, above, place, clients, gains, chance, begin, end, chosen[:number], *working
        )
        return float(value)

    working = workspace(up, sizes, size)
    if np.count_nonzero(able) == 1:
        only = int(tree[0])
        value = best(int(begins[only]), int(ends[only]), size)
        return chosen, value
    if _work((ends - begins)[able > 0], size) > limits.MAX_FOREST_TABLE_ENTRIES:  # as in `linked`
        up, above = np.where(up < 0, 0, up), np.where(up < 0, apart, above)
        sizes = np.append(len(up), sizes[1:])
        working = workspace(up, sizes, size)
        value = best(0, len(up), size)
        return chosen, value
    alone = np.flatnonzero(able[tree] == 1)
    worth = gains[alone] + chance * alone**2
    ranked = np.argsort(-worth, kind="stable")[:size]
    alone, worth = alone[ranked], worth[ranked]
    table, splits = np.concatenate([[0.0], np.cumsum(worth - apart / 2)]), []
    trees = [
        (begin, end, most)
        for begin, end, most in zip(begins.tolist(), ends.tolist(), able.tolist(), strict=True)
        if most > 1
    ]
    for begin, end, most in trees:
        numbers = range(1, min(size, most) + 1)
        values = [best(begin, end, k) - apart * k * k / 2 for k in numbers]
        table, split = _merged(table, np.array([0.0, *values]), size)
        splits.append(split)
    left, value, parts = size, float(table[size]) + apart * size * size / 2, []
    for (begin, end, _), split in zip(reversed(trees), reversed(splits), strict=True):
        number = int(split[left])
        if number > 0:
            best(begin, end, number)
            parts.append(chosen[:number].copy())
        left -= number
    return np.sort(np.concatenate([*parts, alone[:left]])), value


def _merged(table: FloatArray, below: FloatArray, size: int) -> tuple[FloatArray, IntArray]:
    """Max-plus convolution, cut off at `size`, and how many of each total are from `below`."""
    total = np.arange(min(len(table) + len(below) - 2, size) + 1)[:, None]
    number = np.arange(len(below))[None, :]
    # Out of range, on either side, is -inf: a negative index ends in the padding.
    padded = np.concatenate([table, np.full(max(len(total), len(below)), -np.inf)])
    both = padded[total - number] + below[number]  # (total, number)
    split = np.argmax(both, axis=1)
    return both[np.arange(len(split)), split], split


def _work(sizes: IntArray, size: int) -> int:
    """Entries of all tables for trees of these sizes."""
    most = np.minimum(sizes, size).astype(np.float64)
    return int(np.sum(sizes * most * most / 2)) if len(sizes) else 0
