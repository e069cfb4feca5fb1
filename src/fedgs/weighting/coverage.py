"""Coverage: each client of the cohort counts for the clients that it is nearest to."""

from typing import Literal

import numpy as np

from fedgs.arrays import FloatArray
from fedgs.clients import Clients, Memory, Selection, View
from fedgs.errors import ConfigError
from fedgs.registry import Variant, register
from fedgs.weighting.base import Weighting

__all__ = ["Coverage"]


@register("weighting", "coverage")
class Coverage(Weighting):
    """w_k proportional to gamma_k, the number of clients that k is nearest to in the cohort.

    gamma_k = sum_i 1{k nearest to i} over all clients, or over A_t; a client i with several nearest
    ones counts in equal parts for each. Distances are those in the memory of the sampler `divfl`. A
    selected client without a feature counts for itself alone.

    Reference: Balakrishnan et al., "Diverse Client Selection for Federated Learning via Submodular
    Maximization", 2022, ICLR.

    Attributes:
        cover: which clients i are counted: "all" or the "available" ones. `divfl` gives its own
            value where the weighting is named without settings.

    >>> clients, counts = Clients(tuple("abc"), np.ones(3, dtype=np.int64)), np.zeros(3)
    >>> far = np.array([[0, 1, 9], [1, 0, 9], [9, 9, 0]])
    >>> memory = {"distance": far, "known": np.ones(3, dtype=bool)}
    >>> view = View(0, clients, np.arange(3), counts, cohort_limit=2, memory=memory)
    >>> Coverage().weights(view, Selection(np.array([0, 2])), {}).tolist()
    [2.0, 1.0]
    """

    cover: Literal["all", "available"] = "all"

    def check(self, clients: Clients, cohort_limit: int, method: Variant) -> None:
        """Accept a sampler with distances of updates, with the same `cover`.

        Raises:
            ConfigError: another sampler, or another `cover`.
        """
        cover = getattr(method, "cover", None)
        if method.name != "divfl":
            raise ConfigError(
                "method.weighting = 'coverage' needs the distances of method 'divfl', got "
                f"{method.name or type(method).__name__!r}; 'data_size' works with every method"
            )
        if cover != self.cover:
            raise ConfigError(
                f"method.weighting.cover must be {cover!r}, the cover of method 'divfl', "
                f"got {self.cover!r}"
            )

    def weights(self, view: View, selection: Selection, memory: Memory) -> FloatArray:
        """(m,) gamma_k."""
        cohort, known = selection.clients, view.memory["known"]
        covered = np.arange(len(known)) if self.cover == "all" else view.available
        covered = covered[known[covered]]
        has_feature = known[cohort]
        block = view.memory["distance"][np.ix_(cohort[has_feature], covered)]  # (m', c)
        weights = np.ones(len(cohort))
        if has_feature.any():
            is_nearest = block == block.min(axis=0)
            weights[has_feature] = (is_nearest / is_nearest.sum(axis=0)).sum(axis=1)
        return weights
