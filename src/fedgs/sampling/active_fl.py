"""Active federated learning: clients whose loss was high are drawn more often."""

import numpy as np
from pydantic import Field

from fedgs.arrays import FloatArray
from fedgs.clients import Selection, View
from fedgs.registry import register
from fedgs.sampling.reported_losses import ReportsLosses

__all__ = ["ActiveFL"]


@register("method", "active_fl")
class ActiveFL(ReportsLosses):
    """A cohort drawn by softmax of each client's value, with a share of it drawn uniformly.

    The value of client k is

        u_k = sqrt(n_k) · (mean loss of its last local training)

    as reported with its update, and inf before its first one. Of the available clients, the
    floor(alpha_1 |A_t|) smallest values are excluded. Then ceil((1 - alpha_3) m) clients are drawn
    without replacement, with probabilities proportional to exp(alpha_2 u_k); the others of the
    cohort are drawn uniformly from all available clients that remain. Values of inf come first.
    Excluded clients, and those whose report was NaN, come last: they are drawn at this step only if
    too few others are available. Ties are broken by the generator.

    Attributes:
        excluded_share: alpha_1, 0 to 1.
        inverse_temperature: alpha_2 >= 0; at 0 all clients that are not excluded are equally
            likely, also those that never took part.
        uniform_share: alpha_3, 0 to 1; at 1 the method is `uniform`.

    References:
        J. Goetz, K. Malik, D. Bui, S. Moon, H. Liu, A. Kumar (2019): Active Federated Learning.
        arXiv:1909.12641.

    >>> from fedgs import Clients
    >>> clients, counts = Clients(tuple("abcd"), np.array([4, 1, 9, 1])), np.array([1, 0, 2, 1])
    >>> memory = {"losses": np.array([0.3, np.inf, 90.0, 0.4])}
    >>> view = View(4, clients, np.arange(4), counts, cohort_limit=2, memory=memory)
    >>> ActiveFL(excluded_share=0.5).select(view, np.random.default_rng(0)).clients
    array([1, 2])
    """

    excluded_share: float = Field(default=0.75, ge=0, le=1)
    inverse_temperature: float = Field(default=0.01, ge=0, allow_inf_nan=False)
    uniform_share: float = Field(default=0.1, ge=0, le=1)

    def values(self, view: View) -> FloatArray:
        """(|A_t|,) u_k of the available clients: inf before the first report, -inf if it was NaN.

        Raises:
            SelectionError: the view has no memory.
        """
        losses = self.last_losses(view)[view.available]
        sizes = view.clients.data_sizes[view.available]
        with np.errstate(over="ignore"):  # to inf
            values: FloatArray = np.sqrt(sizes) * losses
        return np.where(np.isnan(values), -np.inf, values)

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        """The clients drawn by softmax, then those drawn uniformly.

        Raises:
            SelectionError: the view has no memory.
        """
        available, size = view.available, view.cohort_size
        logits = self._logits(self.values(view), rng)
        # The largest logits with Gumbel noise are a draw by softmax without replacement. Noise
        # alone orders logits that are infinite.
        noise = rng.gumbel(size=len(available))
        order = np.lexsort((-noise, -(logits + noise)))
        by_value = size - _share(self.uniform_share, size)
        chosen, rest = order[:by_value], np.sort(order[by_value:])
        uniform = rng.choice(rest, size=size - by_value, replace=False)
        return Selection(np.sort(available[np.concatenate([chosen, uniform])]))

    def _logits(self, values: FloatArray, rng: np.random.Generator) -> FloatArray:
        """(a,) alpha_2 u_k, -inf for the excluded clients."""
        logits = np.zeros(len(values))
        if self.inverse_temperature > 0:
            with np.errstate(over="ignore"):  # to inf
                logits = self.inverse_temperature * values
        ascending = np.lexsort((rng.random(len(values)), values))
        logits[ascending[: _share(self.excluded_share, len(values))]] = -np.inf
        return logits


def _share(share: float, count: int) -> int:
    """floor(share · count), where 0.29 · 100 is 29 in spite of rounding."""
    return int(share * count + 1e-9)
