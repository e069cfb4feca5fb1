"""Weights from the true rates of availability, which no deployment knows."""

from typing import ClassVar

from fedgs.arrays import FloatArray
from fedgs.clients import Clients, Memory, Selection, View
from fedgs.errors import ConfigError
from fedgs.registry import Variant, register
from fedgs.weighting.base import Weighting

__all__ = ["Known"]


@register("weighting", "known")
class Known(Weighting):
    """w_k = p_k / P(k in S_t), with the probability from the mode's true rates.

    Every update then counts p_k in expectation. For `uniform`, given A_t, a client is selected with
    probability m/|A_t|, so w_k = p_k |A_t| / (pi_k(t) m), where pi_k(t) = P(k in A_t). For other
    samplers the probability is not known exactly.

    >>> Known.reads_rates
    True
    """

    reads_rates: ClassVar[bool] = True

    @property
    def is_normalised(self) -> bool:
        """False."""
        return False

    def check(self, clients: Clients, cohort_limit: int, method: Variant) -> None:
        """Accept `uniform` alone.

        Raises:
            ConfigError: the sampler's inclusion probabilities are not known exactly.
        """
        if method.name != "uniform":
            raise ConfigError(
                "weighting 'known' needs exact inclusion probabilities, which are known for method "
                f"'uniform' alone; got {method.name or type(method).__name__!r} "
                "(weighting 'fedau' estimates them)"
            )

    def weights(self, view: View, selection: Selection, memory: Memory) -> FloatArray:
        """(m,) p_k / P(k in S_t)."""
        assert view.rates is not None
        cohort = selection.clients
        share = view.cohort_size / len(view.available)
        weights: FloatArray = view.shares[cohort] / (view.rates[cohort] * share)
        return weights
