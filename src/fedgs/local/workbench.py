"""A workbench: the module and the data for one kind of work, used by every client in turn."""

from collections.abc import Hashable

import torch
from torch import nn

from fedgs.data.federation import Federation, Part
from fedgs.errors import ConfigError
from fedgs.local.examples import Examples
from fedgs.local.parameters import FlatModule, build_module
from fedgs.local.threads import SMALL_MODEL, SMALL_STEP
from fedgs.requests import Split, Work
from fedgs.rng import kept_generators

__all__ = [
    "Workbench",
    "workbench_key",
    "client_part_of",
    "is_convolutional",
    "part_of",
    "work_key",
]


def part_of(federation: Federation, split: Split) -> Part:
    """The part of a federation that a split names.

    Raises:
        ConfigError: the federation has no such part, or the part has no example.
    """
    part = {
        "train": federation.train,
        "validation": federation.validation,
        "test": federation.test,
    }[split]
    if part is None or len(part) == 0:
        raise ConfigError(
            f"the {split} loss needs a {split} part with examples; "
            f"federation {federation.name!r} has none"
        )
    return part


def client_part_of(federation: Federation, split: Split) -> Part:
    """The part of a federation that a split names, with the offsets of its clients.

    Raises:
        ConfigError: the federation has no such part, or the test examples have no owners.
    """
    part = part_of(federation, split)
    if split == "test":
        if federation.client_test is None:
            raise ConfigError(
                "to evaluate each client on test examples these must have owners; "
                f"those of federation {federation.name!r} have none"
            )
        return federation.client_test
    return part


def workbench_key(work: Work) -> tuple[Hashable, ...]:
    """Equal for kinds of work that can share a module and the data."""
    try:
        hash(work.model)
    except TypeError:  # a variant with a list among its settings
        return id(work.federation), id(work.model), work.precision
    return id(work.federation), work.model, work.precision


def work_key(work: Work) -> tuple[Hashable, ...]:
    """Equal for kinds of work that can share a tensor program."""
    parts = (_hashable(work.loss), _hashable(work.optimizer), work.clip)
    batches = (work.local_steps, work.batch_size, work.local_epochs, work.drop_last)
    return (*workbench_key(work), work.mu, *batches, *parts)


def _hashable(variant: object) -> Hashable:
    """The variant, or its id if it has a list among its settings."""
    if variant is None:
        return None
    try:
        hash(variant)
    except TypeError:
        return id(variant)
    return variant


def is_convolutional(module: nn.Module) -> bool:
    """Whether there is a convolution in the module."""
    kinds = (
        nn.Conv1d,
        nn.Conv2d,
        nn.Conv3d,
        nn.ConvTranspose1d,
        nn.ConvTranspose2d,
        nn.ConvTranspose3d,
    )
    return any(isinstance(part, kinds) for part in module.modules())


def _multiplications(
    module: nn.Module, example_shape: tuple[int, ...], device: torch.device
) -> int | None:
    """Multiplications in a forward pass over one example, or None where they cannot be counted.

    They are counted on two examples of zeros. The module's state and all generators stay as they
    were.
    """
    if device.type != "cpu" or any(isinstance(part, nn.RNNBase) for part in module.modules()):
        return None  # the counter does not see into recurrent layers
    from torch.utils.flop_counter import FlopCounterMode

    training, counter = module.training, FlopCounterMode(display=False)
    buffers = [buffer.clone() for buffer in module.buffers()]
    try:
        with kept_generators(), torch.no_grad(), counter:
            module.eval()(torch.zeros(2, *example_shape))
    except Exception:  # the model takes other batches only, or the counter lacks an operation
        return None
    finally:
        module.train(training)
        with torch.no_grad():
            for buffer, saved in zip(module.buffers(), buffers, strict=True):
                buffer.copy_(saved)
    # The counter counts a multiplication and an addition each, for two examples.
    return int(counter.get_total_flops()) // 2 // 2


class Workbench:
    """The module of a kind of work, and the federation's parts as tensors on the device.

    Attributes:
        work: federation, model and precision; what else it says is not used here.
        flat: the module, its state in one vector.
        convolutional: whether images are handled in channels-last memory order.
        multiplications: that a forward pass over one example takes; None where they cannot be
            counted.
    """

    def __init__(self, work: Work, device: torch.device) -> None:
        self.work = work
        self.device = device
        self.flat = FlatModule(build_module(work.model, work.federation), device)
        self.convolutional = is_convolutional(self.flat.module)
        self.multiplications = _multiplications(
            self.flat.module, work.federation.example_shape, device
        )
        self._examples: dict[Split, Examples] = {}

    def examples(self, split: Split) -> Examples:
        """The examples of a split, brought to the device when first asked for."""
        if split not in self._examples:
            federation = self.work.federation
            self._examples[split] = Examples.of(
                part_of(federation, split),
                federation.normalization,
                self.device,
                channels_last=self.convolutional,
            )
        return self._examples[split]

    def is_small(self, batch_size: int) -> bool:
        """Whether one thread trains the model on batches of this size.

        Where the work cannot be counted, the number of parameters stands for it, and only very
        little counts as small.
        """
        if self.multiplications is None:
            return not self.convolutional and self.flat.layout.size * batch_size < SMALL_STEP
        return self.multiplications * batch_size < SMALL_MODEL

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(b, ...) inputs -> (b, ...) outputs of the module, in the work's precision."""
        with torch.autocast(
            self.device.type, dtype=torch.bfloat16, enabled=self.work.precision == "bf16"
        ):
            outputs: torch.Tensor = self.flat.module(x)
        return outputs
