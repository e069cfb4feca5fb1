"""The default aggregation: the weighted mean of the local models, or the sum of the updates."""

import torch

from fedgs.aggregation.base import Aggregation, Round, Vectors
from fedgs.aggregation.folds import WeightedMean, WeightedSum
from fedgs.registry import register
from fedgs.requests import AnyFold

__all__ = ["Mean"]


@register("aggregation", "mean")
class Mean(Aggregation):
    """The update U = sum_k w_k (theta_k - theta^t), which the server step applies.

    With normalised weights and the server step `sgd` of rate 1 this is FedAvg (McMahan et al.,
    2017, AISTATS).

    >>> Mean(server={"name": "momentum", "rate": 0.5}).server_step.rate
    0.5
    """

    def folds(self, round: Round) -> tuple[AnyFold, ...]:
        """The mean of the local models, or theta^t plus the weighted updates."""
        if round.is_normalised:
            return (WeightedMean(round.weights),)
        return (WeightedSum(round.weights, round.parameters),)

    def step(self, round: Round, results: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, Vectors]:
        """Let the server step move towards the result."""
        target = results[0] if results else None
        return self.server_step.step(round.round, round.parameters, target, round.vectors)
