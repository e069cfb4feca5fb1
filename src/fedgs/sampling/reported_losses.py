"""Samplers that rank clients by the loss that came with their last update."""

import numpy as np

from fedgs.arrays import FloatArray
from fedgs.clients import Clients, Memory, Outcome, View
from fedgs.errors import SelectionError
from fedgs.requests import ReportName
from fedgs.sampling.base import Sampler

__all__ = ["ReportsLosses"]


class ReportsLosses(Sampler):
    """Base of samplers whose memory is each client's mean loss when it last took part.

    The memory is `{"losses": (N,)}`, inf before the first report, so that clients that were never
    selected can be explored first.

    >>> ReportsLosses().start(Clients(("a", "b"), np.array([1, 2])))["losses"]
    array([inf, inf])
    """

    @property
    def wanted_reports(self) -> tuple[ReportName, ...]:
        """The mean loss of local training."""
        return ("mean_loss",)

    def start(self, clients: Clients) -> Memory:
        """Losses of inf."""
        return {"losses": np.full(len(clients), np.inf)}

    def observe(self, memory: Memory, view: View, outcome: Outcome) -> Memory:
        """The memory with the losses that the cohort reported.

        Raises:
            SelectionError: the outcome has no mean losses.
        """
        reported = outcome.reports.get("mean_loss")
        if reported is None:
            raise SelectionError(
                f"{self.name!r} needs the mean losses of local training in outcome.reports, "
                "got none"
            )
        losses = memory["losses"].copy()
        losses[outcome.clients] = reported
        return {"losses": losses}

    def last_losses(self, view: View) -> FloatArray:
        """(N,) each client's mean loss when it last took part; inf: it never did.

        Raises:
            SelectionError: the view has no memory.
        """
        losses = view.memory.get("losses")
        if losses is None:
            raise SelectionError(
                f"{self.name!r} needs its memory in view.memory, as start(clients) gives it, "
                "got none"
            )
        return losses
