"""The nodes of a cluster are alike, or one sentence says which is not; Ray is never imported."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import fedgs
from fedgs.cluster import joining
from fedgs.cluster.facts import node_facts, source_digest
from fedgs.cluster.joining import Cluster, open_cluster
from fedgs.cluster.nodes import Node, check_alike
from fedgs.errors import ConfigError, MissingExtraError

FACTS = node_facts()


class FakeRay:
    """Nodes that answer what a test says; None: not at all."""

    def __init__(self, answers: dict[str, dict[str, str] | None]) -> None:
        self.answers = answers
        self.alive = set(answers)
        self.asked: list[str] = []
        self.exceptions = SimpleNamespace(RayError=RuntimeError)
        self.cloudpickle = SimpleNamespace(
            register_pickle_by_value=lambda module: None,
            unregister_pickle_by_value=lambda module: None,
        )
        strategies = SimpleNamespace(NodeAffinitySchedulingStrategy=lambda key, soft: key)
        self.util = SimpleNamespace(scheduling_strategies=strategies)

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {
                "NodeID": name,
                "Alive": name in self.alive,
                "NodeManagerHostname": name,
                "Resources": {"CPU": 2.0},
            }
            for name in self.answers
        ]

    def remote(self, function: object) -> "FakeRay":
        return self

    def options(self, *, scheduling_strategy: str, **options: object) -> SimpleNamespace:
        self.asked.append(scheduling_strategy)
        return SimpleNamespace(remote=lambda: scheduling_strategy)

    def wait(self, asked: list[str], **options: object) -> tuple[list[str], list[str]]:
        return [key for key in asked if self.answers[key] is not None], []

    def get(self, key: str) -> dict[str, str]:
        answer = self.answers[key]
        assert answer is not None
        return answer


def cluster_of(answers: dict[str, dict[str, str] | None], *, trusted: bool = True) -> Cluster:
    fake: Any = FakeRay(answers)
    return Cluster(fake, trusted=trusted, facts=FACTS)


@pytest.mark.parametrize("name", ["fedgs", "code of fedgs", "Python", "NumPy", "PyTorch"])
def test_another_version_is_refused_with_the_name_of_the_node(name: str) -> None:
    cluster = cluster_of({"east": FACTS, "west": {**FACTS, name: "9"}})
    with pytest.raises(ConfigError, match=f"^node 'west' has {name} 9 and this computer "):
        cluster.check()


def test_a_node_without_the_package_is_refused() -> None:
    with pytest.raises(ConfigError, match="^node 'east' has no fedgs; install what this"):
        cluster_of({"east": {**FACTS, "fedgs": "none"}}).check()


def test_nodes_of_two_kinds_of_processors_are_refused() -> None:
    cluster = cluster_of({"east": FACTS, "west": {**FACTS, "processor": "abacus"}})
    with pytest.raises(ConfigError, match="^node 'west' has the processor abacus and node 'east'"):
        cluster.check()
    check_alike({**FACTS, "processor": "of a head that carries out nothing"}, [
        Node("east", "east", 1, 0, FACTS)
    ])  # fmt: skip


def test_a_node_without_authentication_needs_trust() -> None:
    answers: dict[str, dict[str, str] | None] = {"east": {**FACTS, "authentication": "disabled"}}
    with pytest.raises(ConfigError, match="'east' is in a cluster without authentication"):
        cluster_of(answers, trusted=False).check()
    cluster_of(answers).check()
    cluster_of({"east": {**FACTS, "authentication": "token"}}, trusted=False).check()


def test_a_cluster_of_silent_nodes_or_of_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "JOIN_SECONDS", 0.0)
    with pytest.raises(ConfigError, match="^node 'west' of the cluster does not answer$"):
        cluster_of({"east": FACTS, "west": None}).check()
    with pytest.raises(ConfigError, match="without any processor"):
        cluster_of({}).check()


def test_nodes_that_join_later_are_used_once_they_have_answered() -> None:
    cluster = cluster_of({"east": FACTS})
    fake: Any = cluster.ray
    cluster.check()
    fake.answers["west"] = None
    fake.alive.add("west")
    assert [node.name for node in cluster.nodes()] == ["east"]
    fake.answers["west"] = FACTS
    assert [node.name for node in cluster.nodes()] == ["east", "west"]
    assert fake.asked == ["east", "west"]  # each once
    fake.alive.remove("west")
    assert [node.name for node in cluster.nodes()] == ["east"]


def test_a_node_that_joins_later_and_differs_is_named_once_and_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = cluster_of({"east": FACTS, "west": {**FACTS, "NumPy": "1.0"}})
    assert [node.name for node in cluster.nodes()] == ["east"]
    assert [node.name for node in cluster.nodes()] == ["east"]
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("node 'west' has NumPy 1.0")
    assert message.endswith("; it carries out no runs")


def test_a_node_whose_member_was_lost_is_left_out_until_it_answers_again() -> None:
    cluster = cluster_of({"east": FACTS})
    fake: Any = cluster.ray
    cluster.check()
    (east,) = cluster.nodes()
    fake.answers["east"] = None
    cluster.doubt(east)
    assert cluster.nodes() == []
    fake.answers["east"] = FACTS
    assert cluster.nodes() == [east]


def test_the_digest_is_that_of_the_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = source_digest()
    copy = tmp_path / "fedgs"
    copy.mkdir()
    (copy / "__init__.py").write_text("")
    spec = SimpleNamespace(origin=str(copy / "__init__.py"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    one = source_digest()
    (copy / "new.py").write_text("x = 1")
    assert len({before, one, source_digest()}) == 3
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert source_digest() == "none"


def test_without_ray_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "ray.util.scheduling_strategies", None)
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_USAGE_STATS_ENABLED"):
        monkeypatch.setenv(name, "0")
    with (
        pytest.raises(MissingExtraError, match=r"pip install 'fedgs\[cluster\]'"),
        open_cluster("local"),
    ):
        pass


def test_a_cluster_is_not_joined_without_a_token_or_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    monkeypatch.setattr(joining, "_imported", lambda: pytest.fail("Ray was imported"))
    with (
        pytest.raises(ConfigError, match=r"has no token for a cluster .*trust_network = true"),
        open_cluster("head:6379"),
    ):
        pass


def test_an_address_where_nobody_listens_is_one_sentence() -> None:
    with pytest.raises(ConfigError, match="^execution.cluster = '127.0.0.1:1' cannot be r"):
        joining._check_reachable("127.0.0.1:1")


@pytest.mark.long
def test_ray_is_not_imported_by_the_package_nor_by_runs_without_a_cluster() -> None:
    statement = (
        "import sys, fedgs, fedgs.experiments.runner, fedgs.cli.run\n"
        "fedgs.compare('synthetic', methods=['md'], availability='IDL', seeds=[0],\n"
        "              training={'rounds': 1, 'local_steps': 1})\n"
        "assert not [name for name in sys.modules if name.split('.')[0] == 'ray']"
    )
    subprocess.run([sys.executable, "-c", statement], check=True)


def test_ray_is_named_in_imports_of_one_package_alone() -> None:
    source = Path(fedgs.__file__).parent
    users = {
        path.relative_to(source).parts[0]
        for path in source.rglob("*.py")
        if any(word in path.read_text() for word in ("import ray", "from ray", '"ray"'))
    }
    assert users == {"cluster", "errors.py"}
