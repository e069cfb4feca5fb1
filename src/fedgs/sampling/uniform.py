"""Uniform sampling, the paper's UniformSample."""

import numpy as np

from fedgs.clients import Selection, View
from fedgs.registry import register
from fedgs.sampling.base import Sampler

__all__ = ["Uniform"]


@register("method", "uniform")
class Uniform(Sampler):
    """m available clients, every set of m equally likely.

    The weights are n_k over the cohort's data size.

    References:
        H. B. McMahan, E. Moore, D. Ramage, S. Hampson, B. Agüera y Arcas (2017):
        Communication-Efficient Learning of Deep Networks from Decentralized Data. AISTATS.

    >>> from fedgs import Clients
    >>> clients = Clients(("a", "b", "c"), np.array([5, 1, 9]))
    >>> view = View(0, clients, np.array([0, 2]), np.zeros(3, dtype=np.int64), cohort_limit=2)
    >>> Uniform().select(view, np.random.default_rng(0)).clients
    array([0, 2])
    """

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        """Draw m clients without replacement."""
        return Selection(np.sort(rng.choice(view.available, size=view.cohort_size, replace=False)))
