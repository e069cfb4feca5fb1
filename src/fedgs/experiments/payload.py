"""What the processes of a cluster get from a study: places, the runs, plug-ins and data."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from fedgs.cluster import Cluster, Node, driver_folders
from fedgs.data import Federation
from fedgs.errors import ConfigError
from fedgs.experiments.member import MemberSetup
from fedgs.experiments.prepared import PreparedRun
from fedgs.experiments.transfer import TransferError, pack_runs, pack_variants
from fedgs.experiments.transferred_files import named_files
from fedgs.experiments.transferred_sources import plugin_sources, user_lines

__all__ = ["RunPayload", "Places", "bytes_of"]

_log = logging.getLogger("fedgs")


def bytes_of(federation: Federation) -> int:
    """Bytes of the examples of a federation that are held, not made on demand."""
    parts = (federation.train, federation.validation, federation.test)
    held = (part for part in parts if part is not None and part.held)
    return sum(part.x.nbytes + part.y.nbytes for part in held)


@dataclass(frozen=True)
class Places:
    """How processors and GPUs of nodes are dealt out to processes.

    Attributes:
        threads: processors of a process.
        workers: the largest number of processes; 0: any.
        on_gpu: whether a process has a GPU.
    """

    threads: int
    workers: int
    on_gpu: bool

    @classmethod
    def of(cls, runs: Iterable[PreparedRun]) -> Self:
        """Those that the settings of some runs ask for."""
        executions = [run.config.execution for run in runs]
        return cls(
            max((e.threads or 1 for e in executions), default=1),
            max((e.workers or 0 for e in executions), default=0),
            any(e.device != "cpu" for e in executions),
        )

    def on(self, node: Node) -> int:
        """How many processes a node has room for."""
        return node.gpus if self.on_gpu else node.cpus // self.threads

    def total(self, nodes: Iterable[Node]) -> int:
        """How many processes some nodes have."""
        places = sum(map(self.on, nodes))
        return min(places, self.workers) if self.workers else places

    def check(self, nodes: Iterable[Node]) -> None:
        """Raise `ConfigError` unless a node has room for a process."""
        if not any(map(self.on, nodes)):
            wanted = "a GPU" if self.on_gpu else f"{self.threads} processors (execution.threads)"
            raise ConfigError(f"execution.cluster: no node of the cluster has {wanted}")

    def actor(self, cluster: Cluster, kind: type, node: Node) -> Any:
        """The actor class of Ray for a process on a node; Ray starts it once and never again."""
        return cluster.ray.remote(kind).options(
            num_cpus=0 if self.on_gpu else self.threads,
            num_gpus=1 if self.on_gpu else 0,
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=4,
            scheduling_strategy=cluster.only(node.key),
        )


class RunPayload:
    """What every process needs once, in Ray's store.

    Args:
        cluster: that this process has joined.
        runs: the runs of the study.
        threads: of torch in a process.
        tells_records: see `MemberSetup`.

    Attributes:
        modules: names of the plug-ins, which are sent as source text.
        setup: reference of a `MemberSetup`.
        data: references of the federations.

    Raises:
        ConfigError: a run cannot be sent to another computer; nothing was done.
    """

    def __init__(
        self, cluster: Cluster, runs: Sequence[PreparedRun], *, threads: int, tells_records: bool
    ) -> None:
        self.runs = runs
        self.federations = list({id(r.plan.federation): r.plan.federation for r in runs}.values())
        sources = plugin_sources()
        self.modules = {source.module for source in sources}
        self.pack(range(len(runs)))  # what cannot be sent is refused before anything is put
        setup = MemberSetup(
            variants=pack_variants(self.modules),
            sources=sources,
            lines=user_lines(),
            files={path: text for run in runs for path, text in named_files(run.config).items()},
            driver_folders=driver_folders(),
            threads=threads,
            log_level=_log.getEffectiveLevel(),
            tells_records=tells_records,
        )
        self.setup = cluster.ray.put(setup)
        self.data = [cluster.ray.put(federation) for federation in self.federations]

    def pack(self, numbers: Iterable[int]) -> bytes:
        """The runs with these numbers, as `Member.load` takes them."""
        chosen = [self.runs[number] for number in numbers]
        try:
            return pack_runs(chosen, self.federations, elsewhere=self.modules)
        except TransferError as error:
            raise ConfigError(f"execution.cluster cannot carry out the runs: {error}") from None
