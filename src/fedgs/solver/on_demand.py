"""Search over distances that are not held as a matrix: only rows of selected clients are read."""

import numpy as np

from fedgs.arrays import FloatArray, FloatMatrix, IntArray
from fedgs.solver import limits
from fedgs.solver.problem import Distances, block_of
from fedgs.solver.search import Clock, Incumbent

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
    groups: IntArray | None = None,
) -> Incumbent:
    """Best-swap descent from the tree's choice, else from a greedy one.

    It takes O(r·p) memory. A swap reads one row and takes O(r·p) time.

    Args:
        distances: rows on demand.
        clients: (p,) indices of the clients that can be chosen.
        gains: (p,) linear gains, in units of distance.
        size: r.
        given: positions to begin with, or None.
        bound: a value that no choice exceeds.
        clock: the outer stop, looked at before every swap.
        rng: decides between choices of the same value.
        groups: (p,) numbers; what a position adds to a choice exceeds what another one of the same
            group adds by an amount that does not depend on the choice. None: there are no groups.
    """
    tolerance = limits.TOLERANCE_OF_LARGEST_DISTANCE * distances.maximum
    start = _greedy(distances, clients, gains, size) if given is None else given.copy()
    choice = _Choice(distances, clients, gains, start, groups)
    for _ in range(limits.MAX_SWAPS_PER_MEMBER * size):
        if clock.over():
            break
        change, place, enter = choice.best_swap()
        if change <= tolerance:
            break
        choice.exchange(place, enter)
    for place in range(0 if clock.over() else size):
        equals = choice.equals(place, limits.TIE_OF_TOLERANCE * tolerance)
        drawn = int(rng.integers(len(equals) + 1))
        if drawn < len(equals):
            choice.exchange(place, int(equals[drawn]))
    return Incumbent(np.sort(choice.members), choice.value(), bound)


class _Choice:
    """A choice and what each position would add to it, kept up to date from swap to swap.

    Attributes:
        members: (r,) the chosen positions.
        near: (r, p) distances from each chosen position.
        adds: (p,) gain of each position plus its distances to the choice.
    """

    def __init__(
        self,
        distances: Distances,
        clients: IntArray,
        gains: FloatArray,
        members: IntArray,
        groups: IntArray | None,
    ) -> None:
        self.distances, self.clients, self.gains, self.members = distances, clients, gains, members
        self.near: FloatMatrix = block_of(distances, clients[members], clients)
        self.adds: FloatArray = gains + self.near.sum(axis=0)
        self._inside = np.zeros(len(clients), dtype=bool)
        self._inside[members] = True
        # Positions by group and, within a group, from the one that adds most.
        self._order = None if groups is None else np.lexsort((-self.adds, groups))
        self._groups = None if groups is None else groups[self._order]

    def _entering(self) -> IntArray:
        """The positions outside that may enter: of each group the one that adds most."""
        if self._order is None or self._groups is None:
            return np.flatnonzero(~self._inside)
        places = np.flatnonzero(~self._inside[self._order])
        groups = self._groups[places]
        first = np.append(True, groups[1:] != groups[:-1])
        return np.asarray(self._order[places[first]])

    def best_swap(self) -> tuple[float, int, int]:
        """The largest change that a swap makes, the place that it empties, and what enters."""
        outside = self._entering()
        best = (-np.inf, 0, 0)
        for place, member in enumerate(self.members):
            change = self.adds[outside] - self.adds[member] - self.near[place, outside]
            top = int(np.argmax(change))
            best = max(best, (float(change[top]), place, int(outside[top])))
        return best

    def equals(self, place: int, tie: float) -> IntArray:
        """Positions outside that can take a place without changing the value by more than `tie`."""
        change = self.adds - self.adds[self.members[place]] - self.near[place]
        return np.flatnonzero((np.abs(change) <= tie) & ~self._inside)

    def exchange(self, place: int, enter: int) -> None:
        """Let the position `enter` take a place in the choice."""
        row = block_of(self.distances, self.clients[enter : enter + 1], self.clients)[0]
        self.adds += row - self.near[place]
        self._inside[self.members[place]], self._inside[enter] = False, True
        self.members[place], self.near[place] = enter, row

    def value(self) -> float:
        """The value of the choice."""
        return float((self.adds[self.members] + self.gains[self.members]).sum() / 2)


def _greedy(distances: Distances, clients: IntArray, gains: FloatArray, size: int) -> IntArray:
    """As `plain.greedy`, from one row of distances for each member."""
    adds = gains.astype(np.float64)
    members = np.empty(size, dtype=np.int64)
    for step in range(size):
        members[step] = best = int(np.argmax(adds))
        adds += block_of(distances, clients[best : best + 1], clients)[0]
        adds[best] = -np.inf
    return members
