"""The local objective: mean cross-entropy on the batch, and FedProx's proximal term.

    F_k(theta) = mean over the batch of -log softmax(f_theta(x))_y  +  (mu/2)·|theta - theta^t|²

The proximal term concerns parameters only, not buffers. Its gradient mu·(theta - theta^t) is
written out, not differentiated.
"""

import torch
from torch.nn import functional

__all__ = ["cross_entropy", "example_losses", "proximal_step"]


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy in nats over a batch: (b, C) logits and (b,) labels -> scalar.

    >>> round(float(cross_entropy(torch.zeros(3, 4), torch.tensor([0, 1, 2]))), 4)  # log 4
    1.3863
    """
    return functional.cross_entropy(logits.float(), labels)


def example_losses(logits: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The cross-entropy of each example, and whether the largest logit is the label's.

    Of equal logits the first one counts.

    Args:
        logits: (b, C).
        labels: (b,) int64.

    Returns:
        (b,) float64 losses and (b,) bool.

    >>> logits, labels = torch.tensor([[-200.0, 0.0]]), torch.tensor([0])
    >>> [value.tolist() for value in example_losses(logits, labels)]
    [[200.0], [False]]
    """
    losses = functional.cross_entropy(logits.float(), labels, reduction="none")
    return losses.double(), logits.argmax(dim=-1) == labels


def proximal_step(vector: torch.Tensor, start: torch.Tensor, mu: float) -> torch.Tensor:
    """The proximal term's gradient mu·(theta - theta^t), of the shape of `vector`.

    >>> proximal_step(torch.tensor([3.0]), torch.tensor([1.0]), 0.5)
    tensor([1.])
    """
    return (vector - start) * mu
