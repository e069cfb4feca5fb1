"""Plain, slow versions of local batches and local training, written from the definitions."""

import copy
import hashlib

import numpy as np
import torch
from torch.nn import functional

from fedgs.data.federation import Federation

_MASK = (1 << 64) - 1


def _mix(state: int) -> int:
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
    return state ^ (state >> 31)


def batches(
    seed: int,
    round: int,
    client: int,
    n: int,
    local_steps: int,
    batch_size: int,
    drop_last: bool = False,
) -> list[list[int]]:
    """E lists of positions: each pass a Fisher-Yates shuffle with SplitMix64, cut into batches.

    With `drop_last` a pass ends before a short batch that is not its only one.
    """
    end = n // batch_size * batch_size if drop_last and n >= batch_size else n
    purpose = int.from_bytes(hashlib.sha256(b"batches").digest()[:8], "little")
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, purpose, 0))))
    state = _mix((_mix((int(generator.integers(2**63)) + round + 1) & _MASK) + client + 1) & _MASK)
    answer: list[list[int]] = []
    while len(answer) < local_steps:
        order = list(range(n))
        for i in range(end):
            if len(answer) + i // batch_size >= local_steps:
                break  # the rest of the shuffle is not used, and draws nothing
            state = (state + 0x9E3779B97F4A7C15) & _MASK
            j = i + ((n - i) * (_mix(state) >> 32) >> 32)
            order[i], order[j] = order[j], order[i]
        answer += [order[i : min(i + batch_size, end)] for i in range(0, end, batch_size)]
    return answer[:local_steps]


def local_model(
    module: torch.nn.Module,
    federation: Federation,
    *,
    client: int,
    key: tuple[int, int],
    local_steps: int,
    batch_size: int,
    learning_rate: float,
    mu: float = 0.0,
) -> torch.Tensor:
    """The client's parameters after E steps of torch.optim.SGD on the whole local objective."""
    model = copy.deepcopy(module).train()
    start = [p.detach().clone() for p in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    part = federation.train
    x, y = part.x[part.rows(client)], torch.from_numpy(part.y[part.rows(client)])
    inputs = torch.from_numpy(
        federation.normalization.apply(x) if federation.normalization else x.astype(np.float32)
    )
    for batch in batches(*key, client, len(y), local_steps, batch_size):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(inputs[batch]), y[batch])
        for parameter, first in zip(model.parameters(), start, strict=True):
            loss = loss + mu / 2 * ((parameter - first) ** 2).sum()
        loss.backward()
        optimizer.step()
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])
