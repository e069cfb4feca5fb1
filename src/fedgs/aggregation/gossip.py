"""Aggregation of clients that continue from the model they last received: FedAWE."""

from typing import ClassVar

import torch

from fedgs.aggregation.base import Aggregation, Corrections, Round, Vectors
from fedgs.aggregation.folds import Rows
from fedgs.aggregation.table import ClientTable
from fedgs.clients import Clients, Objective
from fedgs.errors import ConfigError
from fedgs.registry import register
from fedgs.requests import AnyFold
from fedgs.weighting import Weighting

__all__ = ["Gossip", "refuse_all_but_equal"]


@register("aggregation", "gossip")
class Gossip(Aggregation):
    """Clients start from the model x_k that they last received, and their updates are echoed.

    With y_k the result of the local training from x_k and tau_k the last round in which client k
    took part (-1 before the first):
    x_k' = x_k + eta_g (t - tau_k) (y_k - x_k) for k in S, theta^{t+1} = mean over S of x_k', and
    x_k <- theta^{t+1}, tau_k <- t for k in S. A round without a cohort changes nothing.

    The mixing matrix is doubly stochastic for equal weights alone, so the objective is the mean
    over clients with p_k = 1/N: `training.objective = "equal"`.

    Reference: Xiang et al., "Efficient Federated Learning against Heterogeneous and Non-stationary
    Client Unavailability", 2024, NeurIPS.

    Attributes:
        echo: whether updates are multiplied by t - tau_k.
        server: eta_g is its rate; the step is `sgd`.

    >>> Gossip().echo
    True
    """

    keeps_models: ClassVar[bool] = True
    objective: ClassVar[Objective | None] = "equal"

    echo: bool = True

    def check(self, clients: Clients, cohort_limit: int, weighting: Weighting) -> None:
        """Accept equal weights and the server step `sgd`.

        Raises:
            ConfigError: another weighting or server step.
        """
        refuse_all_but_equal(self, weighting)

    def start(self, parameters: torch.Tensor, clients: Clients) -> Vectors:
        """All clients hold theta^0, and none has taken part."""
        count = len(clients)
        return {
            "held": ClientTable([parameters] * count),
            "last": torch.full((count,), -1, dtype=torch.int64),
        }

    def corrections(self, round: Round) -> Corrections:
        """Each client starts from the model that it holds."""
        held = round.vectors["held"]
        assert isinstance(held, ClientTable)
        return Corrections(starts=held.stacked(round.cohort, like=round.parameters))

    def folds(self, round: Round) -> tuple[AnyFold, ...]:
        """All local models."""
        return (Rows(),)

    def step(self, round: Round, results: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, Vectors]:
        """The mean of the echoed models, which the cohort receives."""
        if not results:
            return round.parameters, round.vectors
        held, last = round.vectors["held"], round.vectors["last"]
        assert isinstance(held, ClientTable) and isinstance(last, torch.Tensor)
        cohort = torch.from_numpy(round.cohort)
        starts = held.stacked(round.cohort, like=round.parameters)
        total = torch.zeros_like(round.parameters, dtype=torch.float64)
        echoes = (round.round - last[cohort]).tolist() if self.echo else [1] * len(round.cohort)
        for start, model, echo in zip(starts, results[0], echoes, strict=True):
            start = start.double()
            total += start + self.server_step.rate * echo * (model.double() - start)
        parameters = (total / len(echoes)).float()
        last = last.clone()
        last[cohort] = round.round
        held = held.replaced(round.cohort, [parameters] * len(echoes))
        return parameters, {**round.vectors, "held": held, "last": last}


def refuse_all_but_equal(aggregation: Aggregation, weighting: Weighting) -> None:
    """Accept equal weights and the server step `sgd` for clients that continue from own models.

    Raises:
        ConfigError: another weighting or server step.
    """
    if weighting.name != "equal":
        raise ConfigError(
            f"aggregation {aggregation.name!r} needs method.weighting = 'equal', since its "
            "averages are unbiased for equal weights alone; got "
            f"{weighting.name or type(weighting).__name__!r}"
        )
    server = aggregation.server
    if server.name != "sgd":
        raise ConfigError(
            f"aggregation {aggregation.name!r} needs the server step 'sgd', whose rate is eta_g; "
            f"got {server.name or type(server).__name__!r}"
        )
