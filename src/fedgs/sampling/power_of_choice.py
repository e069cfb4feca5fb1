"""Power-of-Choice: the clients with the highest loss train."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fedgs.arrays import IntArray
from fedgs.clients import Clients, Selection, View
from fedgs.errors import SelectionError
from fedgs.registry import register
from fedgs.sampling.base import Sampler
from fedgs.sampling.losses import check_candidates, drawn_candidates, highest_losses
from fedgs.weighting import WeightingSetting

__all__ = ["HighestLosses", "PowerOfChoice"]


class HighestLosses(Sampler):
    """Base of the samplers that take the highest losses of the current model."""

    weighting: WeightingSetting = "equal"
    loss_on: Literal["train", "validation"] = "train"
    candidates: Annotated[int, Field(ge=1)] | None = None

    def check(self, clients: Clients, cohort_limit: int) -> None:
        """Refuse fewer candidates than the cohort limit."""
        check_candidates(self.name, self.candidates, cohort_limit)

    def loss_candidates(self, view: View, rng: np.random.Generator) -> IntArray:
        """Ascending indices of the min(d, |A_t|) clients whose losses are to be computed."""
        self.check(view.clients, view.cohort_limit)
        return drawn_candidates(view, self.candidates, rng)

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        """The m available clients with the highest losses in `view.losses`.

        Raises:
            SelectionError: the view has no losses.
        """
        if view.losses is None:
            raise SelectionError(
                f"{self.name!r} needs the local losses of its candidates in view.losses, got none"
            )
        losses = view.losses[view.available]
        return Selection(highest_losses(view.available, losses, view.cohort_size, rng))


@register("method", "power_of_choice")
class PowerOfChoice(HighestLosses):
    """The m candidates with the highest local loss of the current model; weights 1/m.

    A loss of inf comes first. Clients without a loss (an empty validation part, or not a candidate)
    come last. Ties are broken by the generator.

    Attributes:
        loss_on: the part that the losses are computed on. The paper's definition is "train"; its
            published figures need "validation", which needs a federation with validation parts.
        candidates: d >= M; only d available clients, drawn in proportion to n_k without
            replacement, compute their loss; None: all.

    References:
        Y. J. Cho, J. Wang, G. Joshi (2022): Towards Understanding Biased Client Selection in
        Federated Learning. AISTATS.

    >>> from fedgs import Clients
    >>> clients = Clients(("a", "b", "c"), np.array([5, 1, 9]))
    >>> losses, counts = np.array([0.3, 0.9, np.nan]), np.zeros(3, dtype=np.int64)
    >>> view = View(0, clients, np.arange(3), counts, cohort_limit=2, losses=losses)
    >>> PowerOfChoice().select(view, np.random.default_rng(0)).clients
    array([0, 1])
    """
