"""Compiled loops of the graph, loaded by `load_kernels`.

The references in NumPy are in `distance` and `tree`.
"""

from typing import Any

import numpy as np

from fedgs.compiling import compiled

_BLOCK = 64


@compiled
def prim(lengths: Any, parent: Any, above: Any, order: Any, waiting: Any) -> None:
    """Minimum spanning forest of a dense matrix by Prim's algorithm. O(N²).

    Fills `parent` (-1 for roots), `above` (lengths of the edges to the parents) and `order`
    (parents before children). `waiting` is a workspace with one entry per vertex: from `step` on it
    holds the vertices that are not yet in the forest.
    """
    count = len(lengths)
    for vertex in range(count):
        parent[vertex], above[vertex], waiting[vertex] = -1, np.inf, vertex
    best = 0
    for step in range(count):
        vertex = waiting[best]
        waiting[best] = waiting[step]
        order[step] = vertex
        row = lengths[vertex]
        best, shortest = step + 1, np.inf
        for place in range(step + 1, count):
            other = waiting[place]
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
    """The largest h_ij - t_ij, with t the metric of the tree; -inf for one vertex. O(N²)."""
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
    """Edges that can lie on a shortest path, in both directions, in CSR form.

    These are the tree's edges and those that are shorter than the path between their ends on the
    tree.
    """
    count = len(lengths)
    row = np.empty(count)
    starts = np.empty(count + 1, np.int64)
    starts[0] = 0
    for source in range(count):
        tree_row(parent, above, order, source, row)
        degree = 0
        for other in range(count):
            if other != source and (
                lengths[source, other] < row[other]
                or parent[source] == other
                or parent[other] == source
            ):
                degree += 1
        starts[source + 1] = starts[source] + degree
    ends = np.empty(starts[count], np.int64)
    weights = np.empty(starts[count])
    for source in range(count):
        tree_row(parent, above, order, source, row)
        place = starts[source]
        for other in range(count):
            if other != source and (
                lengths[source, other] < row[other]
                or parent[source] == other
                or parent[other] == source
            ):
                ends[place] = other
                weights[place] = lengths[source, other]
                place += 1
    return starts, ends, weights


@compiled
def tree_matrix(parent: Any, above: Any, order: Any) -> Any:
    """All distances on a forest, (N, N).

    Rows are computed from those of earlier vertices, so that the matrix is exactly symmetric.
    """
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
    """Shortest paths over sparse edges; fills a symmetric (N, N) matrix.

    Dijkstra's algorithm with a binary heap, from every vertex. A vertex with one edge leads nowhere
    but back, so it gets its distance without entering the heap. In graphs of many clients, most
    vertices have one edge.
    """
    count = len(starts) - 1
    is_leaf = np.empty(count, np.bool_)
    for vertex in range(count):
        is_leaf[vertex] = starts[vertex + 1] - starts[vertex] == 1
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
                    if is_leaf[other]:
                        continue
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
def relax_tile(lengths: Any, i0: int, i1: int, j0: int, j1: int, column: Any, tile: Any) -> None:
    """Improve paths from rows i0..i1-1 to columns j0..j1-1 that pass a block of middles.

    `column` has the distances to the middles, `tile` those from them. Two rows and four middles are
    processed at once, so that each loaded value is used twice and each store follows four
    comparisons.
    """
    for i in range(i0, i1 - 1, 2):
        upper, lower = lengths[i, j0:j1], lengths[i + 1, j0:j1]
        for k in range(0, _BLOCK, 4):
            a, b, c, d = column[i, k], column[i, k + 1], column[i, k + 2], column[i, k + 3]
            n = i + 1
            e, f, g, h = column[n, k], column[n, k + 1], column[n, k + 2], column[n, k + 3]
            for j in range(len(upper)):
                w, x, y, z = tile[k, j], tile[k + 1, j], tile[k + 2, j], tile[k + 3, j]
                upper[j] = min(min(min(min(upper[j], a + w), b + x), c + y), d + z)
                lower[j] = min(min(min(min(lower[j], e + w), f + x), g + y), h + z)
    if (i1 - i0) % 2 == 1:
        last = lengths[i1 - 1, j0:j1]
        for k in range(_BLOCK):
            first = column[i1 - 1, k]
            for j in range(len(last)):
                last[j] = min(last[j], first + tile[k, j])


@compiled
def relax_middles(square: Any, tile: Any, width: int) -> None:
    """Improve paths from a block's middles to the columns of `tile`, one middle after the other.

    `square` has the distances between the middles.
    """
    for k in range(width):
        for i in range(width):
            first = square[i, k]
            for j in range(_BLOCK):
                tile[i, j] = min(tile[i, j], first + tile[k, j])


@compiled
def floyd_warshall_blocked(lengths: Any) -> None:
    """All-pairs shortest paths in place, symmetric. O(N³).

    Blocks of middles are processed one after the other. The distances from a block's middles to all
    vertices are copied, once as rows (in square tiles, which stay in the cache) and once as
    columns. Only the part below the diagonal is updated; it is mirrored at the end. Tiles are
    padded with inf beyond the matrix.
    """
    count = len(lengths)
    tiles = (count + _BLOCK - 1) // _BLOCK
    row, column = np.empty((tiles, _BLOCK, _BLOCK)), np.empty((count, _BLOCK))
    for t in range(tiles):
        for k in range(_BLOCK):
            for j in range(_BLOCK):
                row[t, k, j] = np.inf
    for pivot in range(tiles):
        k0, k1 = pivot * _BLOCK, min((pivot + 1) * _BLOCK, count)
        width = k1 - k0
        for k in range(width):
            for j in range(k1):
                row[j // _BLOCK, k, j % _BLOCK] = lengths[k0 + k, j]
        for i in range(k1, count):
            for k in range(width):
                row[i // _BLOCK, k, i % _BLOCK] = lengths[i, k0 + k]
        relax_middles(row[pivot], row[pivot], width)
        for t in range(tiles):
            for k in range(width, _BLOCK):  # in the last block
                for j in range(_BLOCK):
                    row[t, k, j] = np.inf
            if t != pivot:
                relax_middles(row[pivot], row[t], width)
        for i in range(count):
            for k in range(_BLOCK):
                column[i, k] = row[i // _BLOCK, k, i % _BLOCK]
        for k in range(width):
            for j in range(k1):
                lengths[k0 + k, j] = row[j // _BLOCK, k, j % _BLOCK]
        for i in range(k1, count):
            for k in range(width):
                lengths[i, k0 + k] = column[i, k]
        for below in range(tiles):
            for t in range(below + 1):
                if below != pivot and t != pivot:
                    i0, j0 = below * _BLOCK, t * _BLOCK
                    i1, j1 = min(i0 + _BLOCK, count), min(j0 + _BLOCK, count)
                    relax_tile(lengths, i0, i1, j0, j1, column, row[t])
    for below in range(tiles):
        for t in range(below):
            for i in range(below * _BLOCK, min((below + 1) * _BLOCK, count)):
                for j in range(t * _BLOCK, (t + 1) * _BLOCK):
                    lengths[j, i] = lengths[i, j]
