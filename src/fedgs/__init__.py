"""fedgs: client sampling for federated learning under arbitrary availability."""

import importlib
from typing import Any

__version__ = "0.1.0"

# Public name -> the module that defines it; loaded when first used, so that importing the package is quick.
_PUBLIC = {
    "Availability": "fedgs.availability",
    "AvailabilityFile": "fedgs.availability",
    "CIFAR10": "fedgs.data",
    "CifarCNN": "fedgs.models",
    "Clients": "fedgs.clients",
    "Data": "fedgs.data",
    "FashionCNN": "fedgs.models",
    "FashionMNIST": "fedgs.data",
    "FedGS": "fedgs.sampling",
    "Federation": "fedgs.data",
    "File": "fedgs.data",
    "Graph": "fedgs.graph",
    "Ideal": "fedgs.availability",
    "LabelCycle": "fedgs.availability",
    "LargeLabelsFirst": "fedgs.availability",
    "Leaf": "fedgs.data",
    "LessDataFirst": "fedgs.availability",
    "LogNormal": "fedgs.availability",
    "LogisticRegression": "fedgs.models",
    "MD": "fedgs.sampling",
    "Memory": "fedgs.clients",
    "Model": "fedgs.models",
    "MoreDataFirst": "fedgs.availability",
    "Normalization": "fedgs.data",
    "Outcome": "fedgs.clients",
    "PowerOfChoice": "fedgs.sampling",
    "Sampler": "fedgs.sampling",
    "Selection": "fedgs.clients",
    "SineLogNormal": "fedgs.availability",
    "Synthetic": "fedgs.data",
    "Training": "fedgs.config",
    "Uniform": "fedgs.sampling",
    "View": "fedgs.clients",
    "Wish": "fedgs.sampling",
    "compare": "fedgs.experiments.compare",
    "model": "fedgs.models",
    "register": "fedgs.registry",
    "sampler": "fedgs.sampling",
    "select": "fedgs.solver",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        try:
            return getattr(importlib.import_module(_PUBLIC[name]), name)
        except ModuleNotFoundError as error:
            from fedgs.errors import missing_extra

            raise missing_extra(error) or error from None
    raise AttributeError(f"module 'fedgs' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
