"""The clients that have not taken part for the longest time."""

import numpy as np

from fedgs.clients import Clients, Memory, Outcome, Selection, View
from fedgs.registry import register
from fedgs.sampling.base import Sampler

__all__ = ["LeastRecent"]


@register("method", "least_recent")
class LeastRecent(Sampler):
    """The m available clients with the longest time since their last participation.

    Clients that have never taken part come first. Ties are broken at random, so clients that are
    always available take turns. This is the selection of FedLaAvg.

    References:
        Y. Yan, C. Niu, Y. Ding, Z. Zheng, F. Wu, G. Chen, S. Tang, Z. Wu (2020): Distributed
        Non-Convex Optimization with Sublinear Speedup under Intermittent Client Availability.
        arXiv:2002.07399.

    >>> clients = Clients(("a", "b", "c"), np.array([5, 1, 9]))
    >>> memory, counts = {"last": np.array([4, 2, -1])}, np.array([2, 1, 0])
    >>> view = View(5, clients, np.arange(3), counts, cohort_limit=2, memory=memory)
    >>> LeastRecent().select(view, np.random.default_rng(0)).clients
    array([1, 2])
    """

    def start(self, clients: Clients) -> Memory:
        """The round of each client's last participation, -1 before the first."""
        return {"last": np.full(len(clients), -1, dtype=np.int64)}

    def observe(self, memory: Memory, view: View, outcome: Outcome) -> Memory:
        """Note the round for the clients that took part."""
        last = memory["last"].copy()
        last[outcome.clients] = view.round
        return {"last": last}

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        """The m available clients with the smallest round of their last participation."""
        last = view.memory["last"][view.available]
        # `lexsort` sorts by its last key first.
        order = np.lexsort((rng.random(len(last)), last))
        return Selection(np.sort(view.available[order[: view.cohort_size]]))
