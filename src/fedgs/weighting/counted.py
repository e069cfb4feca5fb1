"""Selections of the round before, for weightings that count selections in place of answers.

`Weighting.observe` is given the clients whose updates entered. Who was selected follows from the
sampling counts of two views: `seen` holds those of the last round that was observed.
"""

import numpy as np

from fedgs.arrays import BoolArray, IntArray
from fedgs.clients import Clients, Memory, View

__all__ = ["counts_of", "first_counts", "selected_before"]


def first_counts(clients: Clients) -> IntArray:
    """(N,) `seen` of clients that no round has observed, -1.

    >>> first_counts(Clients(("a",), np.array([1]))).tolist()
    [-1]
    """
    return np.full(len(clients), -1, dtype=np.int64)


def selected_before(memory: Memory, view: View) -> tuple[BoolArray, BoolArray]:
    """(N,) which clients an earlier round observed, and (N,) which of them were selected since.

    Args:
        memory: has `seen`.
        view: of the round after the last observed one.

    >>> clients, seen = Clients(("a", "b", "c"), np.array([1, 1, 1])), np.array([0, 2, -1])
    >>> view = View(4, clients, np.arange(3), np.array([1, 2, 2]), cohort_limit=1)
    >>> [which.tolist() for which in selected_before({"seen": seen}, view)]
    [[True, True, False], [True, False, False]]
    """
    known: BoolArray = memory["seen"] >= 0
    selected: BoolArray = known & (view.counts > memory["seen"])
    return known, selected


def counts_of(view: View) -> IntArray:
    """(N,) the sampling counts of a view, to be kept as `seen`.

    >>> clients = Clients(("a",), np.array([1]))
    >>> counts_of(View(0, clients, np.arange(1), np.array([3]), cohort_limit=1)).tolist()
    [3]
    """
    return np.array(view.counts, dtype=np.int64)
