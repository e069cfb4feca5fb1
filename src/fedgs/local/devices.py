"""The devices that an engine can use."""

import torch

from fedgs.errors import ConfigError

__all__ = ["checked_device"]


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
        raise ConfigError(
            f"execution.device must be 'cpu', 'cuda' or 'cuda:<number>', got {device!r}"
        ) from None
    if found.type not in ("cpu", "cuda"):
        raise ConfigError(
            f"execution.device must be 'cpu', 'cuda' or 'cuda:<number>', got {device!r}"
        )
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"execution.device is {device!r}, but PyTorch finds {torch.cuda.device_count()} CUDA devices here"
        )
    return found
