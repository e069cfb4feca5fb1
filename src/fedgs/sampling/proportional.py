"""Sampling in proportion to the data sizes, the paper's MDSample."""

import numpy as np

from fedgs.clients import Selection, View
from fedgs.registry import register
from fedgs.sampling.base import Sampler
from fedgs.weighting import WeightingSetting

__all__ = ["MD"]


@register("method", "md")
class MD(Sampler):
    """M draws *with* replacement, probability proportional to n_k over the available clients.

    Always M draws, also when fewer clients are available. A client that is drawn twice trains once,
    counts once in v_k and enters the average twice: with `weighting = "draws"` its weight is
    draws/M, which makes the average unbiased over A_t.

    References:
        T. Li, A. K. Sahu, M. Zaheer, M. Sanjabi, A. Talwalkar, V. Smith (2020): Federated
        Optimization in Heterogeneous Networks. MLSys.

    >>> from fedgs import Clients
    >>> clients = Clients(("a", "b", "c"), np.array([5, 1, 9]))
    >>> view = View(0, clients, np.array([0, 2]), np.zeros(3, dtype=np.int64), cohort_limit=4)
    >>> selection = MD().select(view, np.random.default_rng(0))
    >>> selection.clients, int(selection.draws.sum())
    (array([0, 2]), 4)
    """

    weighting: WeightingSetting = "draws"

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        """The clients that are drawn at least once, with the number of their draws."""
        # As floats, so that the sum cannot overflow.
        sizes = view.clients.data_sizes[view.available].astype(np.float64)
        probabilities = sizes / sizes.sum()
        drawn = rng.choice(view.available, size=view.cohort_limit, replace=True, p=probabilities)
        clients, draws = np.unique(drawn, return_counts=True)
        return Selection(clients, draws.astype(np.int64))
