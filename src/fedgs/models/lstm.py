"""A recurrent network for sequences of characters."""

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from fedgs.errors import ConfigError
from fedgs.models.base import Model, check_size, need_torch
from fedgs.registry import register

if TYPE_CHECKING:
    from torch import nn

__all__ = ["LSTM"]


@register("model", "lstm")
class LSTM(Model):
    """An embedding, stacked LSTM layers and a linear layer, for the next token at every place.

    With the default sizes it is the model for Shakespeare of LEAF (Caldas et al., 2018): an
    embedding of 8 numbers, two layers of 256 units. LEAF's model gives the token after the last
    place; this one gives the token after each place, as sequences with labels at every place need.
    Labels of -1 at all places but the last make both the same.

    Attributes:
        embedding: numbers that stand for a token, >= 1.
        hidden: units of each LSTM layer, >= 1.
        layers: LSTM layers, >= 1.

    References:
        S. Caldas et al. (2018): LEAF: A Benchmark for Federated Settings. arXiv:1812.01097.
        S. Hochreiter, J. Schmidhuber (1997): Long Short-Term Memory. Neural Computation.

    >>> sum(p.numel() for p in LSTM().build((80,), 80).parameters())
    819920
    """

    tasks: ClassVar[tuple[str, ...]] = ("sequence",)
    embedding: int = Field(default=8, ge=1)
    hidden: int = Field(default=256, ge=1)
    layers: int = Field(default=2, ge=1)

    def build(self, example_shape: tuple[int, ...], num_labels: int) -> "nn.Module":
        """A fresh network for sequences of L tokens 0..C-1, with PyTorch's initial parameters.

        It maps (b, L) tokens, integers or whole numbers, to (b, L, C) logits.

        Raises:
            ConfigError: examples that are no sequences.
        """
        need_torch()
        from fedgs.models.recurrent import TokenNetwork

        if len(example_shape) != 1:
            raise ConfigError(
                "model 'lstm' takes sequences (L,) of tokens, got examples of shape "
                f"{example_shape}"
            )
        units, inputs = self.hidden, self.embedding + (self.layers - 1) * self.hidden
        recurrent = 4 * units * (inputs + self.layers * (units + 2))
        check_size(self, num_labels * (self.embedding + units + 1) + recurrent)
        return TokenNetwork(num_labels, self.embedding, self.hidden, self.layers)
