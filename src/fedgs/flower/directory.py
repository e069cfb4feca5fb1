"""Node id -> client key.

A node is asked once for its key. A key that returns under another node id is the same client.
"""

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fedgs.errors import RunError
from fedgs.flower.client import DESCRIBE, ERRORS, RECORD
from fedgs.flower.descriptions import (
    Description,
    fallback_key,
    last_line,
    warn_of_unnamed,
)
from fedgs.flower.exchange import from_client, pauses, push, resend
from fedgs.flower.names import LONGEST_KEY
from fedgs.flower.roster import Key

__all__ = ["Directory", "Resolved"]

_logger = logging.getLogger(__name__)
# Share of the timeout that the first node is waited for before all others are asked too.
_PROBE = 0.5
# Intervals between two requests to one node double up to this many times the first.
_LONGEST = 16
# Flower's error for a ClientApp without `describe`. Flower gives it no code of its own, so the text
# is all there is to recognise it by.
_NO_HANDLER = "No query function registered"


class Resolved(NamedTuple):
    """The result of `Directory.resolve`.

    Attributes:
        node_of: client key -> node id.
        descriptions: those that arrived, ordered by key.
        lost: (node id, why) of nodes that have not reported their key in time.
    """

    node_of: dict[Key, int]
    descriptions: list[Description]
    lost: list[tuple[int, str]]


@dataclass(eq=False)
class _Request:
    """A request to a node that has not been answered yet.

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
    """Which client is at which node id, for one run of the ServerApp.

    Attributes:
        timeout: seconds after which the first request to a node counts as lost; each further one
            has twice as long.
        asks: whether nodes are asked at all.
        max_age: seconds after which a node is asked again; None: it is not.
    """

    timeout: float = 60.0
    asks: bool = True
    max_age: float | None = None
    # Node id -> its last description, and when it arrived (of `time.monotonic`).
    _said: dict[int, tuple[Description, float]] = field(default_factory=dict)
    _known: dict[int, Key] = field(default_factory=dict)
    _requests: dict[int, _Request] = field(default_factory=dict)
    # Nodes that a round has waited for.
    _waited: set[int] = field(default_factory=set)
    # Node id -> the newer one that reported the same key.
    _replaced: dict[int, int] = field(default_factory=dict)
    # Node id -> (round to ask it in again, interval).
    _repeats: dict[int, tuple[int, int]] = field(default_factory=dict)
    # A key as text -> as it was first reported: 3 and "3" are one client.
    _spelt: dict[str, Key] = field(default_factory=dict)
    # Whether the ClientApp answers; all nodes of a run have the same one.
    _has_handler: bool | None = None

    def resolve(
        self, grid: Grid, online: Iterable[int], *, round: int, deadline: float
    ) -> Resolved:
        """The available nodes by client key, and the descriptions since the last call.

        A node that has not reported its key is left out. Nodes met for the first time are waited
        for, at most `timeout` seconds and until `deadline` (of `time.monotonic`). The answers of
        others are read when they arrive. Of the first nodes one is asked alone, so that a ClientApp
        without `describe` fails on one node and not on all. A node that does not answer is asked
        again after intervals that double. One whose `describe` failed in part is asked again in
        later rounds, at intervals that double.

        A second node may report the key of one that is still listed: a client that was killed and
        restarted stays listed under its old node for up to a minute. The newer node then takes its
        place and the older one is asked again. Only if the older one answers are there two.

        Args:
            grid: connects to the nodes.
            online: ids of the nodes that are listed now.
            round: t.
            deadline: of `time.monotonic`.

        Raises:
            RunError: two live nodes have one client key.
        """
        nodes = set(online)
        self._forget(nodes)
        lost = self._lost()
        self._ask_again(grid)
        described = self._ask_strangers(grid, nodes, round, deadline=deadline)
        due = [
            node
            for node, (when, _) in self._repeats.items()
            if when <= round and node not in self._requests
        ]
        due += [node for node in self._aged(nodes) if node not in due]
        self._ask(grid, [node for node in due if node not in self._replaced])
        until = min(deadline, time.monotonic() + self.timeout)
        described += self._gather(grid, round, deadline=until)
        lost += self._lost()
        self._waited |= nodes
        fresh = {node for node, _ in described if node not in self._known}
        for node, description in described:
            self._known[node] = description.key
            self._said[node] = (description, time.monotonic())
        self._replace_older(grid, nodes, fresh)
        if self.asks:
            warn_of_unnamed(dict(described))
        # Ordered by key, since the order of node ids and of answers is random.
        descriptions = sorted(
            (description for _, description in described),
            key=lambda description: (isinstance(description.key, str), description.key),
        )
        return Resolved(self.listed(nodes), descriptions, lost)

    def listed(self, online: Iterable[int]) -> dict[Key, int]:
        """Client key -> node id of those of the nodes `online` that have reported their key."""
        return {
            self._known[node]: node
            for node in sorted(online)
            if node in self._known and node not in self._replaced
        }

    def said(self, node: int) -> Description | None:
        """What a node last said of itself."""
        return self._said[node][0] if node in self._said else None

    def _aged(self, nodes: set[int]) -> list[int]:
        """Nodes whose descriptions are older than `max_age`, and that are not being asked."""
        if self.max_age is None or not self.asks or self._has_handler is False:
            return []
        limit = time.monotonic() - self.max_age
        return [
            node
            for node, (_, when) in self._said.items()
            if when <= limit
            and node in nodes
            and node not in self._requests
            and node not in self._repeats
        ]

    def _ask_strangers(
        self, grid: Grid, nodes: set[int], round: int, *, deadline: float
    ) -> list[tuple[int, Description]]:
        """Ask the nodes that are met for the first time; returns what is known of them already."""
        described: list[tuple[int, Description]] = []
        strangers = sorted(nodes - self._known.keys() - self._requests.keys())
        if len(strangers) > 1 and self.asks and self._has_handler is None:
            self._ask(grid, strangers[:1])
            until = min(deadline, time.monotonic() + _PROBE * self.timeout)
            described += self._gather(grid, round, deadline=until)
            strangers = strangers[1:]
        if self.asks and self._has_handler is not False:
            self._ask(grid, strangers)
            return described
        why = "their ClientApp has no answer" if self.asks else "nodes are not asked"
        unnamed = [(node, Description(fallback_key(grid, node), unnamed=why)) for node in strangers]
        return described + unnamed

    def _forget(self, nodes: set[int]) -> None:
        """Drop requests to unavailable nodes.

        They may never have arrived; the node is asked again when it returns.
        """
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
        timeout = _LONGEST * self.timeout
        messages = [
            resend(Message(RecordDict(), node, DESCRIBE), timeout=timeout, group="describe")
            for node in nodes
        ]
        now = time.monotonic()
        sent = push(grid, messages)
        identifiers = {message.metadata.dst_node_id: name for name, message in sent.items()}
        for node in nodes:
            self._requests[node] = _Request(identifiers.get(node), now, seconds)

    def _overdue(self) -> list[tuple[int, _Request]]:
        """Requests that count as lost, though a late answer is still accepted."""
        now = time.monotonic()
        return [
            (node, request)
            for node, request in self._requests.items()
            if node not in self._replaced and now - request.since >= request.patience
        ]

    def _lost(self) -> list[tuple[int, str]]:
        """Nodes that have not reported their key in time, each request once."""
        lost = []
        for node, request in self._overdue():
            if node not in self._known and not request.reported:
                request.reported = True
                why = f"has not said which client it is within {request.patience:g} s"
                lost.append((node, f"node {node} {why}"))
        return lost

    def _ask_again(self, grid: Grid) -> None:
        for node, request in self._overdue():
            if node in self._known:  # it was asked again for what failed the first time
                del self._requests[node]
                self._postpone(node)
            else:
                self._ask(grid, [node], patience=min(2 * request.patience, _LONGEST * self.timeout))

    def _postpone(self, node: int, round: int | None = None) -> None:
        """Ask a node again in a later round, after twice the last interval."""
        when, interval = self._repeats.get(node, (0 if round is None else round, 1))
        start = when if round is None else round
        self._repeats[node] = (start + interval, 2 * interval)

    def _gather(self, grid: Grid, round: int, *, deadline: float) -> list[tuple[int, Description]]:
        """Read the answers that arrived; wait only for nodes that no round has waited for."""
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
            asked = {
                node for node, request in self._requests.items() if request.message is not None
            }
            if asked <= self._waited:
                break
        return described

    def _read(self, grid: Grid, node: int, reply: Message, round: int) -> Description | None:
        """The description in a reply.

        None if the reply adds nothing, or if the node could not be reached and is asked again.
        """
        request = self._requests[node]
        if reply.has_error() and (not from_client(reply) or node in self._replaced):
            request.message = None  # until the next request, see `_ask_again`
            request.patience = min(request.patience, max(1.0, time.monotonic() - request.since))
            return None
        del self._requests[node]
        if reply.has_error():
            return self._read_error(grid, node, reply.error.reason or "", round)
        self._has_handler = True
        if node in self._replaced:
            self._refuse_twins(self._known[node], node, self._replaced[node])
        entries: Mapping[str, object] = reply.content.config_records.get(RECORD, {})
        errors, size, feature = (entries.get(name) for name in (ERRORS, "data-size", "feature"))
        if errors:
            self._postpone(node, round)
        else:
            self._repeats.pop(node, None)
        battery, metered = entries.get("battery"), entries.get("metered")
        key, unnamed = entries.get("client-key"), None
        if not isinstance(key, str | int):
            key, unnamed = fallback_key(grid, node), "neither client-id nor partition-id is set"
        elif len(str(key)) > LONGEST_KEY:  # no node may make a roster that the others refuse
            key, unnamed = fallback_key(grid, node), f"its key has over {LONGEST_KEY} characters"
        return Description(
            key=self._spelt.setdefault(str(key), key),
            data_size=size if isinstance(size, int | float) else None,
            feature=feature if isinstance(feature, list) else None,
            errors=tuple(map(str, errors)) if isinstance(errors, list) else (),
            unnamed=unnamed,
            battery=battery if isinstance(battery, float) and 0 <= battery <= 1 else None,
            metered=metered if isinstance(metered, bool) else None,
        )

    def _read_error(self, grid: Grid, node: int, reason: str, round: int) -> Description | None:
        """A description in place of the one that the ClientApp failed to give, if it is needed."""
        no_handler = _NO_HANDLER in reason
        if no_handler and self._has_handler is None:
            self._has_handler = False
            _logger.warning(
                "the ClientApp does not call fedgs.flower.describe(app), which an error in the log "
                "of node %d says too; no other node is asked which client it is",
                node,
            )
        if not no_handler:
            self._postpone(node, round)
        if node in self._known:
            if no_handler:
                self._repeats.pop(node, None)
            return None
        return Description(fallback_key(grid, node), unnamed=last_line(reason))

    def _replace_older(self, grid: Grid, nodes: set[int], fresh: set[int]) -> None:
        """If two nodes reported one key, the later one replaces the older, which is asked again."""
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
            f"client key {key!r} is held by two live nodes ({first} and {second}); give every "
            "SuperNode a client-id of its own"
        )
