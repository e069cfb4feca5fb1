"""FedDyn: dynamic regularisation, whose local objectives agree at the optimum of the global one."""

from typing import ClassVar

import torch
from pydantic import Field

from fedgs.aggregation.base import Aggregation, Corrections, Round, Vectors
from fedgs.aggregation.folds import Rows, weighted_rows
from fedgs.aggregation.table import ClientTable
from fedgs.clients import Clients
from fedgs.registry import register
from fedgs.requests import AnyFold

__all__ = ["FedDyn"]


@register("aggregation", "feddyn")
class FedDyn(Aggregation):
    """Clients minimise F_k(theta) - <h_k, theta> + (alpha/2)·|theta - theta^t|².

    After the local training h_k <- h_k - alpha Delta_k for k in S. The server keeps
    h = sum over all k of p_k h_k, and theta^{t+1} = sum over S of w_k theta_k - h / alpha, which
    the server step may change further. All h_k are zero at the start.

    At a fixed point h_k is the gradient of F_k, so that h = 0 is the condition for a minimum of the
    objective. The quadratic term is FedProx's: `training.mu` must equal alpha. At low participation
    the norm of h grows, and theta^{t+1} with it; a larger alpha limits that.

    Reference: Acar et al., "Federated Learning Based on Dynamic Regularization", 2021, ICLR, with
    p_k = 1/N and w_k = 1/m. The published code weights alpha by data sizes, clips gradients, has
    weight decay, and evaluates a mean of all clients' models too.

    Attributes:
        alpha: of the regularisation, > 0; the publication has .01 to .1.

    >>> FedDyn(alpha=0.05).proximal
    0.05
    """

    keeps_models: ClassVar[bool] = True

    alpha: float = Field(default=0.1, gt=0, allow_inf_nan=False)

    @property
    def proximal(self) -> float:
        """The weight `training.mu` of the quadratic term."""
        return self.alpha

    def start(self, parameters: torch.Tensor, clients: Clients) -> Vectors:
        """Zero vectors."""
        return {
            **super().start(parameters, clients),
            "dynamic": torch.zeros_like(parameters, dtype=torch.float64),
            "dynamics": ClientTable.zeros(len(clients)),
        }

    def corrections(self, round: Round) -> Corrections:
        """The offsets -h_k."""
        mean, table = _dynamics(round)
        return Corrections(offsets=(-table.stacked(round.cohort, like=mean)).float())

    def folds(self, round: Round) -> tuple[AnyFold, ...]:
        """All local models."""
        return (Rows(),)

    def step(self, round: Round, results: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, Vectors]:
        """Update the h_k of the cohort and their mean, and correct the mean model by it.

        A round without a cohort is the server step's alone.
        """
        if not results:
            return self.server_step.step(round.round, round.parameters, None, round.vectors)
        mean, table = _dynamics(round)
        own = table.stacked(round.cohort, like=mean)
        updates = results[0].double() - round.parameters.double()
        new = own - self.alpha * updates
        mean = mean + weighted_rows(round.shares[round.cohort], new - own)
        average = round.parameters.double() + weighted_rows(round.weights, updates)
        target = (average - mean / self.alpha).float()
        vectors = {
            **round.vectors,
            "dynamic": mean,
            "dynamics": table.replaced(round.cohort, new),
        }
        return self.server_step.step(round.round, round.parameters, target, vectors)


def _dynamics(round: Round) -> tuple[torch.Tensor, ClientTable]:
    mean, table = round.vectors["dynamic"], round.vectors["dynamics"]
    assert isinstance(mean, torch.Tensor) and isinstance(table, ClientTable)
    return mean, table
