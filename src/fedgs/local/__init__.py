"""Local training: objectives, batches and the engines that answer an algorithm's requests."""

from typing import Literal

import torch

from fedgs.errors import ConfigError
from fedgs.local.loop import LoopEngine
from fedgs.local.parameters import initial_parameters
from fedgs.requests import Engine, Work

__all__ = ["EngineName", "LoopEngine", "initial_parameters", "make_engine"]

EngineName = Literal["auto", "loop", "stacked"]


def make_engine(name: EngineName, device: str, work: Work) -> tuple[Engine, str]:
    """The engine for a kind of work, and one sentence that says why.

    Args:
        name: "loop", "stacked", or "auto": a fixed rule of model and device.
        device: "cpu", "cuda" or "cuda:0".
        work: what is to be trained.

    Raises:
        ConfigError: no such device.
    """
    checked_device(device)
    return LoopEngine(device), "loop: the only engine so far"


def checked_device(device: str) -> torch.device:
    """The device, if this machine has it.

    Raises:
        ConfigError: it has not.
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
