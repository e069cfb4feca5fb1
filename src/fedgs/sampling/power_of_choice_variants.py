"""The variants of Power-of-Choice that compute or send less."""

from typing import Annotated

import numpy as np
from pydantic import Field

from fedgs.clients import Clients, Selection, View
from fedgs.registry import register
from fedgs.sampling.losses import check_candidates, drawn_candidates, highest_losses
from fedgs.sampling.power_of_choice import HighestLosses
from fedgs.sampling.reported_losses import ReportsLosses
from fedgs.weighting import WeightingSetting

__all__ = ["CPowD", "RPowD"]


@register("method", "cpow_d")
class CPowD(HighestLosses):
    """Power-of-Choice with losses on one mini-batch of each candidate; weights 1/m.

    It spends less computation than `power_of_choice`. With `loss_batch` >= n_k for all clients,
    the two select the same cohorts.

    Attributes:
        loss_on: the part that the mini-batches are drawn from, see `PowerOfChoice`.
        candidates: d >= M, see `PowerOfChoice`; None: all available clients.
        loss_batch: examples of the mini-batch, >= 1, drawn without replacement by seed, round and
            client; clients with no more examples take all of them.

    References:
        Y. J. Cho, J. Wang, G. Joshi (2022): Towards Understanding Biased Client Selection in
        Federated Learning. AISTATS.

    >>> from fedgs import Clients
    >>> clients = Clients(("a", "b", "c"), np.array([5, 1, 9]))
    >>> losses, counts = np.array([0.3, 0.9, np.nan]), np.zeros(3, dtype=np.int64)
    >>> view = View(0, clients, np.arange(3), counts, cohort_limit=2, losses=losses)
    >>> CPowD(loss_batch=4).select(view, np.random.default_rng(0)).clients
    array([0, 1])
    """

    loss_batch: int = Field(default=10, ge=1)


@register("method", "rpow_d")
class RPowD(ReportsLosses):
    """The m candidates with the highest loss of their last local training; weights 1/m.

    Clients report the mean loss over the mini-batches of their local training with their update, so
    that no further passes or messages are needed. A client that was never selected has a loss of
    inf and comes first; one whose report was NaN comes last. Ties are broken by the generator.

    Attributes:
        candidates: d >= M; d available clients, drawn in proportion to n_k without replacement;
            None: all.

    References:
        Y. J. Cho, J. Wang, G. Joshi (2022): Towards Understanding Biased Client Selection in
        Federated Learning. AISTATS.

    >>> from fedgs import Clients
    >>> clients, counts = Clients(tuple("abcd"), np.array([5, 1, 9, 2])), np.array([1, 0, 2, 1])
    >>> memory = {"losses": np.array([0.3, np.inf, 0.2, 0.4])}
    >>> view = View(4, clients, np.arange(4), counts, cohort_limit=2, memory=memory)
    >>> RPowD().select(view, np.random.default_rng(0)).clients
    array([1, 3])
    """

    weighting: WeightingSetting = "equal"
    candidates: Annotated[int, Field(ge=1)] | None = None

    def check(self, clients: Clients, cohort_limit: int) -> None:
        """Refuse fewer candidates than the cohort limit."""
        check_candidates(self.name, self.candidates, cohort_limit)

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        """The m candidates with the highest losses in the memory.

        Raises:
            SelectionError: the view has no memory.
        """
        losses = self.last_losses(view)
        candidates = drawn_candidates(view, self.candidates, rng)
        chosen = highest_losses(candidates, losses[candidates], view.cohort_size, rng)
        return Selection(chosen)
