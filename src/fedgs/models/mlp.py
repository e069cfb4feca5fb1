"""A multilayer perceptron."""

import itertools
import math
from typing import TYPE_CHECKING

from pydantic import field_validator

from fedgs.errors import shown
from fedgs.models.base import Model, check_size, need_torch
from fedgs.registry import register

if TYPE_CHECKING:
    from torch import nn

__all__ = ["MLP"]


@register("model", "mlp")
class MLP(Model):
    """Hidden layers with ReLU on the flattened example, then a linear layer.

    With the default widths it is the "2NN" of McMahan et al. (2017): Communication-Efficient
    Learning of Deep Networks from Decentralized Data, AISTATS.

    Attributes:
        hidden: widths of the hidden layers, each >= 1; none: a linear model. One integer stands for
            one layer.

    >>> module = MLP(hidden=[8, 4]).build((3, 2), 5)
    >>> [tuple(p.shape) for p in module.parameters() if p.ndim == 2]
    [(8, 6), (4, 8), (5, 4)]
    """

    hidden: tuple[int, ...] = (200, 200)

    @field_validator("hidden", mode="before")
    @classmethod
    def _widths(cls, value: object) -> tuple[int, ...]:
        widths = value if isinstance(value, list | tuple) else [value]
        if not all(type(width) is int and width >= 1 for width in widths):
            raise ValueError(
                "model.hidden must be an integer >= 1 or a list of such integers, "
                f"got {shown(value)}"
            )
        return tuple(widths)

    def build(self, example_shape: tuple[int, ...], num_labels: int) -> "nn.Module":
        """A fresh network for examples of any shape, with PyTorch's initial parameters."""
        need_torch()
        from torch import nn

        widths = [math.prod(example_shape), *self.hidden]
        check_size(self, sum((a + 1) * b for a, b in itertools.pairwise([*widths, num_labels])))
        layers: list[nn.Module] = [nn.Flatten()] if len(example_shape) != 1 else []
        for inputs, outputs in itertools.pairwise(widths):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(widths[-1], num_labels))
