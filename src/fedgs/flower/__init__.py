"""FedGS, or any other sampler, in real deployments with Flower: under whatever availability the nodes really have.

The server changes two lines, `strategy = SampledStrategy(FedAvg(), sampler=FedGS(alpha=1.0))`; a client adds one,
`describe(app)`. Needs the extra `flower`; never the simulator and never torch.
"""

from fedgs.errors import require_extra

try:
    import flwr.app  # noqa: F401
except ModuleNotFoundError as error:
    raise require_extra("flwr", "flower") from error

from fedgs.flower.client import describe
from fedgs.flower.strategy import SampledStrategy

__all__ = ["SampledStrategy", "describe"]
