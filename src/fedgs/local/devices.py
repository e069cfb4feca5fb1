"""The devices that an engine can use."""

import torch

from fedgs.errors import ConfigError

__all__ = ["checked_device"]


def checked_device(device: str) -> torch.device:
    """The device, if this machine has it.

    Raises:
        ConfigError: the name is not that of a device, or this machine does not have it.

    >>> checked_device("cpu")
    device(type='cpu')
    """
    try:
        parsed = torch.device(device)
    except RuntimeError:
        raise ConfigError(
            f"execution.device must be 'cpu', 'cuda' or 'cuda:<number>', got {device!r}"
        ) from None
    if parsed.type not in ("cpu", "cuda"):
        raise ConfigError(
            f"execution.device must be 'cpu', 'cuda' or 'cuda:<number>', got {device!r}"
        )
    count = torch.cuda.device_count() if parsed.type == "cuda" else 0
    if parsed.type == "cuda" and (parsed.index or 0) >= count:
        raise ConfigError(
            f"execution.device is {device!r}, but PyTorch finds {count} CUDA devices here"
        )
    return parsed
