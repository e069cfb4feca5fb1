"""The layers of residual networks; imported when one is built, since it needs PyTorch."""

import itertools
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

__all__ = ["ResidualBlock", "residual_network"]


class ResidualBlock(nn.Module):
    """relu(shortcut(x) + norm(conv(relu(norm(conv(x)))))) with 3x3 convolutions.

    Args:
        inputs: channels of x.
        outputs: channels of the result.
        stride: of the first convolution; the sides are divided by it.
        groups: of the group normalizations.

    The shortcut is x itself, or a normalised 1x1 convolution where the shape changes.
    """

    def __init__(self, inputs: int, outputs: int, *, stride: int, groups: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.GroupNorm(groups, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(groups, outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.GroupNorm(groups, outputs)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(b, inputs, h, w) -> (b, outputs, h / stride, w / stride), rounded up."""
        hidden = functional.relu(self.norm1(self.conv1(x)))
        result: torch.Tensor = self.norm2(self.conv2(hidden)) + self.shortcut(x)
        return functional.relu(result)


def residual_network(
    channels: int, widths: Sequence[int], num_labels: int, *, groups: int
) -> nn.Module:
    """A convolution, a block for each width, the mean over the positions and a linear layer.

    Args:
        channels: of the images.
        widths: channels of each block; every block but the first halves the sides.
        num_labels: C, the number of logits.
        groups: of the group normalizations; divides all widths.
    """
    first = widths[0]
    layers: list[nn.Module] = [
        nn.Conv2d(channels, first, 3, padding=1, bias=False),
        nn.GroupNorm(groups, first),
        nn.ReLU(),
        ResidualBlock(first, first, stride=1, groups=groups),
    ]
    layers += [
        ResidualBlock(inputs, outputs, stride=2, groups=groups)
        for inputs, outputs in itertools.pairwise(widths)
    ]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], num_labels)]
    network = nn.Sequential(*layers)
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return network
