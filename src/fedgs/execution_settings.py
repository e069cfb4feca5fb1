"""How a run is carried out: the table `execution` of a configuration."""

import re
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from fedgs.registry import Variant, check_registered

__all__ = ["Execution"]


class Execution(Variant):
    """How a run is carried out; no part of its identity.

    Attributes:
        engine: "auto", a fixed rule of model and device, or the name of a registered engine; what
            was chosen is stored with the run.
        device: where tensors live: "cpu", "cuda" or "cuda:0".
        workers: processes that share a grid; None: one a physical core for image models and for
            grids of small ones with at least 20,000 run-rounds, else one.
        threads: that each process computes in on the CPU; None: all cores that it may use for large
            models, one for small ones.
        checkpoint_every: rounds between two checkpoints; None: one every ten seconds.
        cluster: the Ray cluster whose nodes carry out the runs: "auto", the one that runs on this
            computer or that `RAY_ADDRESS` names; "host:port" of its head; "local", one that is
            started on this computer alone; None: no cluster.
        share: what the processes of a cluster share: "runs", of which each is carried out in one
            process, or "cohorts", of which each process trains a part in every round; "auto": runs,
            and cohorts of more than 32 clients where there are fewer runs than processes and a
            round takes a second or more in one.
        trust_network: whether a cluster without authentication may be joined.

    >>> Execution(workers=2).engine
    'auto'
    """

    family = "execution"
    engine: str = "auto"
    device: str = "cpu"
    workers: int | None = Field(default=None, ge=1)
    threads: int | None = Field(default=None, ge=1)
    checkpoint_every: int | None = Field(default=None, ge=1)
    cluster: str | None = None
    trust_network: bool = False
    share: Literal["auto", "runs", "cohorts"] = "auto"
    later_settings = (("trust_network",), ("share",))

    @model_validator(mode="after")
    def _shares_on_a_cluster(self) -> Self:
        if self.share == "cohorts" and self.cluster is None:
            raise ValueError(
                "execution.share = 'cohorts' has no effect without execution.cluster; leave it out"
            )
        return self

    @field_validator("cluster")
    @classmethod
    def _known_cluster(cls, value: str | None) -> str | None:
        if value in (None, "auto", "local"):
            return value
        found = re.fullmatch(r"[^\s/:]+:(\d{1,5})|\[[0-9a-fA-F:.]+\]:(\d{1,5})", value or "")
        port = 0 if found is None else int(found[1] or found[2])
        if not 1 <= port <= 65535:
            raise ValueError(
                "execution.cluster must be 'auto', 'local' or 'host:port' with the port of the "
                f"cluster's head, such as 'node1:6379', got {value!r}"
            )
        return value

    @field_validator("engine", mode="before")
    @classmethod
    def _known_engine(cls, value: object) -> object:
        if value != "auto":
            check_registered("engine", value, setting="execution.engine", also=["auto"])
        return value

    @field_validator("device")
    @classmethod
    def _known_device(cls, value: str) -> str:
        if re.fullmatch(r"cpu|cuda(:\d+)?", value) is None:
            raise ValueError(
                f"execution.device must be 'cpu', 'cuda' or 'cuda:<number>', got {value!r}"
            )
        return value
