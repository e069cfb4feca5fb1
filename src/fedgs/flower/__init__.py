"""FedGS, or any other sampler, in deployments with Flower, under the nodes' actual availability.

The server changes two lines, `strategy = SampledStrategy(FedAvg(), sampler=FedGS(alpha=1.0))`; a
client adds one, `describe(app)`. Aggregations with a state for each client need the mod
`client_state` in the ClientApp. This package needs the extra `flower`, but neither the simulator
nor torch.
"""

import importlib
from typing import TYPE_CHECKING

from fedgs.errors import require_extra

try:
    import flwr.app  # noqa: F401
except ModuleNotFoundError as error:
    raise require_extra("flwr", "flower") from error

if TYPE_CHECKING:
    from fedgs.flower.client import describe
    from fedgs.flower.client_mod import client_state, offsets
    from fedgs.flower.noise import noisy_counts
    from fedgs.flower.private.node import describe_privately
    from fedgs.flower.strategy import SampledStrategy

# Loaded when first used: a client, whose process may live for one message, does not load the
# server's part.
_PUBLIC = {
    "SampledStrategy": "fedgs.flower.strategy",
    "client_state": "fedgs.flower.client_mod",
    "describe": "fedgs.flower.client",
    "describe_privately": "fedgs.flower.private.node",
    "noisy_counts": "fedgs.flower.noise",
    "offsets": "fedgs.flower.client_mod",
}

__all__ = [
    "SampledStrategy",
    "client_state",
    "describe",
    "describe_privately",
    "noisy_counts",
    "offsets",
]


if not TYPE_CHECKING:  # a type checker that saw this function would accept every name

    def __getattr__(name: str) -> object:
        if name in _PUBLIC:
            return getattr(importlib.import_module(_PUBLIC[name]), name)
        raise AttributeError(f"module 'fedgs.flower' has no attribute {name!r}")
