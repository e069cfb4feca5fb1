"""A small residual network for images."""

from typing import TYPE_CHECKING, Literal

from fedgs.models.base import Model, need_torch
from fedgs.models.cnn import image_side
from fedgs.registry import register

if TYPE_CHECKING:
    from torch import nn

__all__ = ["ResNet8"]

_CHANNELS = (16, 32, 64)


@register("model", "resnet8")
class ResNet8(Model):
    """A residual network with eight layers and group normalization.

    It is the network for CIFAR-10 of He et al. (2016), section 4.2, with n = 1: a 3x3 convolution
    of 16 channels, three blocks of two 3x3 convolutions with 16, 32 and 64 channels, the mean over
    the positions, and a linear layer. The second and the third block halve the sides.

    Differences: group normalization takes the place of batch normalization, whose statistics differ
    between clients (Hsieh et al., 2020), and shortcuts that change the shape are 1x1 convolutions
    (option B of He et al.). Convolutions have He's initial weights and no bias.

    Attributes:
        groups: of each group normalization: 1, 2, 4, 8 or 16.

    References:
        K. He, X. Zhang, S. Ren, J. Sun (2016): Deep Residual Learning for Image Recognition. CVPR.
        Y. Wu, K. He (2018): Group Normalization. ECCV.
        K. Hsieh, A. Phanishayee, O. Mutlu, P. Gibbons (2020): The Non-IID Data Quagmire of
        Decentralized Machine Learning. ICML.

    >>> sum(p.numel() for p in ResNet8().build((3, 32, 32), 10).parameters())
    78042
    """

    groups: Literal[1, 2, 4, 8, 16] = 8

    def build(self, example_shape: tuple[int, ...], num_labels: int) -> "nn.Module":
        """A fresh network for images (channels, height, width) of at least 8x8.

        Raises:
            ConfigError: examples of another shape.
        """
        need_torch()
        from fedgs.models.residual import residual_network

        channels, _, _ = image_side("resnet8", example_shape, smallest=8)
        return residual_network(channels, _CHANNELS, num_labels, groups=self.groups)
