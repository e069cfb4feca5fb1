"""fedgs: client sampling for federated learning under arbitrary availability.

The names of `__all__` are stable. `docs/reference/api.md` lists them, and the public modules beside
them.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedgs import errors
    from fedgs.availability import (
        Availability,
        AvailabilityFile,
        Ideal,
        LabelCycle,
        LargeLabelsFirst,
        LessDataFirst,
        LogNormal,
        MoreDataFirst,
        SineLogNormal,
    )
    from fedgs.clients import Clients, Memory, Outcome, Selection, View
    from fedgs.config import Evaluation, Execution, Training
    from fedgs.data import (
        CIFAR10,
        Data,
        FashionMNIST,
        Federation,
        File,
        Leaf,
        Normalization,
        Synthetic,
    )
    from fedgs.experiments.compare import compare
    from fedgs.experiments.study import Results
    from fedgs.graph import Graph
    from fedgs.listeners import on_record
    from fedgs.models import (
        LSTM,
        MLP,
        CifarCNN,
        FashionCNN,
        LogisticRegression,
        Model,
        ResNet8,
        model,
    )
    from fedgs.registry import register
    from fedgs.sampling import MD, FedGS, PowerOfChoice, Sampler, Solver, Uniform, Wish, sampler
    from fedgs.solver import select
    from fedgs.stopping import Stopping
    from fedgs.system_settings import System

__version__ = "0.2.0"

__all__ = [
    "__version__",
    "Availability",
    "AvailabilityFile",
    "CIFAR10",
    "CifarCNN",
    "Clients",
    "Data",
    "Evaluation",
    "Execution",
    "FashionCNN",
    "FashionMNIST",
    "FedGS",
    "Federation",
    "File",
    "Graph",
    "Ideal",
    "LSTM",
    "LabelCycle",
    "LargeLabelsFirst",
    "Leaf",
    "LessDataFirst",
    "LogNormal",
    "LogisticRegression",
    "MD",
    "MLP",
    "Memory",
    "Model",
    "MoreDataFirst",
    "Normalization",
    "Outcome",
    "PowerOfChoice",
    "ResNet8",
    "Results",
    "Sampler",
    "Selection",
    "SineLogNormal",
    "Solver",
    "Stopping",
    "Synthetic",
    "System",
    "Training",
    "Uniform",
    "View",
    "Wish",
    "compare",
    "errors",
    "model",
    "on_record",
    "register",
    "sampler",
    "select",
]

# Public name -> the module that defines it. It is loaded on first use, so that `import fedgs` is
# quick. Type checkers read the imports above instead.
_PUBLIC = {
    "Availability": "fedgs.availability",
    "AvailabilityFile": "fedgs.availability",
    "CIFAR10": "fedgs.data",
    "CifarCNN": "fedgs.models",
    "Clients": "fedgs.clients",
    "Data": "fedgs.data",
    "Evaluation": "fedgs.config",
    "Execution": "fedgs.config",
    "FashionCNN": "fedgs.models",
    "FashionMNIST": "fedgs.data",
    "FedGS": "fedgs.sampling",
    "Federation": "fedgs.data",
    "File": "fedgs.data",
    "Graph": "fedgs.graph",
    "Ideal": "fedgs.availability",
    "LSTM": "fedgs.models",
    "LabelCycle": "fedgs.availability",
    "LargeLabelsFirst": "fedgs.availability",
    "Leaf": "fedgs.data",
    "LessDataFirst": "fedgs.availability",
    "LogNormal": "fedgs.availability",
    "LogisticRegression": "fedgs.models",
    "MD": "fedgs.sampling",
    "MLP": "fedgs.models",
    "Memory": "fedgs.clients",
    "Model": "fedgs.models",
    "MoreDataFirst": "fedgs.availability",
    "Normalization": "fedgs.data",
    "Outcome": "fedgs.clients",
    "PowerOfChoice": "fedgs.sampling",
    "ResNet8": "fedgs.models",
    "Results": "fedgs.experiments.study",
    "Sampler": "fedgs.sampling",
    "Selection": "fedgs.clients",
    "SineLogNormal": "fedgs.availability",
    "Solver": "fedgs.sampling",
    "Stopping": "fedgs.stopping",
    "System": "fedgs.system_settings",
    "Synthetic": "fedgs.data",
    "Training": "fedgs.config",
    "Uniform": "fedgs.sampling",
    "View": "fedgs.clients",
    "Wish": "fedgs.sampling",
    "compare": "fedgs.experiments.compare",
    "model": "fedgs.models",
    "on_record": "fedgs.listeners",
    "register": "fedgs.registry",
    "sampler": "fedgs.sampling",
    "select": "fedgs.solver",
}
_MODULES = ("errors",)  # public names that are modules


if not TYPE_CHECKING:  # a type checker that saw this function would accept every name

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return importlib.import_module(f"fedgs.{name}")
        if name in _PUBLIC:
            try:
                return getattr(importlib.import_module(_PUBLIC[name]), name)
            except ModuleNotFoundError as error:
                from fedgs.errors import missing_extra

                raise missing_extra(error) or error from None
        raise AttributeError(f"module 'fedgs' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
