"""FedPBC: all clients continue to train, and only the cohort's models are averaged and replaced."""

from typing import ClassVar

import torch

from fedgs.aggregation.base import Aggregation, Corrections, Round, Vectors
from fedgs.aggregation.folds import Rows
from fedgs.aggregation.gossip import refuse_all_but_equal
from fedgs.aggregation.table import ClientTable
from fedgs.clients import Clients, Objective
from fedgs.registry import register
from fedgs.requests import AnyFold
from fedgs.weighting import Weighting

__all__ = ["Postponed"]


@register("aggregation", "postponed")
class Postponed(Aggregation):
    """Every client trains in every round, from its own model x_k; absent ones do not exchange it.

    With y_k the result of the local training from x_k:
    x_k <- y_k for k not in S, theta^{t+1} = mean over S of x_k + eta_g (y_k - x_k), and
    x_k <- theta^{t+1} for k in S. In a round without a cohort theta stays and all x_k <- y_k.

    N clients train in a round, whatever the size of the cohort. The mixing matrix is doubly
    stochastic for equal weights alone, so the objective is the mean over clients with p_k = 1/N:
    `training.objective = "equal"`.

    Reference: Xiang et al., "Towards Bias Correction of FedAvg over Nonuniform and Time-Varying
    Communications", 2023, CDC (FedPBC).

    Attributes:
        server: eta_g is its rate; the step is `sgd`.

    >>> Postponed().trains_everyone
    True
    """

    keeps_models: ClassVar[bool] = True
    trains_everyone: ClassVar[bool] = True
    objective: ClassVar[Objective | None] = "equal"

    def check(self, clients: Clients, cohort_limit: int, weighting: Weighting) -> None:
        """Accept equal weights and the server step `sgd`.

        Raises:
            ConfigError: another weighting or server step.
        """
        refuse_all_but_equal(self, weighting)

    def start(self, parameters: torch.Tensor, clients: Clients) -> Vectors:
        """All clients hold theta^0."""
        return {"held": ClientTable([parameters] * len(clients))}

    def corrections(self, round: Round) -> Corrections:
        """Each client starts from the model that it holds."""
        held = round.vectors["held"]
        assert isinstance(held, ClientTable)
        return Corrections(starts=held.stacked(round.trainees, like=round.parameters))

    def folds(self, round: Round) -> tuple[AnyFold, ...]:
        """All local models."""
        return (Rows(),)

    def step(self, round: Round, results: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, Vectors]:
        """The mean of the cohort's models, which the cohort receives; the others keep theirs."""
        held = round.vectors["held"]
        assert isinstance(held, ClientTable)
        if not results:  # before round 0
            return round.parameters, round.vectors
        (models,) = results
        parameters, cohort = round.parameters, round.cohort.tolist()
        if cohort:
            total = torch.zeros_like(parameters, dtype=torch.float64)
            for start, k in zip(held.stacked(round.cohort, like=parameters), cohort, strict=True):
                start = start.double()
                total += start + self.server_step.rate * (models[k].double() - start)
            parameters = (total / len(cohort)).float()
        members = set(cohort)
        rows = [parameters if k in members else models[k].clone() for k in range(len(models))]
        return parameters, {**round.vectors, "held": held.replaced(round.trainees, rows)}
