"""Join a Ray cluster, or start one of this computer alone."""

import contextlib
import importlib
import logging
import os
import secrets
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fedgs.cluster import facts
from fedgs.cluster.nodes import Node, check_alike, difference
from fedgs.errors import ConfigError, FedgsError, require_extra
from fedgs.machine import physical_cores

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["Cluster", "driver_folders", "open_cluster"]

_log = logging.getLogger("fedgs")
PROBE_SECONDS = 60.0  # for a node to say what it is
JOIN_SECONDS = 30.0  # for the first node to join
CONNECT_SECONDS = 5.0
STORE_BYTES = 256 << 20  # of an own cluster's object store, beside the data


@dataclass
class Cluster:
    """A cluster that this process has joined.

    Attributes:
        ray: the module.
        trusted: whether nodes without authentication are accepted.
        facts: of this computer.
    """

    ray: "ModuleType"
    trusted: bool
    facts: dict[str, str] = field(default_factory=facts.node_facts)
    _known: dict[str, Node | None] = field(default_factory=dict)
    _asked: dict[Any, str] = field(default_factory=dict)  # reference of an answer -> key

    def nodes(self) -> list[Node]:
        """The nodes with processors that are alive, have answered and compute as this computer.

        It does not wait: a new node is asked what it is, and is in the list once it has answered. A
        node that differs is named in a warning of the logger "fedgs" and left out.
        """
        alive = self._alive()
        self._ask(alive)
        for node in self._answers(alive, seconds=0.0):
            sentence = difference(self.facts, node) or self._unsafe(node)
            if sentence is not None:
                _log.warning("%s; it carries out no runs", sentence)
            self._known[node.key] = node if sentence is None else None
        known = [self._known.get(key) for key in alive]
        return [node for node in known if node is not None]

    def check(self) -> None:
        """Ask every node what it is; to be called before anything is written.

        Raises:
            ConfigError: one sentence with the name of a node that would give other numbers, that
                has no authentication, or that does not answer; or there is no node with a
                processor.
        """
        deadline = time.monotonic() + JOIN_SECONDS
        while not (alive := self._alive()):  # nodes may be joining
            if time.monotonic() > deadline:
                raise ConfigError("execution.cluster names a cluster without any processor")
            time.sleep(0.5)
        self._ask(alive)
        nodes = self._answers(alive, seconds=PROBE_SECONDS)
        silent = alive.keys() - {node.key for node in nodes}
        if silent:
            name = min(alive[key][0] for key in silent)
            raise ConfigError(f"node {name!r} of the cluster does not answer")
        check_alike(self.facts, nodes)
        for node in nodes:
            sentence = self._unsafe(node)
            if sentence is not None:
                raise ConfigError(sentence)
        self._known |= {node.key: node for node in nodes}

    def only(self, key: str) -> object:
        """The scheduling strategy of Ray for work on the node with this key alone."""
        return self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(key, soft=False)

    def doubt(self, node: Node) -> None:
        """Leave a node out until it has answered again, since a process on it was lost."""
        self._known.pop(node.key, None)

    def _unsafe(self, node: Node) -> str | None:
        if self.trusted or node.facts.get("authentication") == "token":
            return None
        return (
            f"node {node.name!r} is in a cluster without authentication, where everybody who can "
            "reach a node can run programs on it; start Ray with RAY_AUTH_MODE=token, or set "
            "execution.trust_network = true"
        )

    def _alive(self) -> dict[str, tuple[str, int, int]]:
        """Key -> name, processors and GPUs of the nodes that have a processor."""
        nodes: dict[str, tuple[str, int, int]] = {}
        for node in self.ray.nodes():
            cpus = int(node["Resources"].get("CPU", 0))
            if node["Alive"] and cpus >= 1:
                gpus = int(node["Resources"].get("GPU", 0))
                nodes[node["NodeID"]] = (node["NodeManagerHostname"], cpus, gpus)
        return nodes

    def _ask(self, alive: dict[str, tuple[str, int, int]]) -> None:
        """Ask the nodes that are not known and have not been asked."""
        keys = [key for key in alive if key not in self._known and key not in self._asked.values()]
        if not keys:
            return
        self.ray.cloudpickle.register_pickle_by_value(facts)  # a node may lack fedgs
        try:
            ask = self.ray.remote(facts.node_facts)
            for key in keys:
                there = ask.options(num_cpus=0, max_retries=0, scheduling_strategy=self.only(key))
                self._asked[there.remote()] = key
        finally:
            self.ray.cloudpickle.unregister_pickle_by_value(facts)

    def _answers(self, alive: dict[str, tuple[str, int, int]], *, seconds: float) -> list[Node]:
        """The nodes that have answered within so many seconds."""
        if not self._asked:
            return []
        asked = list(self._asked)
        done, _ = self.ray.wait(asked, num_returns=len(asked), timeout=seconds)
        answers = []
        for reference in done:
            key = self._asked.pop(reference)
            with contextlib.suppress(self.ray.exceptions.RayError):
                said = self.ray.get(reference)
                if key in alive:
                    answers.append(Node(key, *alive[key], said))
        return sorted(answers, key=lambda node: list(alive).index(node.key))


@contextlib.contextmanager
def open_cluster(address: str, *, trusted: bool = False, data_bytes: int = 0) -> Iterator[Cluster]:
    """Join a cluster while the block runs; all its nodes have been checked.

    Args:
        address: "local": start one of this computer alone, with a new token; "auto": the one that
            runs on this computer or that `RAY_ADDRESS` names; or "host:port" of its head.
        trusted: accept a cluster without authentication.
        data_bytes: of the data that every node will hold, for a cluster that is started.

    Raises:
        MissingExtraError: Ray is not installed.
        ConfigError: there is no such cluster, it cannot be joined, or one of its nodes would give
            other numbers.
    """
    if address == "local":
        os.environ["RAY_AUTH_MODE"] = "token"
        if "RAY_AUTH_TOKEN_PATH" not in os.environ:
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    elif not trusted and os.environ.get("RAY_AUTH_MODE") != "token":
        raise ConfigError(
            f"execution.cluster is {address!r}, but this process has no token for a cluster with "
            "authentication: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH, or "
            "execution.trust_network = true for a network that you trust"
        )
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = _imported()
    joined_before = ray.is_initialized()
    if not joined_before:
        _join(ray, address, data_bytes)
    try:
        cluster = Cluster(ray, trusted)
        cluster.check()
        yield cluster
    finally:
        if not joined_before:
            ray.shutdown()


def _imported() -> "ModuleType":
    try:
        importlib.import_module("ray.util.scheduling_strategies")
        return importlib.import_module("ray")
    except ModuleNotFoundError:
        raise require_extra("ray", "cluster") from None


def _join(ray: "ModuleType", address: str, data_bytes: int) -> None:
    options: dict[str, Any] = {"logging_level": logging.ERROR}
    if address == "local":
        options |= {
            "address": "local",
            "num_cpus": physical_cores(),
            "include_dashboard": False,
            "object_store_memory": STORE_BYTES + 2 * data_bytes,
        }
    else:
        if address != "auto":
            _check_reachable(address)
        options["address"] = address
    try:
        ray.init(**options)
    except FedgsError:
        raise
    except Exception as error:
        with contextlib.suppress(Exception):
            ray.shutdown()
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error))
        raise ConfigError(f"execution.cluster = {address!r} cannot be joined: {reason}") from None


def _check_reachable(address: str) -> None:
    """Refuse an address without a listener; Ray would try for a minute and end the process."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except OSError as error:
        raise ConfigError(
            f"execution.cluster = {address!r} cannot be reached: {error.strerror or error}"
        ) from None


def driver_folders() -> list[str]:
    """The folders of this program that Ray puts at the head of every worker's `sys.path`."""
    script = os.path.dirname(os.path.realpath(sys.argv[0]))
    return [script, os.path.abspath(os.path.curdir)]
