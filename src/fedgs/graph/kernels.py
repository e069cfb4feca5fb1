"""Compiled loops of the graph. Loaded by `load_kernels`; the NumPy references are in `distance` and `tree`."""

from typing import Any

import numpy as np

from fedgs.compiling import compiled

_BLOCK = 64


@compiled
def prim(lengths: Any) -> Any:
    """Minimum spanning forest of a dense matrix: parents (-1 for roots), lengths of the edges above, parents before children."""
    count = len(lengths)
    parent, order, open_ = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    above = np.empty(count)
    for vertex in range(count):
        parent[vertex], above[vertex], open_[vertex] = -1, np.inf, vertex  # open_[step:]: the vertices not yet joined
    best = 0
    for step in range(count):
        vertex = open_[best]
        open_[best] = open_[step]
        order[step] = vertex
        row = lengths[vertex]
        best, shortest = step + 1, np.inf
        for place in range(step + 1, count):
            other = open_[place]
            reach = above[other]
            if row[other] < reach:
                reach = row[other]
                above[other] = reach
                parent[other] = vertex
            if reach < shortest:
                shortest = reach
                best = place
    for vertex in range(count):
        if parent[vertex] < 0:
            above[vertex] = 0.0
    return parent, above, order


@compiled
def tree_row(parent: Any, above: Any, order: Any, source: int, row: Any) -> None:
    """Distances on a forest from one vertex, inf in other trees; `row` is overwritten. O(N)."""
    for vertex in range(len(order)):
        row[vertex] = np.inf
    reach = 0.0
    vertex = source
    row[vertex] = 0.0
    while parent[vertex] >= 0:
        reach += above[vertex]
        vertex = parent[vertex]
        row[vertex] = reach
    for place in range(len(order)):
        vertex = order[place]
        if row[vertex] == np.inf and parent[vertex] >= 0:
            row[vertex] = row[parent[vertex]] + above[vertex]


@compiled
def tree_excess(lengths: Any, parent: Any, above: Any, order: Any) -> float:
    """The largest h_ij - t_ij: how far the tree's metric t falls short of dominating h; -inf for one vertex. O(N²)."""
    count = len(lengths)
    row = np.empty(count)
    worst = -np.inf
    for source in range(count):
        tree_row(parent, above, order, source, row)
        for other in range(source):
            over = lengths[source, other] - row[other]
            if over > worst:
                worst = over
    return worst


@compiled
def prune(lengths: Any, parent: Any, above: Any, order: Any) -> Any:
    """Edges (both directions, CSR) that can lie on a shortest path: the tree's, and those shorter than the tree path between."""
    count = len(lengths)
    row = np.empty(count)
    starts = np.empty(count + 1, np.int64)
    starts[0] = 0
    for source in range(count):
        tree_row(parent, above, order, source, row)
        kept = 0
        for other in range(count):
            if other != source and (lengths[source, other] < row[other] or parent[source] == other or parent[other] == source):
                kept += 1
        starts[source + 1] = starts[source] + kept
    ends = np.empty(starts[count], np.int64)
    weights = np.empty(starts[count])
    for source in range(count):
        tree_row(parent, above, order, source, row)
        place = starts[source]
        for other in range(count):
            if other != source and (lengths[source, other] < row[other] or parent[source] == other or parent[other] == source):
                ends[place] = other
                weights[place] = lengths[source, other]
                place += 1
    return starts, ends, weights


@compiled
def tree_matrix(parent: Any, above: Any, order: Any) -> Any:
    """All distances on a forest, (N, N). Rows are taken from earlier vertices, so that the matrix is exactly symmetric."""
    count = len(order)
    matrix = np.empty((count, count))
    for place in range(count):
        vertex = order[place]
        for other in range(count):
            matrix[vertex, other] = np.inf
    for place in range(count):
        vertex = order[place]
        matrix[vertex, vertex] = 0.0
        if parent[vertex] >= 0:
            source = matrix[parent[vertex]]
            step = above[vertex]
            for earlier in range(place):
                other = order[earlier]
                reach = source[other] + step
                matrix[vertex, other] = reach
                matrix[other, vertex] = reach
    return matrix


@compiled
def dijkstra_rows(starts: Any, ends: Any, weights: Any, matrix: Any) -> None:
    """Shortest paths from every vertex over sparse edges, by Dijkstra with a binary heap; fills (N, N), symmetric."""
    count = len(starts) - 1
    heap = np.empty(count, np.int64)
    where = np.empty(count, np.int64)  # place in the heap, -1 unseen, -2 done
    for source in range(count):
        row = matrix[source]
        for vertex in range(count):
            row[vertex] = np.inf
            where[vertex] = -1
        row[source] = 0.0
        heap[0] = source
        where[source] = 0
        size = 1
        while size > 0:
            vertex = heap[0]
            where[vertex] = -2
            size -= 1
            if size > 0:  # sift the last one down from the top
                last = heap[size]
                key = row[last]
                hole = 0
                child = 1
                while child < size:
                    if child + 1 < size and row[heap[child + 1]] < row[heap[child]]:
                        child += 1
                    if row[heap[child]] >= key:
                        break
                    heap[hole] = heap[child]
                    where[heap[hole]] = hole
                    hole = child
                    child = 2 * hole + 1
                heap[hole] = last
                where[last] = hole
            reach = row[vertex]
            for place in range(starts[vertex], starts[vertex + 1]):
                other = ends[place]
                through = reach + weights[place]
                if through < row[other]:
                    row[other] = through
                    hole = where[other]
                    if hole < 0:
                        hole = size
                        size += 1
                    while hole > 0:  # sift up
                        above = (hole - 1) // 2
                        if row[heap[above]] <= through:
                            break
                        heap[hole] = heap[above]
                        where[heap[hole]] = hole
                        hole = above
                    heap[hole] = other
                    where[other] = hole
        for other in range(source):  # both directions agree but for the last bits of their sums
            row[other] = matrix[other, source]


@compiled
def relax(lengths: Any, i0: int, i1: int, k0: int, k1: int, j0: int, j1: int) -> None:
    """One block step of Floyd-Warshall, one middle k after the other: rows i, columns j."""
    for k in range(k0, k1):
        through = lengths[k, j0:j1]
        for i in range(i0, i1):
            first = lengths[i, k]
            row = lengths[i, j0:j1]
            for j in range(len(row)):
                row[j] = min(row[j], first + through[j])


@compiled
def relax_eight(lengths: Any, i0: int, i1: int, k0: int, j0: int, j1: int) -> None:
    """The same for the eight middles k0..k0+7 at once, where neither rows nor columns are among them: fewer stores."""
    a, b, c, d = lengths[k0, j0:j1], lengths[k0 + 1, j0:j1], lengths[k0 + 2, j0:j1], lengths[k0 + 3, j0:j1]
    e, f, g, h = lengths[k0 + 4, j0:j1], lengths[k0 + 5, j0:j1], lengths[k0 + 6, j0:j1], lengths[k0 + 7, j0:j1]
    for i in range(i0, i1):
        row = lengths[i, j0:j1]
        to_a, to_b, to_c, to_d = lengths[i, k0], lengths[i, k0 + 1], lengths[i, k0 + 2], lengths[i, k0 + 3]
        to_e, to_f, to_g, to_h = lengths[i, k0 + 4], lengths[i, k0 + 5], lengths[i, k0 + 6], lengths[i, k0 + 7]
        for j in range(len(row)):
            x = min(min(to_a + a[j], to_b + b[j]), min(to_c + c[j], to_d + d[j]))
            y = min(min(to_e + e[j], to_f + f[j]), min(to_g + g[j], to_h + h[j]))
            row[j] = min(row[j], min(x, y))


@compiled
def mirror(lengths: Any, i0: int, i1: int, j0: int, j1: int) -> None:
    """Copy the block (i, j) to (j, i)."""
    for i in range(i0, i1):
        for j in range(j0, j1):
            lengths[j, i] = lengths[i, j]


@compiled
def floyd_warshall_blocked(lengths: Any) -> None:
    """All-pairs shortest paths in place, symmetric, in blocks that stay in the cache. O(N³)."""
    count = len(lengths)
    for k0 in range(0, count, _BLOCK):
        k1 = min(k0 + _BLOCK, count)
        eights = k1 - (k1 - k0) % 8
        relax(lengths, k0, k1, k0, k1, k0, k1)
        for j0 in range(0, count, _BLOCK):
            if j0 != k0:
                j1 = min(j0 + _BLOCK, count)
                relax(lengths, k0, k1, k0, k1, j0, j1)
                mirror(lengths, k0, k1, j0, j1)
        for i0 in range(0, count, _BLOCK):
            for j0 in range(0, i0 + 1, _BLOCK):
                if i0 != k0 and j0 != k0:
                    i1, j1 = min(i0 + _BLOCK, count), min(j0 + _BLOCK, count)
                    for k in range(k0, eights, 8):
                        relax_eight(lengths, i0, i1, k, j0, j1)
                    relax(lengths, i0, i1, eights, k1, j0, j1)
                    mirror(lengths, i0, i1, j0, j1)
