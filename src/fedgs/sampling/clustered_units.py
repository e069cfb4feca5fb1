"""The distributions of clustered sampling in integers, and draws from them."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from fedgs.arrays import FloatArray, IntArray

__all__ = ["Distributions", "Piece", "TreeOf", "by_clusters", "by_sizes", "cut", "integers_below"]

Piece = tuple[int, int]  # a client, and its units in a distribution, > 0
TreeOf = Callable[[IntArray], FloatArray]  # the tree over clients, as `scipy.cluster` has trees


@dataclass(frozen=True)
class Distributions:
    """M distributions over clients: distribution l draws client k with probability units / n.

    Attributes:
        capacity: n, the units of every distribution.
        rows: M lists of (client, units); a client is at most once in each.

    >>> half = Distributions(4, (((0, 4),), ((0, 1), (2, 3))))
    >>> half.draw(np.random.default_rng(0)).tolist()
    [0, 2]
    """

    capacity: int
    rows: tuple[tuple[Piece, ...], ...]

    def draw(self, rng: np.random.Generator) -> IntArray:
        """(M,) one client from each distribution, independently."""
        units = integers_below(self.capacity, len(self.rows), rng)
        drawn = np.empty(len(self.rows), dtype=np.int64)
        for row, (pieces, unit) in enumerate(zip(self.rows, units, strict=True)):
            ends = list(accumulate(count for _, count in pieces))
            drawn[row] = pieces[bisect_right(ends, unit)][0]
        return drawn


def by_sizes(clients: IntArray, sizes: IntArray, rows: int) -> Distributions:
    """Algorithm 1: M·n_k units of each client, poured into M distributions one after another.

    Args:
        clients: (a,) in the order in which they are poured; descending sizes in the paper.
        sizes: (a,) n_k.
        rows: M.

    >>> by_sizes(np.array([7, 4]), np.array([3, 1]), 2).rows
    (((7, 4),), ((7, 2), (4, 2)))
    """
    pieces = [(k, rows * n) for k, n in zip(clients.tolist(), sizes.tolist(), strict=True)]
    capacity = sum(sizes.tolist())
    return Distributions(capacity, _poured(pieces, [()] * rows, capacity))


def by_clusters(clients: IntArray, sizes: IntArray, rows: int, tree_of: TreeOf) -> Distributions:
    """Algorithm 2: a distribution for each of the heaviest clusters, the others poured into them.

    A client with M·n_k >= n first has floor(M·n_k / n) distributions of its own. The units that
    remain are clustered; the tree is cut as `cut` says. As many clusters as distributions are left
    are kept, the heaviest ones. The clients of the others fill the free capacity, heavy clusters
    first.

    Args:
        clients: (a,) indices; their order breaks ties.
        sizes: (a,) n_k.
        rows: M.
        tree_of: makes the tree of some of the clients.

    >>> def pairs(clients):
    ...     return np.array([[0, 1, 0.0, 2], [2, 3, 0.0, 2], [4, 5, 1.0, 4]])
    >>> by_clusters(np.arange(4), np.array([1, 2, 2, 1]), 2, pairs).rows
    (((0, 2), (1, 4)), ((2, 4), (3, 2)))
    """
    capacity = sum(sizes.tolist())
    own: list[tuple[Piece, ...]] = []
    rest: list[Piece] = []
    for client, size in zip(clients.tolist(), sizes.tolist(), strict=True):
        whole, units = divmod(rows * size, capacity)
        own += [((client, capacity),)] * whole
        if units:
            rest.append((client, units))
    left = rows - len(own)
    if left == 0:
        return Distributions(capacity, tuple(own))
    tree = tree_of(np.array([client for client, _ in rest], dtype=np.int64))
    clusters = cut(tree, [units for _, units in rest], left, capacity)
    clusters.sort(key=lambda cluster: -sum(rest[leaf][1] for leaf in cluster))
    groups = [tuple(rest[leaf] for leaf in cluster) for cluster in clusters]
    others = [piece for group in groups[left:] for piece in group]
    return Distributions(capacity, tuple(own) + _poured(others, groups[:left], capacity))


def cut(tree: FloatArray, units: Sequence[int], at_least: int, capacity: int) -> list[list[int]]:
    """The coarsest cut of a tree with enough clusters, none of them above the capacity.

    Args:
        tree: (a - 1, 4) merges in the order of their height, as `scipy.cluster.hierarchy` has them.
        units: of the a leaves, each below the capacity.
        at_least: the smallest number of clusters.
        capacity: the largest mass of a cluster.

    Returns:
        The clusters as ascending lists of leaves, in the order of their first leaf.

    >>> chain = np.array([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
    >>> cut(chain, [1, 1, 2], 1, 4), cut(chain, [1, 1, 2], 1, 3)
    ([[0, 1, 2]], [[0, 1], [2]])
    """
    nodes: dict[int, list[int]] = {leaf: [leaf] for leaf in range(len(units))}
    masses = dict(enumerate(units))
    for merge, (left, right) in enumerate(tree[:, :2].astype(np.int64).tolist()):
        mass = masses[left] + masses[right]
        # A cluster only grows with further merges, so the first one that is too heavy ends them.
        if len(nodes) == at_least or mass > capacity:
            break
        node = len(units) + merge
        masses[node], nodes[node] = mass, sorted(nodes.pop(left) + nodes.pop(right))
    return sorted(nodes.values())


def integers_below(bound: int, count: int, rng: np.random.Generator) -> list[int]:
    """Uniform integers in [0, bound), exact for any bound >= 1.

    >>> max(integers_below(2**70, 3, np.random.default_rng(0))) >= 2**64
    True
    """
    if bound <= 2**63 - 1:
        return [int(value) for value in rng.integers(bound, size=count)]
    bits = (bound - 1).bit_length()
    values: list[int] = []
    while len(values) < count:
        value = int.from_bytes(rng.bytes((bits + 7) // 8), "little") >> (-bits % 8)
        if value < bound:
            values.append(value)
    return values


def _poured(
    pieces: Sequence[Piece], started: Sequence[tuple[Piece, ...]], capacity: int
) -> tuple[tuple[Piece, ...], ...]:
    """The rows filled with the pieces, one after another; the pieces fit exactly."""
    rows = [list(row) for row in started]
    free = [capacity - sum(units for _, units in row) for row in rows]
    place = 0
    for client, units in pieces:
        remaining = units
        while remaining:
            while free[place] == 0:
                place += 1
            poured = min(remaining, free[place])
            rows[place].append((client, poured))
            free[place] -= poured
            remaining -= poured
    return tuple(tuple(row) for row in rows)
