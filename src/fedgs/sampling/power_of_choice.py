"""Power-of-Choice: train where the loss is highest."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fedgs.arrays import IntArray
from fedgs.clients import Clients, Selection, View, Weighting
from fedgs.errors import ConfigError, SelectionError
from fedgs.registry import register
from fedgs.sampling.base import Sampler

__all__ = ["PowerOfChoice"]


@register("method", "power_of_choice")
class PowerOfChoice(Sampler):
    """The m candidates with the highest local loss of the current model; weights 1/m.

    A loss of inf comes first. Clients without a loss (an empty validation part, or not a candidate)
    come last. Ties, also where all losses are equal, are broken by the generator.

    Attributes:
        loss_on: the part that the losses are computed on. The paper's definition is "train"; its
            published figures need "validation", which needs a federation with validation parts.
        candidates: d >= M; only d available clients, drawn in proportion to n_k without
            replacement, compute their loss; None: all.

    >>> from fedgs import Clients
    >>> clients = Clients(("a", "b", "c"), np.array([5, 1, 9]))
    >>> losses = np.array([0.3, 0.9, np.nan])
    >>> view = View(0, clients, np.arange(3), np.zeros(3, dtype=np.int64), cohort_limit=2, losses=losses)
    >>> PowerOfChoice().select(view, np.random.default_rng(0)).clients
    array([0, 1])
    """

    weighting: Weighting = "equal"
    loss_on: Literal["train", "validation"] = "train"
    candidates: Annotated[int, Field(ge=1)] | None = None

    def check(self, clients: Clients, cohort_limit: int) -> None:
        if self.candidates is not None and self.candidates < cohort_limit:
            raise ConfigError(
                f"method.candidates must be at least {cohort_limit}, the cohort limit, for {self.name!r}, got {self.candidates}"
            )

    def loss_candidates(self, view: View, rng: np.random.Generator) -> IntArray:
        """Ascending indices of the min(d, |A_t|) clients whose losses are to be computed."""
        self.check(view.clients, view.cohort_limit)
        if self.candidates is None or self.candidates >= len(view.available):
            return view.available
        # A race of exponential clocks with rates n_k: the order of arrival is that of drawing
        # without replacement.
        arrival = (
            rng.exponential(size=len(view.available)) / view.clients.data_sizes[view.available]
        )
        return np.sort(view.available[np.argsort(arrival)[: self.candidates]])

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        if view.losses is None:
            raise SelectionError(
                f"{self.name!r} needs the local losses of its candidates in view.losses, got none"
            )
        losses = view.losses[view.available]
        known = ~np.isnan(losses)
        # The last key is the first that counts: known losses, the highest first, ties at random.
        order = np.lexsort((rng.random(len(losses)), -np.where(known, losses, 0.0), ~known))
        return Selection(np.sort(view.available[order[: view.cohort_size]]))
