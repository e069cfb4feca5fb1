"""The flat layout of a model: all of it that training changes, in one float32 vector."""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import nn

from fedgs.data.federation import Federation
from fedgs.errors import ConfigError
from fedgs.models.fresh import fresh_module

if TYPE_CHECKING:
    from fedgs.models import Model

__all__ = [
    "Entry",
    "FlatModule",
    "Layout",
    "build_module",
    "count_parameters",
    "forget_counts",
    "initial_parameters",
    "layout_for",
    "layout_of",
    "module_for",
    "pack",
]


@dataclass(frozen=True)
class Entry:
    """One tensor of a model: its name, its shape, and its range start..stop-1 of the vector."""

    name: str
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True)
class Layout:
    """Where each tensor of a model lies in a (P,) vector.

    All parameters come first, then the floating-point buffers.

    Attributes:
        parameters, buffers: the entries, in the module's own order.
    """

    parameters: tuple[Entry, ...]
    buffers: tuple[Entry, ...]

    @property
    def num_parameters(self) -> int:
        """How many of the P numbers are parameters; the buffers, such as running means, follow."""
        return self.parameters[-1].stop if self.parameters else 0

    @property
    def size(self) -> int:
        """P."""
        entries = self.parameters + self.buffers
        return entries[-1].stop if entries else 0

    def views(self, vectors: torch.Tensor, entries: tuple[Entry, ...]) -> dict[str, torch.Tensor]:
        """(..., P) vectors -> for each entry its (..., *shape) view, by name."""
        lead = vectors.shape[:-1]
        return {
            entry.name: vectors[..., entry.start : entry.stop].view(*lead, *entry.shape)
            for entry in entries
        }


def layout_of(module: nn.Module) -> Layout:
    """The flat layout of a module.

    A tensor with several names counts once, under the first.

    >>> layout_of(nn.Linear(3, 2)).size
    8
    """
    parameters, end = _entries(list(module.named_parameters()), 0)
    floating = [
        (name, buffer) for name, buffer in module.named_buffers() if buffer.is_floating_point()
    ]
    buffers, _ = _entries(floating, end)
    return Layout(parameters, buffers)


def _entries(tensors: list[tuple[str, torch.Tensor]], start: int) -> tuple[tuple[Entry, ...], int]:
    entries = []
    for name, tensor in tensors:
        entries.append(Entry(name, tuple(tensor.shape), start, start + tensor.numel()))
        start += tensor.numel()
    return tuple(entries), start


def pack(module: nn.Module) -> torch.Tensor:
    """The module's parameters and floating-point buffers as a new (P,) float32 vector on the CPU.

    >>> pack(nn.Linear(3, 2)).shape
    torch.Size([8])
    """
    tensors: list[torch.Tensor] = [parameter for _, parameter in module.named_parameters()]
    tensors += [buffer for _, buffer in module.named_buffers() if buffer.is_floating_point()]
    pieces = [tensor.detach().to("cpu", torch.float32).reshape(-1) for tensor in tensors]
    return torch.cat(pieces) if pieces else torch.empty(0)


def module_for(
    model: "Model", example_shape: tuple[int, ...], num_labels: int, *, seed: int = 0
) -> nn.Module:
    """A float32 module for such examples, initialised from `seed`.

    The global generators are left as they were.

    Raises:
        ConfigError: the model does not fit the examples, or what it builds is not an `nn.Module`
            with parameters.
    """
    module = fresh_module(model, example_shape, num_labels, seed)
    if not isinstance(module, nn.Module):
        raise ConfigError(f"model must build a torch.nn.Module, got {type(module).__name__}")
    if not any(True for _ in module.parameters()):
        raise ConfigError(
            "model must have at least one parameter to train, "
            f"got {type(module).__name__} without any"
        )
    return module.float()


def count_parameters(model: "Model", example_shape: tuple[int, ...], num_labels: int) -> int:
    """How many numbers of the flat vector are parameters; the buffers follow them.

    >>> from fedgs.models import LogisticRegression
    >>> count_parameters(LogisticRegression(), (3,), 2)
    8
    """
    return layout_for(model, example_shape, num_labels).num_parameters


def layout_for(model: "Model", example_shape: tuple[int, ...], num_labels: int) -> Layout:
    """The flat layout of a model; each model is built once."""
    try:
        return _laid_out(model, example_shape, num_labels)
    except TypeError:  # a model that cannot be hashed
        return _laid_out.__wrapped__(model, example_shape, num_labels)


@lru_cache(maxsize=64)
def _laid_out(model: "Model", example_shape: tuple[int, ...], num_labels: int) -> Layout:
    return layout_of(module_for(model, example_shape, num_labels))


def forget_counts() -> None:
    """Build every model again when its layout or its parameters are next asked for."""
    _laid_out.cache_clear()


def build_module(model: "Model", federation: Federation, seed: int = 0) -> nn.Module:
    """A float32 module for the federation's examples: see `module_for`."""
    return module_for(model, federation.example_shape, federation.num_labels, seed=seed)


def initial_parameters(model: "Model", federation: Federation, seed: int) -> torch.Tensor:
    """theta^0: the model's own initialisation, a function of the seed (and the shapes) alone.

    Args:
        model: the variant that builds the module.
        federation: gives the example shape and the number of labels.
        seed: the experiment's seed, >= 0.

    Returns:
        (P,) float32, see `Layout`.

    Raises:
        ConfigError: see `module_for`.

    >>> import numpy as np
    >>> from fedgs.models import LogisticRegression
    >>> x, y = np.eye(4, dtype=np.float32), np.array([0, 1, 0, 1])
    >>> federation = Federation.from_arrays(x, y, client=y, test=(x, y))
    >>> initial_parameters(LogisticRegression(), federation, seed=0).shape
    torch.Size([10])
    """
    return pack(build_module(model, federation, seed))


class FlatModule:
    """A module whose parameters and floating-point buffers are views of one (P,) vector.

    Loading the vector is a single copy.

    Attributes:
        module: the module itself.
        layout: where each tensor lies in `vector`.
        vector: (P,) float32, the module's current state.
        parameters: the view of `vector` without the buffers.
        trained: the module's parameters that ask for a gradient.
    """

    def __init__(self, module: nn.Module, device: torch.device) -> None:
        self.module = module.to(device)
        self.layout = layout_of(module)
        self.vector = pack(module).to(device)
        self.parameters = self.vector[: self.layout.num_parameters]
        self.trained: list[torch.Tensor] = [
            parameter for parameter in module.parameters() if parameter.requires_grad
        ]
        self._buffers = dict(module.named_buffers())
        views = self.layout.views(self.vector, self.layout.parameters)
        for name, parameter in module.named_parameters():
            parameter.data = views[name]
        views = self.layout.views(self.vector, self.layout.buffers)
        for entry in self.layout.buffers:
            self._buffers[entry.name].data = views[entry.name]
        self._integers = [
            (b, b.clone()) for b in self._buffers.values() if not b.is_floating_point()
        ]

    def trained_part(self, vectors: torch.Tensor) -> torch.Tensor:
        """(..., P) vectors without the buffers, and 0 at frozen parameters."""
        part = vectors[..., : self.layout.num_parameters]
        frozen = [
            entry
            for entry, parameter in zip(
                self.layout.parameters, self.module.parameters(), strict=True
            )
            if not parameter.requires_grad
        ]
        if frozen:
            part = part.clone()
            for entry in frozen:
                part[..., entry.start : entry.stop] = 0
        return part

    def trained_views(self, vector: torch.Tensor) -> list[torch.Tensor]:
        """The views of a vector without buffers that belong to `trained`, in its order."""
        return [
            vector[entry.start : entry.stop].view(entry.shape)
            for entry, parameter in zip(
                self.layout.parameters, self.module.parameters(), strict=True
            )
            if parameter.requires_grad
        ]

    def load(self, parameters: torch.Tensor) -> None:
        """Set the module's state to a (P,) vector.

        Integer buffers, such as batch counters, return to their first values.
        """
        with torch.no_grad():
            self.vector.copy_(parameters)
            for buffer, first in self._integers:
                buffer.copy_(first)
