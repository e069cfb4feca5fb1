"""Plain local training: one client, `torch.optim` and `torch.nn.functional`, no shared code."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Plain = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def masked_cross_entropy(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The mean over the places of sequences whose label is not -1."""
    return functional.cross_entropy(outputs.flatten(0, 1), labels.flatten(), ignore_index=-1)


def squared_error(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return functional.mse_loss(outputs.reshape(targets.shape), targets)


def trained(
    module: nn.Module,
    examples: tuple[torch.Tensor, torch.Tensor],
    *,
    batches: Sequence[Sequence[int]],
    loss: Plain,
    optimizer: Callable[[Any], torch.optim.Optimizer],
    mu: float = 0.0,
    clip: float | None = None,
    each_step: Callable[[torch.Tensor], object] = lambda parameters: None,
) -> torch.Tensor:
    """The parameters after a step on each batch; `each_step` gets those after every step."""
    model = copy.deepcopy(module).train()
    start = [parameter.detach().clone() for parameter in model.parameters()]
    steps, (x, y) = optimizer(model.parameters()), examples
    for batch in batches:
        steps.zero_grad()
        value = loss(model(x[list(batch)]), y[list(batch)])
        for parameter, first in zip(model.parameters(), start, strict=True):
            value = value + mu / 2 * ((parameter - first) ** 2).sum()
        value.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        steps.step()
        each_step(flat(model))
    return flat(model)


def flat(module: nn.Module) -> torch.Tensor:
    """All parameters as one vector."""
    return torch.cat([parameter.detach().reshape(-1) for parameter in module.parameters()])
