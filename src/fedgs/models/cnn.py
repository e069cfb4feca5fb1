"""The paper's convolutional networks, for CIFAR-10 and FashionMNIST."""

from typing import TYPE_CHECKING

from fedgs.errors import ConfigError
from fedgs.models.base import Model, need_torch
from fedgs.registry import register

if TYPE_CHECKING:
    from torch import nn

__all__ = ["CifarCNN", "FashionCNN", "image_side"]


def image_side(model: str, example_shape: tuple[int, ...], smallest: int) -> tuple[int, int, int]:
    """Channels, height and width of images that are large enough for a model.

    Args:
        model: its name, for the message.
        example_shape: of one example.
        smallest: the least height and width.

    Raises:
        ConfigError: examples of another shape, or smaller ones.

    >>> image_side("resnet8", (3, 32, 32), smallest=8)
    (3, 32, 32)
    """
    if len(example_shape) != 3 or min(example_shape[1:]) < smallest:
        raise ConfigError(
            f"model {model!r} takes images (channels, height, width) of at least "
            f"{smallest}x{smallest}, got examples of shape {example_shape}"
        )
    channels, height, width = example_shape
    return channels, height, width


@register("model", "cifar_cnn")
class CifarCNN(Model):
    """Two unpadded 5x5 convolutions of 64 channels, then dense layers of 384, 192 and C units.

    Each convolution is followed by 2x2 max pooling; all activations are ReLU. Pooling comes before
    ReLU, which is the same function, since both are monotone, and cheaper.

    >>> CifarCNN().build((3, 32, 32), 10)[7].in_features
    1600
    """

    def build(self, example_shape: tuple[int, ...], num_labels: int) -> "nn.Module":
        """A fresh network for images (channels, height, width) of at least 16x16.

        Raises:
            ConfigError: examples of another shape.
        """
        need_torch()
        from torch import nn

        channels, height, width = image_side("cifar_cnn", example_shape, smallest=16)
        after = [((side - 4) // 2 - 4) // 2 for side in (height, width)]
        return nn.Sequential(
            nn.Conv2d(channels, 64, 5), nn.MaxPool2d(2), nn.ReLU(),
            nn.Conv2d(64, 64, 5), nn.MaxPool2d(2), nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64 * after[0] * after[1], 384), nn.ReLU(),
            nn.Linear(384, 192), nn.ReLU(),
            nn.Linear(192, num_labels),
        )  # fmt: skip


@register("model", "fashion_cnn")
class FashionCNN(Model):
    """Two padded 5x5 convolutions of 32 and 64 channels, then dense layers of 512 and C units.

    Each convolution is followed by 2x2 max pooling; all activations are ReLU.

    >>> FashionCNN().build((1, 28, 28), 10)[7].in_features
    3136
    """

    def build(self, example_shape: tuple[int, ...], num_labels: int) -> "nn.Module":
        """A fresh network for images (channels, height, width) of at least 4x4.

        Raises:
            ConfigError: examples of another shape.
        """
        need_torch()
        from torch import nn

        channels, height, width = image_side("fashion_cnn", example_shape, smallest=4)
        return nn.Sequential(
            nn.Conv2d(channels, 32, 5, padding=2), nn.MaxPool2d(2), nn.ReLU(),
            nn.Conv2d(32, 64, 5, padding=2), nn.MaxPool2d(2), nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64 * (height // 4) * (width // 4), 512), nn.ReLU(),
            nn.Linear(512, num_labels),
        )  # fmt: skip
