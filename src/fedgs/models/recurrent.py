"""The layers of recurrent networks; imported when one is built, since it needs PyTorch."""

import torch
from torch import nn

__all__ = ["TokenNetwork"]


class TokenNetwork(nn.Module):
    """The logits of the next token at every place of a sequence.

    Args:
        tokens: C, how many tokens there are.
        embedding: numbers that stand for a token.
        hidden: units of each LSTM layer.
        layers: LSTM layers.
    """

    def __init__(self, tokens: int, embedding: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.linear = nn.Linear(hidden, tokens)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(b, L) tokens -> (b, L, C) logits."""
        states, _ = self.lstm(self.embedding(x.long()))
        logits: torch.Tensor = self.linear(states)
        return logits
