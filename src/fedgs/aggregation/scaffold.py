"""SCAFFOLD: control variates that correct the drift of local training."""

from typing import ClassVar

import torch

from fedgs.aggregation.base import Aggregation, Corrections, Round, Vectors
from fedgs.aggregation.folds import Rows, weighted_rows
from fedgs.aggregation.table import ClientTable
from fedgs.clients import Clients
from fedgs.registry import register
from fedgs.requests import AnyFold

__all__ = ["Scaffold"]


@register("aggregation", "scaffold")
class Scaffold(Aggregation):
    """Local steps follow grad F_k - c_k + c, where c = sum p_k c_k are control variates.

    After E steps of rate eta: c_k <- c_k - c + (theta^t - theta_k) / (E eta) (option II of the
    paper), theta^{t+1} = theta^t + eta_g U with U = sum over S of w_k Delta_k, and
    c <- c + sum over S of p_k (c_k new - c_k old). All are zero at the start.

    The update divided by E eta is the mean gradient of E steps of plain SGD alone, so optimisers
    with a memory, gradient clipping and local epochs are refused. Weight decay is part of the
    gradient.

    A client keeps P numbers and receives and sends twice as many as in FedAvg.

    Reference: Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated
    Learning", 2020, ICML. The weighted form with p_k other than 1/N is not in the paper.

    >>> Scaffold().server_step.rate
    1.0
    """

    keeps_models: ClassVar[bool] = True
    needs_plain_steps: ClassVar[bool] = True

    def start(self, parameters: torch.Tensor, clients: Clients) -> Vectors:
        """Control variates of zero."""
        return {
            **super().start(parameters, clients),
            "control": torch.zeros_like(parameters, dtype=torch.float64),
            "controls": ClientTable.zeros(len(clients)),
        }

    def corrections(self, round: Round) -> Corrections:
        """The offsets c - c_k."""
        control, controls = _controls(round)
        own = controls.stacked(round.cohort, like=control)
        return Corrections(offsets=(control - own).float())

    def folds(self, round: Round) -> tuple[AnyFold, ...]:
        """All local models."""
        return (Rows(),)

    def step(self, round: Round, results: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, Vectors]:
        """Move by the weighted updates, and replace the control variates of the cohort.

        A round without a cohort is the server step's alone.
        """
        if not results:
            return self.server_step.step(round.round, round.parameters, None, round.vectors)
        control, controls = _controls(round)
        own = controls.stacked(round.cohort, like=control)
        updates = results[0].double() - round.parameters.double()
        new = own - control - updates / (round.local_steps * round.learning_rate)
        target = (round.parameters.double() + weighted_rows(round.weights, updates)).float()
        vectors = {
            **round.vectors,
            "control": control + weighted_rows(round.shares[round.cohort], new - own),
            "controls": controls.replaced(round.cohort, new),
        }
        return self.server_step.step(round.round, round.parameters, target, vectors)


def _controls(round: Round) -> tuple[torch.Tensor, ClientTable]:
    control, controls = round.vectors["control"], round.vectors["controls"]
    assert isinstance(control, torch.Tensor) and isinstance(controls, ClientTable)
    return control, controls
