"""Aggregation with a table of each client's last update: MIFA, FedVARP, FedStale, FedLaAvg."""

from typing import ClassVar, Literal

import torch
from pydantic import Field

from fedgs.aggregation.base import Aggregation, Round, Vectors
from fedgs.aggregation.folds import Rows, weighted_rows
from fedgs.aggregation.table import ClientTable
from fedgs.clients import Clients
from fedgs.registry import register
from fedgs.requests import AnyFold

__all__ = ["Stale"]

RECOMPUTE_EVERY = 100  # rounds between two full computations of the tables' mean, against drift


@register("aggregation", "stale")
class Stale(Aggregation):
    """U = beta H + sum over S of w_k (Delta_k - beta h_k), with H = sum over all k of p_k h_k.

    h_k is the last update of client k, zero before the first one; it becomes Delta_k for k in S.
    With beta = 1 and w_k = p_k (weighting `all`) this is MIFA (Gu et al., 2021, NeurIPS), with
    w_k = 1/m FedVARP (Jhunjhunwala et al., 2022, UAI), with inverse rates and any beta FedStale
    (Rodio and Neglia, 2024), and with the sampler `least_recent` FedLaAvg (Yan et al., 2020).
    With beta = 0 no table is kept in use and this is `mean`.

    The server holds N·P numbers at most. H is updated incrementally, at a cost of O(m·P) a round,
    and recomputed every 100 rounds.

    Attributes:
        beta: share of the stored updates that counts, in [0, 1].
        unit: what is stored: "update", Delta_k; "gradient", Delta_k / eta_t, which counts with the
            present learning rate (the form of MIFA).
        move_when_empty: whether the server moves by beta H in a round without a cohort.

    >>> Stale(unit="gradient").beta
    1.0
    """

    keeps_models: ClassVar[bool] = True

    beta: float = Field(default=1.0, ge=0, le=1)
    unit: Literal["update", "gradient"] = "update"
    move_when_empty: bool = True

    def start(self, parameters: torch.Tensor, clients: Clients) -> Vectors:
        """An empty table and its mean of zero."""
        return {
            **super().start(parameters, clients),
            "stale": ClientTable.zeros(len(clients)),
            "stale_mean": torch.zeros_like(parameters, dtype=torch.float64),
        }

    def folds(self, round: Round) -> tuple[AnyFold, ...]:
        """All local models."""
        return (Rows(),)

    def step(self, round: Round, results: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, Vectors]:
        """Move by U, and store the updates of the cohort."""
        table, mean = round.vectors["stale"], round.vectors["stale_mean"]
        assert isinstance(table, ClientTable) and isinstance(mean, torch.Tensor)
        scale = round.learning_rate if self.unit == "gradient" else 1.0
        if not results:
            if not self.move_when_empty:
                return self.server_step.step(round.round, round.parameters, None, round.vectors)
            target = (round.parameters.double() + self.beta * scale * mean).float()
            return self.server_step.step(round.round, round.parameters, target, round.vectors)
        updates = results[0] - round.parameters
        stored = updates / scale if self.unit == "gradient" else updates
        old = table.stacked(round.cohort, like=mean)
        correction = weighted_rows(round.weights, updates - self.beta * scale * old)
        target = (round.parameters.double() + self.beta * scale * mean + correction).float()
        table = table.replaced(round.cohort, stored)
        mean = mean + weighted_rows(round.shares[round.cohort], stored - old)
        if (round.round + 1) % RECOMPUTE_EVERY == 0:
            mean = table.weighted_sum(round.shares, like=round.parameters)
        vectors = {**round.vectors, "stale": table, "stale_mean": mean}
        return self.server_step.step(round.round, round.parameters, target, vectors)
