"""Losses of regression."""

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from fedgs.losses.base import Loss
from fedgs.registry import register

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Huber", "MeanSquaredError"]


@register("loss", "mean_squared_error")
class MeanSquaredError(Loss):
    """Mean squared error: s = mean over the q targets of (output - target)², w = 1.

    >>> import torch
    >>> MeanSquaredError().mean(torch.tensor([[1.0], [3.0]]), torch.zeros(2))
    tensor(5.)
    """

    tasks: ClassVar[tuple[str, ...]] = ("regression",)

    def terms(self, outputs: "Tensor", targets: "Tensor") -> "tuple[Tensor, Tensor | None]":
        """See the class; (b, q) outputs and (b, q) targets, or (b,) targets."""
        errors = outputs.reshape(targets.shape) - targets
        return (errors * errors).reshape(len(targets), -1).mean(1), None


@register("loss", "huber")
class Huber(Loss):
    """Huber loss: quadratic for errors e up to delta, linear beyond; w = 1.

    s = mean over the q targets of e²/2 where |e| <= delta, else delta·(|e| - delta/2).

    Reference: P. J. Huber (1964): Robust Estimation of a Location Parameter. Annals of Mathematical
    Statistics.

    Attributes:
        delta: > 0.

    >>> import torch
    >>> Huber().mean(torch.tensor([1.0, 3.0]), torch.zeros(2))  # (0.5 + 2.5) / 2
    tensor(1.5000)
    """

    tasks: ClassVar[tuple[str, ...]] = ("regression",)
    delta: float = Field(default=1.0, gt=0, allow_inf_nan=False)

    def terms(self, outputs: "Tensor", targets: "Tensor") -> "tuple[Tensor, Tensor | None]":
        """See the class; (b, q) outputs and (b, q) targets, or (b,) targets."""
        from torch.nn import functional

        losses = functional.huber_loss(
            outputs.reshape(targets.shape), targets, reduction="none", delta=self.delta
        )
        return losses.reshape(len(targets), -1).mean(1), None
