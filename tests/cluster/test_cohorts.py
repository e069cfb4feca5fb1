"""Runs whose cohorts are shared, with actors in this process: the records of one process."""

import gc
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.experiments.test_this_process import carried_out, folder_of, record_files, stored
from tests.local.material import make_federation

from fedgs.bench.system import generated_traces
from fedgs.cluster import actors as module
from fedgs.cluster.nodes import Node
from fedgs.data import Federation
from fedgs.errors import ConfigError, WorkerError
from fedgs.experiments import cohorts
from fedgs.experiments.cohorts import share_cohorts
from fedgs.experiments.compare import _Given
from fedgs.experiments.crew import Progress
from fedgs.experiments.grid import build_config
from fedgs.experiments.prepared import PreparedRun
from fedgs.experiments.preparing import prepare
from fedgs.traces import write_traces

CLIENTS = 70
MADE: list[Any] = []  # actors of a test


class RayError(Exception):
    """The base of what Ray raises."""


class ActorUnavailableError(RayError):
    """What the first call after a hard kill reports."""


class ActorDiedError(RayError):
    """What later calls report."""


class RayTaskError(RayError):
    """What a method raised."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class LocalCluster:
    """Ray's part of a cluster, whose actors are objects of this process.

    `loses(n)` says which error, if any, meets the n-th answer.
    """

    def __init__(
        self, nodes: int = 2, loses: Callable[[int], type[RayError] | None] = lambda number: None
    ) -> None:
        self.ray: Any = self
        self.exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)
        self.list = [Node(str(n), f"node{n}", 1, 0, {}) for n in range(nodes)]
        self.loses = loses
        self.answers = 0
        self.made: list[Any] = []
        self.ended: list[Any] = []
        self.doubted: list[str] = []
        self.deaf = False
        self.calls: list[str] = []

    def nodes(self) -> list[Node]:
        return list(self.list)

    def only(self, key: str) -> str:
        return key

    def doubt(self, node: Node) -> None:
        self.doubted.append(node.name)

    def put(self, value: Any) -> Any:
        return value

    def remote(self, kind: type) -> Any:
        def start(setup: Any) -> Any:
            actor = kind(setup)
            self.made.append(actor)
            MADE.append(actor)
            return Handle(self, actor)

        return SimpleNamespace(options=lambda **given: SimpleNamespace(remote=start))

    def wait(self, owed: list[Any], **given: object) -> tuple[list[Any], list[Any]]:
        done = [one for one in owed if one.get is not None]
        return done, [one for one in owed if one.get is None]

    def get(self, reference: Any) -> Any:
        return reference.get()

    def kill(self, handle: "Handle") -> None:
        self.ended.append(handle.actor)


class Reference:
    """An answer that comes when it is fetched; None: it never comes."""

    def __init__(self, get: Callable[[], Any] | None) -> None:
        self.get = get


class Handle:
    """A handle whose methods are carried out when their answer is fetched."""

    def __init__(self, cluster: LocalCluster, actor: Any) -> None:
        self.cluster, self.actor = cluster, actor

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any) -> Any:
            self.cluster.calls.append(name)
            if self.cluster.deaf:
                return Reference(None)
            return Reference(lambda: self.carry_out(name, given))

        return SimpleNamespace(remote=call)

    def carry_out(self, name: str, given: tuple[Any, ...]) -> Any:
        if self.actor in self.cluster.ended and name != "clean":
            raise ActorDiedError
        if name == "answer":
            self.cluster.answers += 1
            error = self.cluster.loses(self.cluster.answers)
            if error is not None:
                self.cluster.ended.append(self.actor)
                raise error
        try:
            return getattr(self.actor, name)(*given)
        except Exception as error:
            raise RayTaskError(error) from None


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An actor changes its process for good: logger, threads and `sys.path`."""
    logger, threads, finders = logging.getLogger("fedgs"), torch.get_num_threads(), sys.meta_path[:]
    handlers, level, propagate = logger.handlers[:], logger.level, logger.propagate
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(module.time, "sleep", lambda seconds: None)
    yield
    while MADE:
        MADE.pop().clean()
    logger.handlers[:], logger.propagate = handlers, propagate
    logger.setLevel(level)
    torch.set_num_threads(threads)
    sys.meta_path[:] = finders


@pytest.fixture(scope="module")
def federation() -> Federation:
    return make_federation([2 + k % 5 for k in range(CLIENTS)])


def runs_of(
    federation: Federation, out: Path | None = None, *, share: str = "cohorts", **further: Any
) -> list[PreparedRun]:
    tables = {
        "data": _Given(federation=federation),
        "availability": "IDL",
        "model": "logistic",
        "training": {"rounds": 3, "cohort_limit": 66, "local_steps": 2, "batch_size": 4},
        "execution": {"engine": "loop", "cluster": "local", "share": share, "threads": 1},
        **further,
    }
    runs = prepare([build_config({**tables, "method": method}) for method in ("md", "fedgs")])
    return runs if out is None else [stored(run, out) for run in runs]


def shared(cluster: Any, runs: Sequence[PreparedRun], **further: Any) -> dict[int, Any]:
    given = {"on_progress": None, "listener": None, **further}
    return share_cohorts(cluster, runs, range(len(runs)), **given)


@pytest.mark.parametrize("nodes", [pytest.param(1, marks=pytest.mark.long), 3])
def test_any_number_of_nodes_gives_the_records_of_one_process(
    federation: Federation, tmp_path: Path, nodes: int
) -> None:
    here = runs_of(federation, tmp_path / "here")
    carried_out(here)
    there = runs_of(federation, tmp_path / "there")
    cluster, seen = LocalCluster(nodes), list[Progress]()
    assert list(shared(cluster, there, on_progress=seen.append)) == [0, 1]
    assert record_files(there) == record_files(here)
    tables = [folder_of(run[0]).config() for run in (here, there)]
    assert tables[0]["run"]["engine"] == tables[1]["run"]["engine"] == "loop"
    assert seen[-1].rounds == 6 and seen[-1].nodes == nodes
    assert len(cluster.made) == len(cluster.ended) == nodes  # long-lived, and all are ended
    assert cluster.answers > 12


@pytest.mark.parametrize("clock", ["rounds", "simulated"])
def test_runs_with_a_trace_and_a_clock_have_the_records_of_one_process(
    federation: Federation, tmp_path: Path, clock: str
) -> None:
    phones = write_traces(generated_traces(2 * CLIENTS), tmp_path / "phones.npz")
    tables = {
        "availability": {"name": "trace", "path": str(phones), "start_hour": 24},
        "system": {"noise": 0.3, "drop_out": 0.3, "deadline": 60.0, "clock": clock},
    }
    here = runs_of(federation, tmp_path / "here", **tables)
    carried_out(here)
    there = runs_of(federation, tmp_path / "there", **tables)
    shared(LocalCluster(2), there)
    assert record_files(there) == record_files(here)
    records = folder_of(here[0]).records()
    assert {fate for record in records for fate in record.fates or ()} >= {"answered", "failed"}
    assert records[-1].clock


def cycles_after(work: Callable[[], object]) -> Counter[str]:
    """What some work leaves to the garbage collector alone, by type."""
    gc.collect()
    gc.disable()
    try:
        work()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        return Counter(type(left).__name__ for left in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize(
    "further",
    [
        {},
        {"training": {"optimizer": "adam", "optimizer_state": "client"}},
        {"aggregation": "scaffold"},
    ],
)
def test_messages_are_freed_without_the_garbage_collector(
    federation: Federation, further: dict[str, Any]
) -> None:
    def left(rounds: int) -> Counter[str]:
        training = {"rounds": rounds, "cohort_limit": 66, "local_steps": 2, "batch_size": 4}
        tables = {**further, "training": {**training, **further.get("training", {})}}
        runs = runs_of(federation, evaluation={"every": 1}, **tables)
        return cycles_after(lambda: shared(LocalCluster(1), runs))

    left(1)  # what is made once
    more = left(7) - left(2)
    assert not {name: count for name, count in more.items() if count >= 5}  # one in each round


@pytest.mark.parametrize(
    "error", [ActorUnavailableError, pytest.param(ActorDiedError, marks=pytest.mark.long)]
)
def test_work_of_lost_actors_goes_to_others(
    federation: Federation, tmp_path: Path, error: type[RayError]
) -> None:
    here = runs_of(federation, tmp_path / "here")
    carried_out(here)
    there = runs_of(federation, tmp_path / "there")
    cluster = LocalCluster(2, lambda number: error if number % 5 == 0 else None)
    shared(cluster, there)
    assert record_files(there) == record_files(here)
    assert len(cluster.made) > 2 and cluster.doubted


@pytest.mark.long
def test_examples_that_are_made_on_demand_are_made_on_the_nodes(tmp_path: Path) -> None:
    data = {"name": "synthetic", "clients": 40, "on_demand": True}
    tables = {
        "data": data, "availability": "IDL", "method": "md", "evaluation": {"every": 1},
        "training": {"rounds": 2, "cohort_limit": 40, "local_steps": 2},
        "execution": {"engine": "loop", "cluster": "local", "share": "cohorts", "threads": 1},
    }  # fmt: skip
    here, there = ([stored(prepare([build_config(tables)])[0], tmp_path / at)] for at in "ab")
    carried_out(here)
    shared(LocalCluster(2), there)
    assert record_files(there) == record_files(here)


@pytest.mark.long
def test_without_a_node_the_run_ends_and_resumes(
    federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = runs_of(federation, tmp_path / "here")
    carried_out(here)
    there = runs_of(federation, tmp_path / "there")
    monkeypatch.setattr(module, "ALONE_SECONDS", 0.0)
    cluster = LocalCluster(1, lambda number: ActorDiedError if number > 9 else None)
    monkeypatch.setattr(cluster, "doubt", lambda node: cluster.list.clear())
    with pytest.raises(WorkerError, match="has had no node for 0 s; the same command resumes"):
        shared(cluster, there)
    assert not any(run.is_finished() for run in there)
    shared(LocalCluster(2), there)
    assert record_files(there) == record_files(here)


@pytest.mark.long
def test_auto_shares_long_rounds_of_few_runs(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = runs_of(federation, share="auto")
    assert shared(LocalCluster(2), runs) == {}  # as many runs as processes: none is measured
    monkeypatch.setattr(cohorts, "LONG_SECONDS", 1e9)
    assert shared(LocalCluster(4), runs) == {}  # short rounds
    monkeypatch.setattr(cohorts, "LONG_SECONDS", 1e-9)
    assert list(shared(LocalCluster(4), runs)) == [0, 1]
    small = {"rounds": 1, "cohort_limit": 32, "local_steps": 1}
    assert shared(LocalCluster(4), runs_of(federation, share="auto", training=small)) == {}
    assert shared(LocalCluster(4), runs_of(federation, share="runs")) == {}


@pytest.mark.parametrize(("clients", "shared"), [(32, False), (33, True)])
def test_auto_counts_the_clients_that_train(clients: int, shared: bool) -> None:
    plan = SimpleNamespace(
        aggregation=SimpleNamespace(trains_everyone=True), federation=range(clients), cohort_limit=2
    )
    config = SimpleNamespace(execution=SimpleNamespace(share="auto"))
    run: Any = SimpleNamespace(plan=plan, config=config)
    assert cohorts._may_share(run, few=True) is shared


def test_runs_that_a_node_cannot_load_are_refused_by_its_name(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, cluster = runs_of(federation), LocalCluster(1)
    monkeypatch.setattr(cohorts.RunPayload, "pack", lambda self, numbers: b"no pickle")
    with pytest.raises(ConfigError, match=r"node 'node0' cannot carry out the runs: Unpickling"):
        shared(cluster, runs)
    assert cluster.ended == cluster.made


def test_a_node_that_loses_actors_before_they_are_ready_is_left_out() -> None:
    cluster = LocalCluster(1)

    def make(node: Node) -> Any:
        handle = Handle(cluster, object())
        cluster.ended.append(handle.actor)
        return handle, Reference(lambda: handle.carry_out("prepare", ()))

    crowd: Any = module.Actors(cluster, lambda node: 1, make)  # type: ignore[arg-type]
    for _ in range(10):
        crowd.free()
        assert list(crowd.received()) == []
    assert len(cluster.doubted) == 3


def test_the_first_actors_begin_together(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, clock = LocalCluster(2), [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    prepared = {"0": Reference(lambda: ""), "1": Reference(None)}

    def make(node: Node) -> Any:
        return Handle(cluster, object()), prepared[node.key]

    def crowd() -> Any:
        return module.Actors(cluster, lambda node: 1, make)  # type: ignore[arg-type]

    both, one = crowd(), crowd()
    for actors in (both, one):
        assert actors.free() == [] and list(actors.received()) == [] and actors.free() == []
    clock[0] = 31.0
    assert len(one.free()) == 1  # the other may wait for processors for long
    clock[0], prepared["1"].get = 1.0, lambda: ""
    assert list(both.received()) == [] and len(both.free()) == 2


def test_a_silent_actor_is_asked_and_one_that_does_not_answer_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, clock = LocalCluster(1), [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    silent = Reference(None)

    class Quiet:
        def process(self) -> int:
            return 1

    def make(node: Node) -> Any:
        return Handle(cluster, Quiet()), Reference(lambda: "")

    crowd: Any = module.Actors(cluster, lambda node: 1, make)  # type: ignore[arg-type]
    crowd.free()
    assert list(crowd.received()) == []
    (actor,) = crowd.free()
    actor.call = silent
    for _ in range(50):  # a long piece: the second thread answers
        clock[0] += 15.0
        assert list(crowd.received()) == []
    cluster.deaf, before = True, clock[0]
    while not (found := list(crowd.received())):
        clock[0] += 15.0
    assert found == [(actor, None)] and 300 <= clock[0] - before <= 450


def test_cohorts_are_shared_on_a_cluster_alone() -> None:
    tables = {"data": "synthetic", "method": "md", "availability": "IDL"}
    with pytest.raises(ConfigError, match=r"execution\.share = 'cohorts' has no effect without"):
        build_config({**tables, "execution": {"share": "cohorts"}})
    with pytest.raises(ConfigError, match=r"share"):
        build_config({**tables, "execution": {"share": "clients"}})
    auto = build_config({**tables, "execution": {"share": "auto"}})
    assert "share" not in auto.tables()["execution"]  # as in records of earlier versions


def test_the_setting_is_no_part_of_a_runs_identity(federation: Federation) -> None:
    names = {
        run.folder_name for share in ("runs", "cohorts") for run in runs_of(federation, share=share)
    }
    assert len(names) == 2


def test_threads_of_the_study_are_as_they_were(federation: Federation) -> None:
    before = torch.get_num_threads()
    runs = runs_of(federation)
    execution = runs[0].config.execution.model_copy(update={"threads": 2})
    config = runs[0].config.model_copy(update={"execution": execution})
    with pytest.raises(ConfigError, match="no node of the cluster has 2 processors"):
        shared(LocalCluster(1), [replace(runs[0], config=config)])
    assert torch.get_num_threads() == before
