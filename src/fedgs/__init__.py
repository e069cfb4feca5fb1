"""fedgs: client sampling for federated learning under arbitrary availability."""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public name -> the module that defines it; loaded when first used, so that importing the package is quick.
_PUBLIC = {
    "Clients": "fedgs.clients",
    "Selection": "fedgs.clients",
    "View": "fedgs.clients",
    "Federation": "fedgs.data.federation",
    "Normalization": "fedgs.data.federation",
    "LogisticRegression": "fedgs.models",
    "model": "fedgs.models",
    "Sampler": "fedgs.sampling.base",
    "sampler": "fedgs.sampling.base",
}

__all__ = ["__version__", *_PUBLIC]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'fedgs' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
