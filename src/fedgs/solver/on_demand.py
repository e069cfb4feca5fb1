"""Search over distances that are not held as a matrix: only the rows of clients in the cohort are asked for."""

import numpy as np

from fedgs.arrays import BoolArray, FloatArray, FloatMatrix, IntArray
from fedgs.solver import limits
from fedgs.solver.problem import Distances, rows_of
from fedgs.solver.search import Clock, Found

__all__ = ["search_rows"]


def search_rows(
    distances: Distances,
    clients: IntArray,
    *,
    gains: FloatArray,
    size: int,
    given: IntArray | None,
    bound: float,
    clock: Clock,
    rng: np.random.Generator,
) -> Found:
    """Best-swap descent from the tree's choice, else from a greedy one. O(r·p) memory, a row and O(r·p) a swap.

    Args:
        clients: (p,) indices of those that can be chosen.
        gains: (p,) linear gains, in units of distance.
        size: r.
        given: positions to begin with, or None.
        bound: a value that no choice exceeds.
        rng: decides between choices of the same value.
    """
    tolerance = 1e-9 * distances.maximum
    chosen = _greedy(distances, clients, gains, size) if given is None else given.copy()
    near: FloatMatrix = rows_of(distances, clients[chosen])[:, clients]  # (r, p), kept up to date
    inside = np.zeros(len(clients), dtype=bool)
    inside[chosen] = True
    adds = gains + near.sum(axis=0)
    for _ in range(limits.MAX_SWAPS_PER_MEMBER * size):
        if clock.over():
            break
        outside = np.flatnonzero(~inside)
        best = (-np.inf, 0, 0)
        for place, member in enumerate(chosen):
            change = adds[outside] - adds[member] - near[place, outside]
            top = int(np.argmax(change))
            best = max(best, (float(change[top]), place, int(outside[top])))
        change_, place, enter = best
        if change_ <= tolerance:
            break
        _exchange(
            distances,
            clients,
            chosen=chosen,
            near=near,
            adds=adds,
            inside=inside,
            place=place,
            enter=enter,
        )
    for place in range(0 if clock.over() else size):
        same = np.abs(adds - adds[chosen[place]] - near[place]) <= 1e-3 * tolerance
        equals = np.flatnonzero(same & ~inside)
        drawn = int(rng.integers(len(equals) + 1))
        if drawn < len(equals):
            _exchange(
                distances,
                clients,
                chosen=chosen,
                near=near,
                adds=adds,
                inside=inside,
                place=place,
                enter=int(equals[drawn]),
            )
    value = float((adds[chosen] + gains[chosen]).sum() / 2)
    return Found(np.sort(chosen), value, bound)


def _exchange(
    distances: Distances,
    clients: IntArray,
    *,
    chosen: IntArray,
    near: FloatMatrix,
    adds: FloatArray,
    inside: BoolArray,
    place: int,
    enter: int,
) -> None:
    """`enter` takes a place in the choice."""
    row = rows_of(distances, clients[enter : enter + 1])[0, clients]
    adds += row - near[place]
    inside[chosen[place]], inside[enter] = False, True
    chosen[place], near[place] = enter, row


def _greedy(distances: Distances, clients: IntArray, gains: FloatArray, size: int) -> IntArray:
    adds = gains.astype(np.float64)
    chosen = np.empty(size, dtype=np.int64)
    for step in range(size):
        chosen[step] = best = int(np.argmax(adds))
        adds += rows_of(distances, clients[best : best + 1])[0, clients]
        adds[best] = -np.inf
    return chosen
