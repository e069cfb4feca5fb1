"""A client's bench: the module and the data that one kind of work needs, set up once and used by every client in turn."""

from typing import Any

import torch
from torch import nn

from fedgs.data.federation import Federation, Part
from fedgs.errors import ConfigError
from fedgs.local.examples import Examples
from fedgs.local.parameters import FlatModule, build_module
from fedgs.requests import Split, Work

__all__ = ["Bench", "bench_key", "is_convolutional", "part_of", "work_key"]


def part_of(federation: Federation, split: Split) -> Part:
    """The part of a federation that a split names.

    Raises:
        ConfigError: the part is not there, or has no example.
    """
    part = {"train": federation.train, "validation": federation.validation, "test": federation.test}[split]
    if part is None or len(part) == 0:
        raise ConfigError(f"the {split} loss needs a {split} part with examples; federation {federation.name!r} has none")
    return part


def bench_key(work: Work) -> Any:
    """Equal for kinds of work that can share a module and the data."""
    try:
        hash(work.model)
    except TypeError:  # a variant with a list among its settings
        return id(work.federation), id(work.model), work.precision
    return id(work.federation), work.model, work.precision


def work_key(work: Work) -> Any:
    """Equal for kinds of work that can share a tensor program."""
    return (*bench_key(work), work.mu, work.local_steps, work.batch_size)


def is_convolutional(module: nn.Module) -> bool:
    """Whether there is a convolution in the module."""
    kinds = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
    return any(isinstance(part, kinds) for part in module.modules())


class Bench:
    """The module of a kind of work, and the federation's parts as tensors on the device.

    Attributes:
        work: federation, model and precision; what else it says is not used here.
        flat: the module, its state in one vector.
        convolutional: whether images are handled in channels-last memory order.
    """

    def __init__(self, work: Work, device: torch.device) -> None:
        self.work = work
        self.device = device
        self.flat = FlatModule(build_module(work.model, work.federation), device)
        self.convolutional = is_convolutional(self.flat.module)
        self._examples: dict[Split, Examples] = {}

    def examples(self, split: Split) -> Examples:
        """The examples of a split, brought to the device when first asked for."""
        if split not in self._examples:
            part, normalization = part_of(self.work.federation, split), self.work.federation.normalization
            self._examples[split] = Examples.of(part, normalization, self.device, channels_last=self.convolutional)
        return self._examples[split]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(b, ...) inputs -> (b, C) logits, in the work's precision."""
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.work.precision == "bf16"):
            logits: torch.Tensor = self.flat.module(x)
        return logits
