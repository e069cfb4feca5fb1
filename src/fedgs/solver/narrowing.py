"""Which clients the landmark metric leaves to choose from, exactly and in a few sorts."""

import numpy as np

from fedgs.arrays import FloatArray, IntArray
from fedgs.graph.landmarks import LandmarkDistances
from fedgs.solver.problem import Distances, SelectionProblem

__all__ = ["can_be_narrowed", "groups_of", "longest", "narrowed"]


def can_be_narrowed(problem: SelectionProblem) -> bool:
    """Whether `narrowed` applies: landmarks, and distances that matter."""
    return (
        isinstance(problem.distances, LandmarkDistances)
        and 1 < problem.cohort_size < len(problem.pool)
        and problem.pair_weight * problem.distances.maximum > 0
    )


def groups_of(distances: Distances, clients: IntArray) -> IntArray | None:
    """(n,) each client's landmark, if all these clients have paths to each other; else None.

    Then two clients of one landmark differ, in what they add to a cohort, by an amount that does
    not depend on the cohort.
    """
    if not isinstance(distances, LandmarkDistances):
        return None
    finite = np.isfinite(distances.pendant[clients]).all() and np.isfinite(distances.between).all()
    return distances.nearest[clients] if finite else None


def narrowed(
    problem: SelectionProblem, rng: np.random.Generator
) -> tuple[SelectionProblem, IntArray]:
    """The same problem with fewer clients, without loss.

    In the landmark metric a client's edge e_i counts once for each other member of the cohort. If
    all pairs have a path, client i adds (m-1) e_i - z_i / c, with c the pair weight, and distances
    among landmarks. So among the clients of one landmark, only the m that add most can be needed.
    If a pair has no path, the m longest edges of each landmark and penalty are kept: of two clients
    with both in common, the one with the longer edge can replace the other in every cohort.

    Args:
        problem: with `LandmarkDistances`.
        rng: decides between clients that add the same.

    Returns:
        The problem over n of the clients, which include all landmarks, and their (n,) indices.
    """
    metric = problem.distances
    assert isinstance(metric, LandmarkDistances)
    size, penalty = problem.cohort_size, problem.balance_penalty
    pool = rng.permutation(problem.pool)
    edges, groups = metric.pendant[pool], metric.nearest[pool]
    if groups_of(metric, pool) is not None:
        # As in `reduced`: equal penalties are subtracted before anything is added to them.
        worth = penalty[pool].min() - penalty[pool]
        worth /= problem.pair_weight
        worth += (size - 1) * edges
    else:
        prices, which = np.unique(penalty[pool], return_inverse=True)
        groups, worth = groups.astype(np.int64) * len(prices) + which.reshape(-1), edges
    kept = np.sort(pool[longest(groups, worth, size)])
    clients = np.union1d(kept, metric.landmarks)
    part = SelectionProblem(
        metric.restricted(clients),
        penalty[clients],
        cohort_size=size,
        pair_weight=problem.pair_weight,
        available=np.searchsorted(clients, kept),
    )
    return part, clients


def longest(groups: IntArray, worth: FloatArray, size: int) -> IntArray:
    """Positions of the `size` largest of each group; among equals those that come first.

    >>> longest(np.array([0, 1, 0, 0]), np.array([1.0, 5.0, 3.0, 3.0]), 2).tolist()
    [2, 3, 1]
    """
    small = len(groups) == 0 or groups.max() < 2**16  # 16 bits are sorted much faster
    order = np.argsort(groups.astype(np.uint16) if small else groups, kind="stable")
    ordered, values = groups[order], worth[order]
    ends = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1, len(ordered))
    begins = np.append(0, ends[:-1])
    kept = np.ones(len(order), dtype=bool)
    large = ends - begins > size
    for begin, end in zip(begins[large].tolist(), ends[large].tolist(), strict=True):
        part = values[begin:end]
        cut = np.partition(part, len(part) - size)[len(part) - size]
        inside = part > cut
        inside[np.flatnonzero(part == cut)[: size - np.count_nonzero(inside)]] = True
        kept[begin:end] = inside
    return order[kept]
