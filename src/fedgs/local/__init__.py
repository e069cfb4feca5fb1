"""Local training: objectives, batches and the engines that answer an algorithm's requests."""

from functools import lru_cache
from typing import Literal

import torch

from fedgs.errors import ConfigError
from fedgs.local import linear, loop, stacked
from fedgs.local.bench import is_convolutional
from fedgs.local.check import check_training
from fedgs.local.linear import is_linear, takes_kernels
from fedgs.local.loop import LoopEngine
from fedgs.local.parameters import forget_counts, initial_parameters, module_for
from fedgs.local.stacked import StackedEngine
from fedgs.local.stacking import why_not_stackable
from fedgs.models import Model
from fedgs.requests import Engine, Work

__all__ = [
    "EngineName",
    "LoopEngine",
    "StackedEngine",
    "check_training",
    "checked_device",
    "forget_models",
    "initial_parameters",
    "make_engine",
    "numerics_by_rule",
    "numerics_of",
    "numerics_with",
]

EngineName = Literal["auto", "loop", "stacked"]


def make_engine(name: EngineName, device: str, work: Work) -> tuple[Engine, str]:
    """The engine for a kind of work, and one sentence that says which and why.

    "auto" is a fixed rule of model and device: on the CPU convolutional models are trained by the loop engine and others by the
    stacked one, on CUDA all by the stacked one; a model that cannot be stacked is trained by the loop engine everywhere.

    Args:
        name: "auto", "loop" or "stacked".
        device: "cpu", "cuda" or "cuda:0".
        work: what is to be trained.

    Raises:
        ConfigError: no such device, or "stacked" for a model that cannot be stacked.
    """
    where = checked_device(device)
    if name == "loop":
        return LoopEngine(device), "loop: execution.engine asks for it"
    obstacle, convolutional, _ = _facts(work)
    if name == "stacked":
        if obstacle is not None:
            raise ConfigError(
                f"execution.engine is 'stacked', but this model cannot be stacked: {obstacle}; use 'auto' or 'loop'"
            )
        return StackedEngine(device), "stacked: execution.engine asks for it"
    if obstacle is not None:
        return LoopEngine(device), f"loop: the model cannot be stacked: {obstacle}"
    if where.type == "cpu" and convolutional:
        return LoopEngine(device), "loop: a convolutional model on the CPU"
    return StackedEngine(device), f"stacked: a model that torch.func accepts, on {where.type}"


def numerics_by_rule(work: Work) -> dict[str, int]:
    """The program that "auto" chooses for this work on a CPU, and the version of its numbers: part of a run's identity.

    The rule looks at the model and the data alone, so that a run is the same run on every engine and device.

    Args:
        work: what is to be trained.
    """
    obstacle, convolutional, one_layer = _facts(work)
    if obstacle is not None or convolutional:
        return numerics_of("loop")
    return numerics_of("linear" if one_layer and takes_kernels(work) else "stacked")


def numerics_with(engine: str, device: str, work: Work) -> dict[str, int]:
    """The program by which an engine carries out this work on a device, and the version of its numbers."""
    if engine != "stacked":
        return numerics_of("loop")
    by_kernels = device == "cpu" and _facts(work)[2] and takes_kernels(work)
    return numerics_of("linear" if by_kernels else "stacked")


def numerics_of(program: str) -> dict[str, int]:
    """The version of a program's numbers, by its name; empty for a program that this version does not have.

    >>> numerics_of("loop") == {"loop": loop.NUMERICS}
    True
    """
    versions = {"loop": loop.NUMERICS, "stacked": stacked.NUMERICS, "linear": linear.NUMERICS}
    return {program: versions[program]} if program in versions else {}


def _facts(work: Work) -> tuple[str | None, bool, bool]:
    shape, labels = work.federation.example_shape, work.federation.num_labels
    try:
        return _looked_at(work.model, shape, labels)
    except TypeError:  # a model that cannot be hashed
        return _looked_at.__wrapped__(work.model, shape, labels)


@lru_cache(maxsize=64)
def _looked_at(model: Model, example_shape: tuple[int, ...], num_labels: int) -> tuple[str | None, bool, bool]:
    """Why a model cannot be stacked (None if it can), whether it is convolutional, whether it is linear; asked once a grid."""
    module = module_for(model, example_shape, num_labels)
    return why_not_stackable(module, example_shape), is_convolutional(module), is_linear(module)


def forget_models() -> None:
    """Look at every model again: what a user's function builds may be another module since the last study."""
    _looked_at.cache_clear()
    forget_counts()


def checked_device(device: str) -> torch.device:
    """The device, if this machine has it.

    Raises:
        ConfigError: it has not.

    >>> checked_device("cpu")
    device(type='cpu')
    """
    try:
        found = torch.device(device)
    except RuntimeError:
        raise ConfigError(f"execution.device must be 'cpu', 'cuda' or 'cuda:<number>', got {device!r}") from None
    if found.type not in ("cpu", "cuda"):
        raise ConfigError(f"execution.device must be 'cpu', 'cuda' or 'cuda:<number>', got {device!r}")
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"execution.device is {device!r}, but PyTorch finds {torch.cuda.device_count()} CUDA devices here")
    return found
