"""Cohorts that go through random permutations of the clients, by their sampling counts."""

import numpy as np

from fedgs.clients import Selection, View
from fedgs.registry import register
from fedgs.sampling.base import Sampler

__all__ = ["Permutation"]


@register("method", "permutation")
class Permutation(Sampler):
    """The m available clients with the smallest sampling counts, ties at random.

    Where all clients are available, the cohorts go through a random permutation of the N clients,
    then through another one: no client is selected for the (c+1)-th time before all have been
    selected c times, and the counts of two clients never differ by more than 1. A client that was
    absent waits for its turns and makes them up when it returns.

    Reference:
        G. Malinovsky, S. Horvath, K. Burlachenko, P. Richtarik (2023): Federated Learning with
        Regularized Client Participation. arXiv:2302.03662. All clients are available there.

    >>> from fedgs import Clients
    >>> clients, counts = Clients(("a", "b", "c"), np.array([5, 1, 9])), np.array([2, 1, 2])
    >>> view = View(5, clients, np.arange(3), counts, cohort_limit=2)
    >>> 1 in Permutation().select(view, np.random.default_rng(0)).clients
    True
    """

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        """The m available clients with the smallest counts."""
        counts = view.counts[view.available]
        # `lexsort` sorts by its last key first.
        order = np.lexsort((rng.random(len(counts)), counts))
        return Selection(np.sort(view.available[order[: view.cohort_size]]))
