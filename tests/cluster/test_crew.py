"""The crew on a cluster, with scripted members: what it does with their messages and losses."""

import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.experiments.test_this_process import prepared_runs

from fedgs.cluster.nodes import Node
from fedgs.data import Federation
from fedgs.errors import ConfigError, WorkerError
from fedgs.experiments import cluster_crew
from fedgs.experiments.cluster_crew import ClusterCrew, cluster_shares
from fedgs.experiments.cluster_worker import FilesChanged
from fedgs.experiments.crew import Progress, RunEnded, ShareEnded
from fedgs.experiments.executor import Executor
from fedgs.experiments.mirror import FileChange
from fedgs.experiments.prepared import PreparedRun
from fedgs.experiments.worker import Unloadable
from fedgs.records import RunFolder


class RayError(Exception):
    """The base of what Ray raises."""


class ActorDiedError(RayError):
    """An actor is gone."""


class ActorUnavailableError(RayError):
    """An actor cannot be reached, which is what the first call after a hard kill reports."""


class OutOfMemoryError(RayError):
    """Ray has ended an actor because the node's memory ran out."""


class FakeCluster:
    """Nodes whose members send what a script says for each start of a share."""

    def __init__(self, script: Callable[[int], list[object]], *, nodes: int = 2) -> None:
        self.ray = self
        self.script = script
        self.list = [Node(str(n), f"node{n}", 1, 0, {}) for n in range(nodes)]
        self.starts: list[str] = []  # the node of each start
        self.killed: list[str] = []
        self.made = 0
        self.is_silent = self.is_deaf = False
        self.clock = 0.0
        self.exceptions = SimpleNamespace(RayError=RayError, RayTaskError=ZeroDivisionError)

    def nodes(self) -> list[Node]:
        return list(self.list)

    def only(self, key: str) -> str:
        return key

    def doubt(self, node: Node) -> None:
        self.list.remove(node)

    def put(self, value: object) -> object:
        return value

    def remote(self, cls: type) -> Any:
        return self

    def options(self, *, scheduling_strategy: str, **options: object) -> Any:
        self.made += 1
        return SimpleNamespace(remote=lambda setup: self.actor(scheduling_strategy))

    def actor(self, key: str) -> Any:
        def work(runs: bytes, contents: object, *data: object) -> Iterator[object]:
            self.starts.append(key)
            return iter(self.script(len(self.starts)))

        nothing = SimpleNamespace(remote=lambda *given: None)
        process = SimpleNamespace(remote=lambda: "ping")
        remote = SimpleNamespace(options=lambda **options: SimpleNamespace(remote=work))
        return SimpleNamespace(
            key=key, work=remote, stop=nothing, clean=nothing, reply=nothing, process=process
        )

    def wait(self, streams: list[Any], **options: object) -> tuple[list[Any], list[Any]]:
        if streams == ["ping"]:
            return ([], streams) if self.is_deaf else (streams, [])
        stream = streams[0]
        if not self.is_silent:
            return streams[:1], streams[1:]
        self.clock += 15.0
        return [], [stream]

    def get(self, message: object) -> list[bytes]:
        if message == "ping":
            return []
        if isinstance(message, RayError):
            raise message
        messages = message if isinstance(message, list) else [message]
        return [pickle.dumps(one) for one in messages]

    def kill(self, actor: Any) -> None:
        self.killed.append(actor.key)


def crew_of(fake: FakeCluster, runs: list[PreparedRun]) -> ClusterCrew:
    cluster: Any = fake
    return ClusterCrew(cluster, runs)


@pytest.fixture
def runs(toy_federation: Federation) -> list[PreparedRun]:
    return prepared_runs(toy_federation, methods=["uniform"])


def ended() -> list[object]:
    return [Progress(6, 6, 0), RunEnded(0, {}, None, []), ShareEnded()]


@pytest.mark.parametrize(
    "error",
    [
        ActorDiedError,
        pytest.param(ActorUnavailableError, marks=pytest.mark.long),
        pytest.param(OutOfMemoryError, marks=pytest.mark.long),
    ],
)
def test_a_lost_members_runs_start_again_on_another_node(
    runs: list[PreparedRun], error: type[RayError]
) -> None:
    fake = FakeCluster(lambda start: [Progress(2, 6, 0), error()] if start == 1 else ended())
    seen: list[Progress] = []
    crew = crew_of(fake, runs)
    results = Executor(crew, runs, seen.append).carry_out(cluster_shares(runs, [0], crew.size))
    assert list(results) == [0]
    assert fake.starts == ["0", "1"]
    assert fake.killed == ["0", "1"]  # the lost one must not work on, the other is ended
    assert [progress.rounds for progress in seen] == [2, 6]


@pytest.mark.long
def test_runs_that_are_lost_three_times_are_given_up(runs: list[PreparedRun]) -> None:
    fake = FakeCluster(lambda start: [ActorDiedError()], nodes=3)
    crew = crew_of(fake, runs)
    with pytest.raises(
        WorkerError, match="crashed 3 times, the last one was lost on node 'node2' .Actor"
    ):
        Executor(crew, runs).carry_out(cluster_shares(runs, [0], crew.size))


@pytest.mark.long
def test_a_cluster_that_has_lost_all_nodes_is_waited_for_and_given_up(
    runs: list[PreparedRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_crew.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(cluster_crew, "ALONE_SECONDS", 0.2)
    fake = FakeCluster(lambda start: [ActorDiedError()], nodes=1)
    crew = crew_of(fake, runs)
    with pytest.raises(WorkerError, match="has had no node for 0.2 s; the same command resumes"):
        Executor(crew, runs).carry_out(cluster_shares(runs, [0], crew.size))


@pytest.mark.long
def test_a_silent_member_is_asked_and_one_that_does_not_answer_is_lost(
    runs: list[PreparedRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeCluster(lambda start: [Progress(1, 6, 0), Progress(2, 6, 0)])
    monkeypatch.setattr(cluster_crew.time, "monotonic", lambda: fake.clock)
    crew = crew_of(fake, runs)
    (share,) = cluster_shares(runs, [0], 1)
    crew.start(share)
    fake.is_silent = True
    for _ in range(100):  # it has not begun, since its processors are in use
        assert list(crew.messages()) == [] and crew.how_it_ended(share) is None
    fake.is_silent = False
    assert len(list(crew.messages())) == 1
    fake.is_silent = True
    for _ in range(100):  # a long round
        assert list(crew.messages()) == [] and crew.how_it_ended(share) is None
    fake.is_deaf, before = True, fake.clock
    while (how := crew.how_it_ended(share)) is None:
        assert list(crew.messages()) == []
    assert how == "was lost on node 'node0' (TimeoutError)"
    assert 300 <= fake.clock - before <= 450


@pytest.mark.long
def test_a_cluster_whose_nodes_are_too_small_is_refused(runs: list[PreparedRun]) -> None:
    execution = runs[0].config.execution.model_copy(update={"threads": 2})
    config = runs[0].config.model_copy(update={"execution": execution})
    with pytest.raises(ConfigError, match=r"no node of the cluster has 2 processors"):
        crew_of(FakeCluster(lambda start: []), [replace(runs[0], config=config)])


@pytest.mark.long
def test_an_idle_member_gets_the_next_share(toy_federation: Federation) -> None:
    runs = prepared_runs(toy_federation, methods=["uniform", "md", "fedgs"])
    fake = FakeCluster(lambda start: ended(), nodes=1)
    crew = crew_of(fake, runs)
    shares = [share for n in range(3) for share in cluster_shares(runs, [n], 1)]
    assert len(Executor(crew, runs).carry_out(shares)) == 3
    assert (fake.made, fake.starts) == (1, ["0"] * 3)


@pytest.mark.long
def test_the_study_writes_the_files_that_members_send(
    runs: list[PreparedRun], tmp_path: Path
) -> None:
    stored = [replace(run, folder=RunFolder(tmp_path / run.folder_name)) for run in runs]
    change = FilesChanged(0, [FileChange("rounds.jsonl", None, b"{}\n")], 0)
    fake = FakeCluster(lambda start: [change, *ended()])
    crew = crew_of(fake, stored)
    Executor(crew, stored).carry_out(cluster_shares(stored, [0], 1))
    assert (tmp_path / runs[0].folder_name / "rounds.jsonl").read_bytes() == b"{}\n"


def lines(number: int) -> FilesChanged:
    """The change that appends line `number` to the records."""
    if number == 0:
        return FilesChanged(0, [FileChange("rounds.jsonl", None, b"0\n")], 0)
    content = f"{number}\n".encode()
    return FilesChanged(
        0, [FileChange("rounds.jsonl", 2 * number, content, 2 * number + 2)], number
    )


def test_an_interrupt_between_messages_loses_none(runs: list[PreparedRun], tmp_path: Path) -> None:
    stored = [replace(run, folder=RunFolder(tmp_path / run.folder_name)) for run in runs]
    come: list[object] = [lines(0), Progress(6, 1, 0), lines(1)]
    crew = crew_of(FakeCluster(lambda start: [come, [lines(2), *ended()]]), stored)

    def interrupted(progress: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Executor(crew, stored, interrupted).carry_out(cluster_shares(stored, [0], 1))
    assert (tmp_path / runs[0].folder_name / "rounds.jsonl").read_bytes() == b"0\n1\n2\n"


@pytest.mark.long
@pytest.mark.parametrize("lost", [0, 1])
def test_an_interrupt_that_loses_changes_leaves_no_gap(
    lost: int, runs: list[PreparedRun], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = [replace(run, folder=RunFolder(tmp_path / run.folder_name)) for run in runs]
    apply = cluster_crew.apply_changes

    def interrupted(folder: Path, changes: list[FileChange]) -> None:
        monkeypatch.setattr(cluster_crew, "apply_changes", apply)
        raise KeyboardInterrupt

    come = [lines(number) for number in range(4)]
    fake = FakeCluster(lambda start: [*filter(None, [come[:lost], come[lost:]]), ended()])
    crew, (share,) = crew_of(fake, stored), cluster_shares(stored, [0], 1)
    crew.start(share)
    if lost:
        assert list(crew.messages()) == []
    monkeypatch.setattr(cluster_crew, "apply_changes", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(crew.messages())
    crew.end()
    path = tmp_path / runs[0].folder_name / "rounds.jsonl"
    assert (path.read_bytes() if path.exists() else b"") == b"0\n"[: 2 * lost]


@pytest.mark.long
def test_a_member_that_cannot_load_the_runs_is_one_sentence(runs: list[PreparedRun]) -> None:
    fake = FakeCluster(lambda start: [Unloadable("ImportError: no module")])
    crew = crew_of(fake, runs)
    with pytest.raises(ConfigError, match="a process on node 'node0' cannot load the runs"):
        Executor(crew, runs).carry_out(cluster_shares(runs, [0], 1))


@pytest.mark.parametrize(("count", "members"), [(1, 4), (3, 2), (17, 4), (400, 8), (5, 1)])
def test_shares_hold_every_run_once_and_become_smaller(
    runs: list[PreparedRun], count: int, members: int
) -> None:
    shares = cluster_shares(runs * count, range(count), members)
    assert sorted(number for share in shares for number in share.runs) == list(range(count))
    sizes = [len(share.runs) for share in shares]
    assert min(sizes) >= 1 and len(sizes) >= min(count, members)
    assert sizes == sorted(sizes, reverse=True) and len(sizes) <= 2 * members
    assert (len(sizes) > members) == (count > members)  # a member that comes late gets some
