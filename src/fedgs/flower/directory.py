"""Node id -> client key. A node is asked once who it is; a key that comes back under another node id is the same client."""

import hashlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fedgs.errors import RunError
from fedgs.flower.client import DESCRIBE, RECORD
from fedgs.flower.exchange import pauses
from fedgs.flower.roster import Key

__all__ = ["Description", "Directory"]

_logger = logging.getLogger(__name__)
# Flower's codes for a ClientApp that could not be loaded or raised: the node lives, it only has no handler.
_APP_ERRORS = (1, 2)


@dataclass(frozen=True)
class Description:
    """What a node said of itself.

    Attributes:
        key: its client key.
        data_size: n_k, or None.
        feature: its feature vector, or None.
    """

    key: Key
    data_size: float | None = None
    feature: list[float] | None = None


@dataclass(eq=False)
class Directory:
    """Who lives at which node id, for one run of the ServerApp."""

    _known: dict[int, Key] = field(default_factory=dict)
    _pending: dict[str, int] = field(default_factory=dict)  # message id -> node id
    _waited: set[int] = field(default_factory=set)
    _replaced: dict[int, int] = field(default_factory=dict)  # a node id -> the newer one that reported the same key

    def resolve(self, grid: Grid, online: Iterable[int], *, deadline: float) -> tuple[dict[Key, int], list[Description]]:
        """The nodes on line by client key, and the descriptions that came in since the last call.

        A node that has not said who it is is left out: nodes met for the first time are waited for until `deadline` (of
        `time.monotonic`), the others' answers are taken in passing. Where a second node reports the key of one that is still
        listed (a client that was killed and restarted is listed for up to a minute more), the newer one takes its place and the
        older one is asked again: only if it answers are there two.

        Raises:
            RunError: two live nodes have one client key.
        """
        nodes = set(online)
        self._pending = {message: node for message, node in self._pending.items() if node in nodes}
        self._replaced = {old: new for old, new in self._replaced.items() if old in nodes and new in nodes}
        asked = set(self._pending.values())
        strangers = sorted(nodes - self._known.keys() - asked)
        self._ask(grid, strangers)
        described = self._gather(grid, nodes, deadline=deadline)
        self._waited |= nodes
        for node, description in described:
            self._known[node] = description.key
        self._replace_older(grid, nodes, {node for node, _ in described})
        told = sorted((description for _, description in described), key=lambda one: (isinstance(one.key, str), one.key))
        return self.listed(nodes), told  # by key, since the order of node ids and of answers is chance

    def listed(self, online: Iterable[int]) -> dict[Key, int]:
        """Client key -> node id of the nodes on line that have said who they are."""
        return {self._known[node]: node for node in sorted(online) if node in self._known and node not in self._replaced}

    def _ask(self, grid: Grid, nodes: list[int]) -> None:
        if nodes:
            messages = [Message(RecordDict(), node, DESCRIBE) for node in nodes]
            for identifier, node in zip(grid.push_messages(messages), nodes, strict=False):
                if identifier:
                    self._pending[identifier] = node

    def _gather(self, grid: Grid, nodes: set[int], *, deadline: float) -> list[tuple[int, Description]]:
        """Take the answers that have come; wait only for nodes that have never been waited for."""
        described: list[tuple[int, Description]] = []
        for _ in pauses(deadline):
            if self._pending:
                for reply in grid.pull_messages(list(self._pending)):
                    node = self._pending.pop(reply.metadata.reply_to_message_id, None)
                    if node is not None and (description := self._read(grid, node, reply)) is not None:
                        described.append((node, description))
            if not set(self._pending.values()) - self._waited:
                break
        return described

    def _read(self, grid: Grid, node: int, reply: Message) -> Description | None:
        """The description in a reply; None for a node that could not be reached and is to be asked again."""
        if reply.has_error():
            if reply.error.code not in _APP_ERRORS or node in self._replaced:
                return None
            return Description(_fallback_key(grid, node, reply.error.reason or ""))
        if node in self._replaced:
            self._refuse_twins(self._known[node], node, self._replaced[node])
        told: Any = reply.content.config_records.get(RECORD, {})
        key = told.get("client-key")
        if key is None:
            key = _fallback_key(grid, node, "neither client-id nor partition-id is set")
        return Description(key, told.get("data-size"), told.get("feature"))

    def _replace_older(self, grid: Grid, nodes: set[int], fresh: set[int]) -> None:
        """Where two nodes reported one key, the one that spoke last takes the place; the other is asked if it still lives."""
        holder: dict[Key, int] = {}
        current = nodes & self._known.keys() - self._replaced.keys()
        if len({self._known[node] for node in current}) == len(current):
            return
        for node in sorted(current, key=lambda node: (node in fresh, node)):
            older = holder.get(self._known[node])
            if older is not None:
                if older in fresh:
                    self._refuse_twins(self._known[node], older, node)
                self._replaced[older] = node
                self._ask(grid, [older])
            holder[self._known[node]] = node

    def _refuse_twins(self, key: Key, first: int, second: int) -> None:
        raise RunError(
            f"client key {key!r} is held by two live nodes ({first} and {second}); give every SuperNode a client-id of its own"
        )


def _fallback_key(grid: Grid, node: int, why: str) -> Key:
    """The node's public key where Flower tells it, else its id: neither survives a restart without a registered key."""
    reason = why.strip().splitlines()[-1] if why.strip() else "no reason given"
    nodes = grid.get_nodes() if hasattr(grid, "get_nodes") else ()
    public_key = next((getattr(info, "public_key", b"") for info in nodes if info.node_id == node), b"")
    key = f"key-{hashlib.sha256(public_key).hexdigest()[:16]}" if public_key else f"node-{node}"
    if not public_key:
        _logger.warning(
            "node %d did not say who it is (%s), so it is client %r until it restarts; set client-id in its node "
            "configuration and add fedgs.flower.describe(app) to the ClientApp",
            node,
            reason,
            key,
        )
    return key
