"""Node id -> client key. A node is asked once who it is; a key that comes back under another node id is the same client."""

import hashlib
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fedgs.errors import RunError
from fedgs.flower.client import DESCRIBE, ERRORS, RECORD
from fedgs.flower.exchange import from_client, pauses, resend
from fedgs.flower.journal import listed
from fedgs.flower.roster import Key

__all__ = ["Description", "Directory", "Resolved"]

_logger = logging.getLogger(__name__)
_PROBE = (
    0.5  # share of the timeout that the first node is waited for before all others are asked too
)
_LONGEST = 16  # intervals between two requests to one node double up to so many times the first
_NO_HANDLER = "No query function registered"  # what Flower says of a ClientApp without `describe`


@dataclass(frozen=True)
class Description:
    """What a node said of itself.

    Attributes:
        key: its client key.
        data_size: n_k, or None.
        feature: its feature vector, or None.
        errors: a sentence for each function of the client's `describe` that failed.
        unnamed: why it named no client, so that `key` stands for its node; None where it did.
    """

    key: Key
    data_size: float | None = None
    feature: list[float] | None = None
    errors: tuple[str, ...] = ()
    unnamed: str | None = None


class Resolved(NamedTuple):
    """What a call of `Directory.resolve` found.

    Attributes:
        found: client key -> node id.
        told: descriptions that came in, by key.
        lost: (node id, why) of nodes that have not said who they are in time.
    """

    found: dict[Key, int]
    told: list[Description]
    lost: list[tuple[int, str]]


@dataclass(eq=False)
class _Request:
    """A request to a node that has not been answered.

    Attributes:
        message: its message id, or None between two requests.
        since: when it was sent (of `time.monotonic`).
        patience: seconds after which it counts as lost, and the node is asked again.
        reported: whether its loss has been reported.
    """

    message: str | None
    since: float
    patience: float
    reported: bool = False


@dataclass(eq=False)
class Directory:
    """Who lives at which node id, for one run of the ServerApp.

    Attributes:
        timeout: seconds after which the first request to a node counts as lost; each further one is
            given twice as long.
        asks: whether nodes are asked at all.
    """

    timeout: float = 60.0
    asks: bool = True
    _known: dict[int, Key] = field(default_factory=dict)
    _requests: dict[int, _Request] = field(default_factory=dict)
    _waited: set[int] = field(default_factory=set)  # nodes that a round has waited for
    _replaced: dict[int, int] = field(
        default_factory=dict
    )  # a node id -> the newer one that reported the same key
    _repeats: dict[int, tuple[int, int]] = field(
        default_factory=dict
    )  # a node id -> (round to ask it in again, interval)
    _spelt: dict[str, Key] = field(
        default_factory=dict
    )  # a key as text -> as it was first told: 3 and "3" are one client
    _has_handler: bool | None = (
        None  # whether the ClientApp answers; all nodes of a run have the same one
    )

    def resolve(
        self, grid: Grid, online: Iterable[int], *, round: int, deadline: float
    ) -> Resolved:
        """The nodes on line by client key, and what came in since the last call.

        A node that has not said who it is is left out. Nodes met for the first time are waited for,
        at most `timeout` seconds and until `deadline` (of `time.monotonic`); the others' answers
        are taken in passing. Of the first nodes one is asked alone, so that a ClientApp without
        `describe` fails on one node and not on all. A node whose answer does not come is asked
        again after intervals that double. One whose `describe` failed in part is asked again in
        later rounds, at distances that double.

        Where a second node reports the key of one that is still listed (a client that was killed
        and restarted is listed for up to a minute more), the newer one takes its place and the
        older one is asked again: only if it answers are there two.

        Raises:
            RunError: two live nodes have one client key.
        """
        nodes = set(online)
        self._forget(nodes)
        described: list[tuple[int, Description]] = []
        lost = self._lost()
        self._ask_again(grid)
        strangers = sorted(nodes - self._known.keys() - self._requests.keys())
        if len(strangers) > 1 and self.asks and self._has_handler is None:
            self._ask(grid, strangers[:1])
            described += self._gather(
                grid, round, deadline=min(deadline, time.monotonic() + _PROBE * self.timeout)
            )
            strangers = strangers[1:]
        if self.asks and self._has_handler is not False:
            self._ask(grid, strangers)
        else:
            why = "their ClientApp has no answer" if self.asks else "nodes are not asked"
            described += [
                (node, Description(_fallback_key(grid, node), unnamed=why)) for node in strangers
            ]
        due = [
            node
            for node, (when, _) in self._repeats.items()
            if when <= round and node not in self._requests
        ]
        self._ask(grid, [node for node in due if node not in self._replaced])
        described += self._gather(
            grid, round, deadline=min(deadline, time.monotonic() + self.timeout)
        )
        lost += self._lost()
        self._waited |= nodes
        fresh = {node for node, _ in described if node not in self._known}
        for node, description in described:
            self._known[node] = description.key
        self._replace_older(grid, nodes, fresh)
        if self.asks:
            _warn_of_unnamed(dict(described))
        told = sorted(
            (description for _, description in described),
            key=lambda one: (isinstance(one.key, str), one.key),
        )
        return Resolved(
            self.listed(nodes), told, lost
        )  # by key, since the order of node ids and of answers is chance

    def listed(self, online: Iterable[int]) -> dict[Key, int]:
        """Client key -> node id of the nodes on line that have said who they are."""
        return {
            self._known[node]: node
            for node in sorted(online)
            if node in self._known and node not in self._replaced
        }

    def _forget(self, nodes: set[int]) -> None:
        """A node that is off line may never have received its request: it is asked again when it comes back."""
        self._requests = {
            node: request for node, request in self._requests.items() if node in nodes
        }
        self._replaced = {
            old: new for old, new in self._replaced.items() if old in nodes and new in nodes
        }
        self._repeats = {node: when for node, when in self._repeats.items() if node in nodes}

    def _ask(self, grid: Grid, nodes: list[int], *, patience: float | None = None) -> None:
        if not nodes:
            return
        seconds = self.timeout if patience is None else patience
        made = [
            resend(
                Message(RecordDict(), node, DESCRIBE),
                timeout=_LONGEST * self.timeout,
                group="describe",
            )
            for node in nodes
        ]
        now = time.monotonic()
        for identifier, node in zip(grid.push_messages(made), nodes, strict=False):
            self._requests[node] = _Request(identifier or None, now, seconds)

    def _overdue(self) -> list[tuple[int, _Request]]:
        """Requests that count as lost, though a late answer is still welcome."""
        now = time.monotonic()
        requests = [
            (node, request)
            for node, request in self._requests.items()
            if node not in self._replaced
        ]
        return [
            (node, request) for node, request in requests if now - request.since >= request.patience
        ]

    def _lost(self) -> list[tuple[int, str]]:
        """Nodes that have not said who they are in time, each request once."""
        lost = []
        for node, request in self._overdue():
            if node not in self._known and not request.reported:
                request.reported = True
                lost.append(
                    (
                        node,
                        f"node {node} has not said which client it is within {request.patience:g} s",
                    )
                )
        return lost

    def _ask_again(self, grid: Grid) -> None:
        for node, request in self._overdue():
            if node in self._known:  # it was asked again for what it could not tell the first time
                del self._requests[node]
                self._postpone(node)
            else:
                self._ask(grid, [node], patience=min(2 * request.patience, _LONGEST * self.timeout))

    def _postpone(self, node: int, round: int | None = None) -> None:
        """Ask a node again in a later round, at twice the distance of the last time."""
        when, interval = self._repeats.get(node, (0 if round is None else round, 1))
        start = when if round is None else round
        self._repeats[node] = (start + interval, 2 * interval)

    def _gather(self, grid: Grid, round: int, *, deadline: float) -> list[tuple[int, Description]]:
        """Take the answers that have come; wait only for nodes that have never been waited for."""
        described: list[tuple[int, Description]] = []
        for _ in pauses(deadline):
            node_of = {
                request.message: node
                for node, request in self._requests.items()
                if request.message is not None
            }
            if node_of:
                for reply in grid.pull_messages(list(node_of)):
                    node = node_of.get(reply.metadata.reply_to_message_id)
                    if node is None or node not in self._requests:
                        continue
                    if (description := self._read(grid, node, reply, round)) is not None:
                        described.append((node, description))
            if (
                not {
                    node for node, request in self._requests.items() if request.message is not None
                }
                - self._waited
            ):
                break
        return described

    def _read(self, grid: Grid, node: int, reply: Message, round: int) -> Description | None:
        """What a reply says; None where it says nothing new, or the node could not be reached and is asked again."""
        request = self._requests[node]
        if reply.has_error() and (not from_client(reply) or node in self._replaced):
            request.message = None  # until the next request, see `_ask_again`
            request.patience = min(request.patience, max(1.0, time.monotonic() - request.since))
            return None
        del self._requests[node]
        if reply.has_error():
            reason = reply.error.reason or ""
            if _NO_HANDLER in reason and self._has_handler is None:
                self._has_handler = False
                _logger.warning(
                    "the ClientApp does not call fedgs.flower.describe(app), which an error in the log of node %d says too; no "
                    "other node is asked which client it is",
                    node,
                )
            if node in self._known and _NO_HANDLER in reason:
                self._repeats.pop(node, None)
                return None
            if _NO_HANDLER not in reason:
                self._postpone(node, round)
            if node in self._known:
                return None
            return Description(_fallback_key(grid, node), unnamed=_last_line(reason))
        self._has_handler = True
        if node in self._replaced:
            self._refuse_twins(self._known[node], node, self._replaced[node])
        told: Any = reply.content.config_records.get(RECORD, {})
        errors = tuple(str(error) for error in told.get(ERRORS, ()))
        if errors:
            self._postpone(node, round)
        else:
            self._repeats.pop(node, None)
        key, unnamed = told.get("client-key"), None
        if key is None:
            key, unnamed = _fallback_key(grid, node), "neither client-id nor partition-id is set"
        key = self._spelt.setdefault(str(key), key)
        return Description(key, told.get("data-size"), told.get("feature"), errors, unnamed)

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
                self._repeats.pop(older, None)
                self._ask(grid, [older])
            holder[self._known[node]] = node

    def _refuse_twins(self, key: Key, first: int, second: int) -> None:
        raise RunError(
            f"client key {key!r} is held by two live nodes ({first} and {second}); give every SuperNode a client-id of its own"
        )


def _last_line(text: str) -> str:
    return text.strip().splitlines()[-1] if text.strip() else "no reason given"


def _fallback_key(grid: Grid, node: int) -> Key:
    """The node's public key where Flower tells it, else its id: neither survives a restart without a registered key."""
    nodes = grid.get_nodes() if hasattr(grid, "get_nodes") else ()
    public_key = next(
        (getattr(info, "public_key", b"") for info in nodes if info.node_id == node), b""
    )
    return f"key-{hashlib.sha256(public_key).hexdigest()[:16]}" if public_key else f"node-{node}"


def _warn_of_unnamed(described: Mapping[int, Description]) -> None:
    """One line for all nodes that are known by their node id, which does not survive a restart."""
    reasons: dict[str, list[Key]] = {}
    for node, one in sorted(described.items()):
        if one.unnamed is not None and one.key == f"node-{node}":
            reasons.setdefault(one.unnamed, []).append(one.key)
    for why, keys in reasons.items():
        _logger.warning(
            "nodes do not say which clients they are (%s), so each is a client of its own until it restarts: %s; set client-id "
            "in its node configuration and add fedgs.flower.describe(app) to the ClientApp",
            why,
            listed(keys),
        )
