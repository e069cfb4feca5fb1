"""The task: the paper's Synthetic(0.5, 0.5), one part a client, and logistic regression."""

from functools import lru_cache

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedgs.data import Federation, Synthetic

Examples = tuple[torch.Tensor, torch.Tensor]


@lru_cache(maxsize=1)
def federation(num_clients: int) -> Federation:
    """The data of all clients.

    A real client would read its own data; here each makes the same federation from its seed.
    """
    return Synthetic(clients=num_clients).load()


def training_part(client: int, num_clients: int) -> Examples:
    """The training examples of one client."""
    return _rows(federation(num_clients).train, client)


def validation_part(client: int, num_clients: int) -> Examples:
    """The validation examples of one client."""
    return _rows(federation(num_clients).validation, client)


def test_set(num_clients: int) -> Examples:
    """The server's test examples."""
    part = federation(num_clients).test
    return torch.from_numpy(np.array(part.x)), torch.from_numpy(np.array(part.y))


def label_counts(client: int, num_clients: int) -> list[int]:
    """Training examples by label."""
    return federation(num_clients).clients.label_counts[client].tolist()


def make_model() -> nn.Linear:
    """Logistic regression, 60 inputs, 10 labels."""
    torch.manual_seed(0)
    model = nn.Linear(60, 10)
    nn.init.zeros_(model.bias)
    return model


def train(
    model: nn.Linear,
    examples: Examples,
    *,
    steps: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
) -> float:
    """SGD steps on shuffled batches; returns the mean loss over them."""
    x, y = examples
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    total, order = 0.0, torch.empty(0, dtype=torch.int64)
    for _ in range(steps):
        if len(order) == 0:
            order = torch.randperm(len(y), generator=generator)
        batch, order = order[:batch_size], order[batch_size:]
        loss = cross_entropy(model(x[batch]), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / steps


def mini_batch(examples: Examples, size: int, *, seed: int) -> Examples:
    """So many examples, drawn without replacement; all if there are no more."""
    x, y = examples
    rows = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))[:size]
    return x[rows], y[rows]


@torch.no_grad()
def evaluate(model: nn.Linear, examples: Examples) -> tuple[float, float]:
    """Loss and accuracy."""
    x, y = examples
    if len(y) == 0:
        return 0.0, 0.0
    logits = model(x)
    return cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


def _rows(part, client: int) -> Examples:
    rows = part.rows(client)
    return torch.from_numpy(np.array(part.x[rows])), torch.from_numpy(np.array(part.y[rows]))
