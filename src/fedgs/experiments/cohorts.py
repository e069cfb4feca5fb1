"""Runs whose cohorts are shared: this process selects, and the nodes of a cluster train."""

import logging
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedgs.aggregation import BLOCK, WeightedMean
from fedgs.cluster import Cluster, Node
from fedgs.cluster.actors import Actor, Actors
from fedgs.errors import ConfigError
from fedgs.experiments.cohort_worker import PARAMETERS, CohortWorker, names_of
from fedgs.experiments.crew import Progress
from fedgs.experiments.executor import Executor, shares_of
from fedgs.experiments.listening import Listener
from fedgs.experiments.payload import Places, RunPayload
from fedgs.experiments.prepared import PreparedRun
from fedgs.experiments.this_process import ThisProcess
from fedgs.experiments.transfer import dumps
from fedgs.local.division import Piece
from fedgs.local.parameters import initial_parameters
from fedgs.local.shared import Answer, SharedEngine
from fedgs.local.threads import threads_of
from fedgs.plan import Plan
from fedgs.report.run_view import Run
from fedgs.requests import Request, Train

__all__ = ["CohortPool", "share_cohorts"]

LONG_SECONDS = 1.0  # of a round in one process from which "auto" shares its cohort
PROBED = 4  # clients by which a round is measured


def share_cohorts(
    cluster: Cluster,
    prepared: Sequence[PreparedRun],
    numbers: Sequence[int],
    on_progress: Callable[[Progress], None] | None,
    listener: Listener | None,
) -> dict[int, Run]:
    """Carry out those of the runs with these numbers whose cohorts are to be shared.

    They are those with `execution.share = "cohorts"`, and with "auto" those whose round takes a
    second or more in one process, where there are fewer runs than processes.

    Returns:
        The runs by their numbers, failed ones included.
    """
    places = Places.of(prepared)
    few = len(numbers) < places.total(cluster.nodes())
    wanted = [n for n in numbers if _may_share(prepared[n], few)]
    if not wanted:
        return {}
    pool = CohortPool(cluster, [prepared[n] for n in wanted], places)
    try:
        chosen = [n for n in wanted if _asks(prepared[n]) or pool.is_long(prepared[n])]
        shares = shares_of(prepared, chosen, min(1, len(chosen)))

        def with_nodes(progress: Progress) -> None:
            if on_progress is not None:
                on_progress(replace(progress, nodes=pool.nodes))

        with threads_of(places.threads):
            crew = ThisProcess(prepared, listener, pool.engine)
            return Executor(crew, prepared, with_nodes).carry_out(shares)
    finally:
        pool.end()


def _asks(run: PreparedRun) -> bool:
    return run.config.execution.share == "cohorts"


def _may_share(run: PreparedRun, few: bool) -> bool:
    everyone = run.plan.aggregation.trains_everyone
    trainees = len(run.plan.federation) if everyone else run.plan.cohort_limit
    return _asks(run) or (run.config.execution.share == "auto" and few and trainees > BLOCK)


class CohortPool:
    """The processes of a cluster that answer pieces of requests, see `fedgs.local.shared.Pool`.

    Args:
        cluster: that this process has joined.
        runs: the runs whose requests are answered.
        places: how many processes a node has.

    Raises:
        ConfigError: a run cannot be sent to another computer, or no node has room.
    """

    def __init__(self, cluster: Cluster, runs: Sequence[PreparedRun], places: Places) -> None:
        self._ray = cluster.ray
        places.check(cluster.nodes())
        self._payload = payload = RunPayload(
            cluster, runs, threads=places.threads, tells_records=False
        )
        packed = self._ray.put(payload.pack(range(len(runs))))
        self._names = names_of([run.plan.work for run in runs], payload.federations)
        self._engine = ("", "")
        self._requests: Sequence[Request] = ()
        self._parameters: list[Any] = []

        def make(node: Node) -> tuple[Any, Any]:
            handle = places.actor(cluster, CohortWorker, node).remote(payload.setup)
            return handle, handle.prepare.remote(packed, *payload.data)

        self._actors = Actors(cluster, places.on, make, places.workers)

    @property
    def nodes(self) -> int:
        """How many nodes carry out work now."""
        return self._actors.nodes

    def engine(self, name: str, device: str) -> SharedEngine:
        """The engine of a name and a device, shared by all processes."""
        return SharedEngine(self, name, device)

    def is_long(self, run: PreparedRun) -> bool:
        """Whether one process takes a second or more for the training of a round."""
        engine, plan = self.engine(run.engine.name, run.config.execution.device), run.plan
        engine.seconds_of(_probe(plan, 1))  # sets the process up
        clients = min(PROBED, len(plan.federation))
        trainees = len(plan.federation) if plan.aggregation.trains_everyone else plan.cohort_limit
        return engine.seconds_of(_probe(plan, clients)) * trainees / clients >= LONG_SECONDS

    def announce(self, requests: Sequence[Request], *, engine: str, device: str) -> None:
        """Put the parameters of each request once."""
        self._requests, self._engine = requests, (engine, device)
        put: dict[int, Any] = {}
        for request in requests:
            if id(request.parameters) not in put:
                vector = request.parameters.detach().cpu().numpy()
                put[id(request.parameters)] = self._ray.put(vector)
        self._parameters = [put[id(request.parameters)] for request in requests]

    def free(self) -> list[Actor]:
        """The processes that have nothing to do."""
        return self._actors.free()

    def send(self, place: Any, position: int, piece: Piece) -> None:
        """Give a free process a piece.

        Raises:
            ConfigError: it cannot be sent.
        """
        import torch

        names = {**self._names, id(self._requests[position].parameters): PARAMETERS}
        try:
            content = dumps(piece, names, self._payload.modules)
        except Exception as error:
            raise ConfigError(
                "execution.share = 'cohorts' needs work that can be sent to another computer "
                f"({type(error).__name__}: {error}); use 'runs'"
            ) from None
        vector, threads = self._parameters[position], torch.get_num_threads()
        place.call = place.handle.answer.remote(content, vector, self._engine, threads)

    def received(self) -> Iterator[tuple[Actor, Answer | None]]:
        """What has come from the processes; None: one is lost."""
        for actor, sent in self._actors.received():
            if sent is None:
                yield actor, None
                continue
            packed, seconds, logs = pickle.loads(sent)
            _handle(logs)
            yield actor, Answer(pickle.loads(packed), seconds)

    def end(self) -> None:
        """End all processes."""
        self._actors.end()
        self._parameters.clear()


def _handle(logs: Iterable[logging.LogRecord]) -> None:
    for record in logs:
        logging.getLogger(record.name).handle(record)


def _probe(plan: Plan, count: int) -> Train:
    """The training of so many clients of usual size from theta^0."""
    sizes = plan.federation.clients.data_sizes
    places = ((2 * np.arange(count) + 1) * len(sizes)) // (2 * count)
    clients = np.sort(np.argsort(sizes, kind="stable")[places])
    theta = initial_parameters(plan.work.model, plan.federation, plan.seed)
    mean = WeightedMean(np.full(count, 1 / count))
    return Train(plan.work, theta, clients, plan.learning_rate_of(0), (plan.seed, 0), (mean,))
