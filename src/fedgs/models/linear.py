"""Logistic regression."""

import math
from typing import TYPE_CHECKING

from fedgs.models.base import Model, need_torch
from fedgs.registry import register

if TYPE_CHECKING:
    from torch import nn

__all__ = ["LogisticRegression"]


@register("model", "logistic")
class LogisticRegression(Model):
    """Multinomial logistic regression on the flattened example.

    The initial weights are PyTorch's, the bias is zero.

    >>> [tuple(p.shape) for p in LogisticRegression().build((60,), 10).parameters()]
    [(10, 60), (10,)]
    """

    def build(self, example_shape: tuple[int, ...], num_labels: int) -> "nn.Module":
        """A fresh linear layer, after a flattening layer unless examples are vectors."""
        need_torch()
        from torch import nn

        linear = nn.Linear(math.prod(example_shape), num_labels)
        nn.init.zeros_(linear.bias)
        return linear if len(example_shape) == 1 else nn.Sequential(nn.Flatten(), linear)
