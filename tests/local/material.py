"""Small federations, models and requests, and what engines answer."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from fedgs.aggregation import WeightedMean
from fedgs.data.federation import Federation, Normalization
from fedgs.local import initial_parameters
from fedgs.models import FunctionModel, Model
from fedgs.requests import Engine, Train, Work


def make_federation(
    sizes: Sequence[int],
    *,
    example_shape: tuple[int, ...] = (5,),
    labels: int = 3,
    seed: int = 0,
    pixels: bool = False,
) -> Federation:
    """Clients of the given training sizes.

    Client k has k % 4 + 1 validation examples, but client 3 has none.
    """
    rng = np.random.default_rng(seed)

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        x = (
            rng.integers(0, 256, (count, *example_shape))
            if pixels
            else rng.standard_normal((count, *example_shape))
        )
        return x.astype(np.uint8 if pixels else np.float32), rng.integers(labels, size=count)

    owner = np.repeat(np.arange(len(sizes)), sizes)
    validation_owner = np.concatenate(
        [np.full(0 if k == 3 else k % 4 + 1, k) for k in range(len(sizes))]
    )
    test_x, test_y = draw(50)
    test_y[:labels] = np.arange(labels)  # all labels occur
    return Federation.from_arrays(
        *draw(len(owner)),
        client=owner,
        test=(test_x, test_y),
        validation=(*draw(len(validation_owner)), validation_owner),
        normalization=Normalization(255.0, (0.4,) * example_shape[0], (0.3,) * example_shape[0])
        if pixels
        else None,
    )


def mlp(inputs: int, widths: Sequence[int], labels: int) -> Model:
    """A perceptron with tanh between its layers."""
    sizes = [inputs, *widths, labels]

    def build() -> nn.Module:
        layers: list[nn.Module] = [nn.Flatten()]
        for a, b in itertools.pairwise(sizes):
            layers += [nn.Linear(a, b), nn.Tanh()]
        return nn.Sequential(*layers[:-1])

    return FunctionModel(function=build)


def model_of(build: Callable[[], nn.Module]) -> Model:
    return FunctionModel(function=build)


@dataclass(frozen=True)
class Keep:
    """A fold that keeps every local model: (m, P)."""

    def start(self) -> list[torch.Tensor]:
        return []

    def add(
        self, accumulator: list[torch.Tensor], clients: np.ndarray, models: torch.Tensor
    ) -> list[torch.Tensor]:
        return [*accumulator, *models.clone()]

    def finish(self, accumulator: list[torch.Tensor]) -> torch.Tensor:
        return torch.stack(accumulator)


def train_request(
    work: Work, clients: Sequence[int], *, key: tuple[int, int] = (0, 0), rate: float = 0.1
) -> Train:
    """Train these clients from theta^0 of the key's seed.

    The folds are the mean by data size, and all local models.
    """
    members = np.array(clients, dtype=np.int64)
    sizes = work.federation.clients.data_sizes[members]
    weights = sizes / sizes.sum()
    start = initial_parameters(work.model, work.federation, key[0])
    return Train(work, start, members, rate, key, (WeightedMean(weights), Keep()))


def replies(engine: Engine, *requests: Any) -> list[Any]:
    """The replies in the requests' order; every request must be answered exactly once."""
    answers = dict(pairs := list(engine.answer(requests)))
    assert len(pairs) == len(answers) == len(requests)
    return [answers[position] for position in range(len(requests))]
