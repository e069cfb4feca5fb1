"""Local training: objectives, batches and the engines that answer an algorithm's requests.

The names are loaded when they are first used: an engine can be named without PyTorch.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedgs.local.check import check_training
    from fedgs.local.devices import checked_device
    from fedgs.local.loop import LoopEngine
    from fedgs.local.parameters import initial_parameters
    from fedgs.local.stacked import StackedEngine

__all__ = [
    "LoopEngine",
    "StackedEngine",
    "check_training",
    "checked_device",
    "initial_parameters",
]

_HOMES = {
    "LoopEngine": "loop",
    "StackedEngine": "stacked",
    "check_training": "check",
    "checked_device": "devices",
    "initial_parameters": "parameters",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
