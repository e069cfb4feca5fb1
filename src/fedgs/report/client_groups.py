"""Very many clients in groups: tenths of the clients by data size."""

from collections.abc import Sequence

import numpy as np

from fedgs.arrays import AnyArray, FloatArray, IntArray
from fedgs.clients import Clients
from fedgs.report.history import Participation

__all__ = [
    "MOST_PICKED",
    "MOST_ROWS",
    "TENTHS",
    "group_activity",
    "group_shares",
    "mean_rows",
    "means",
    "picked",
    "tenths",
    "title_of",
]

MOST_ROWS = 100_000
"""Above this number of clients, pages and figures show groups of clients."""

MOST_PICKED = 1500
"""Drawn one by one; of more clients, as many are picked evenly by data size."""
TENTHS = "tenths of the clients, most data on top"


def picked(clients: Clients) -> IntArray:
    """(n,) ascending indices of the clients that are shown one by one."""
    if len(clients) <= MOST_PICKED:
        return np.arange(len(clients))
    by_size = np.argsort(clients.data_sizes, kind="stable")
    positions = np.linspace(0, len(clients) - 1, MOST_PICKED).round().astype(np.int64)
    return np.sort(by_size[positions])


def group_activity(groups: Sequence[IntArray], history: Participation) -> FloatArray:
    """(G, T) share of each group that is available in each round."""
    columns = [means(groups, history.inside(t)) for t in range(history.rounds)]
    return np.stack(columns, axis=1)


def group_shares(
    groups: Sequence[IntArray], history: Participation, stride: int
) -> tuple[FloatArray, FloatArray]:
    """(G, T') shares of each group that are available and selected in every `stride`-th round.

    >>> history = Participation(4, [[0, 1, 2]], [np.array([2])], None)
    >>> [share.tolist() for share in group_shares([np.array([0, 1]), np.array([2, 3])], history, 1)]
    [[[1.0], [0.5]], [[0.0], [0.5]]]
    """
    owner = np.empty(history.number, dtype=np.int64)
    for place, group in enumerate(groups):
        owner[group] = place
    sizes = np.array([len(group) for group in groups])
    rounds = range(0, history.rounds, stride)
    shares = np.zeros((2, len(groups), len(rounds)))
    for column, t in enumerate(rounds):
        for which, clients in enumerate((np.flatnonzero(history.inside(t)), history.cohorts[t])):
            shares[which, :, column] = np.bincount(owner[clients], minlength=len(groups)) / sizes
    return shares[0], shares[1]


def mean_rows(counts: IntArray, groups: int = 10) -> FloatArray:
    """(G, C) mean label counts of tenths of the clients, smallest data sizes first.

    >>> mean_rows(np.array([[4, 2], [1, 0], [2, 0], [8, 2]]), groups=2).tolist()
    [[1.5, 0.0], [6.0, 2.0]]
    """
    order = np.argsort(counts.sum(axis=1), kind="stable")
    return np.array([counts[part].mean(axis=0) for part in np.array_split(order, groups)])


def tenths(clients: Clients, groups: int = 10) -> list[IntArray]:
    """Ascending indices of the clients of each tenth, smallest data sizes first.

    >>> sizes = np.array([9, 1, 5, 3])
    >>> [group.tolist() for group in tenths(Clients(("a", "b", "c", "d"), sizes), groups=2)]
    [[1, 3], [0, 2]]
    """
    order = np.argsort(clients.data_sizes, kind="stable")
    return [np.sort(part) for part in np.array_split(order, groups)]


def title_of(clients: Clients, group: IntArray) -> str:
    """A group in words.

    >>> title_of(Clients(("a", "b", "c"), np.array([9, 1, 5])), np.array([0, 2]))
    '2 clients with 5 to 9 examples'
    """
    sizes = clients.data_sizes[group]
    return f"{len(group)} clients with {sizes.min()} to {sizes.max()} examples"


def means(groups: Sequence[IntArray], values: AnyArray) -> FloatArray:
    """(G,) the mean of a value of each client over each group."""
    return np.array([values[group].mean() for group in groups], dtype=np.float64)
