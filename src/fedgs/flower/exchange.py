"""Messages to nodes and back.

Every wait has a deadline, and a failure is attributed to the node of the message it replies to.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

if TYPE_CHECKING:  # where newer Flower has them; older versions have them elsewhere
    from flwr.proto.node_pb2 import NodeInfo
    from flwr.supercore.run import Run

__all__ = [
    "CohortGrid",
    "DeadlineGrid",
    "Patience",
    "exchange",
    "from_client",
    "pauses",
    "push",
    "resend",
]

_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 0.01, 1.0, 1.5
# A message lives a little longer than the wait for its reply, so that the wait ends at our own
# deadline, which is reported.
_SPARE_SECONDS = 30.0
# Clients that did not answer the last time are waited for as long again as the others needed; if
# there are no others, for this share of the deadline.
_SHORT_WAIT = 0.1
# Flower's codes for a ClientApp that could not be loaded or that raised: the node is alive. Other
# errors come from the SuperLink.
_APP_ERRORS = (1, 2)


def pauses(deadline: float) -> Iterator[None]:
    """Sleep a little longer each time until `deadline` (of `time.monotonic`); yields at least once.

    >>> len(list(pauses(time.monotonic() - 1)))
    1
    """
    pause = _FIRST_PAUSE
    yield
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(min(pause, left))
        pause = min(pause * _GROWTH, _LONGEST_PAUSE)
        yield


def exchange(
    grid: Grid,
    messages: Iterable[Message],
    *,
    timeout: float,
    enough: int | None = None,
    accept: Callable[[Message], bool] | None = None,
    doubtful: Collection[int] = (),
    at_once: int | None = None,
) -> list[Message]:
    """Send messages and collect the replies.

    It ends when all replies or `enough` acceptable ones have arrived, or at the deadline.

    Args:
        grid: connects to the nodes.
        messages: one for each node.
        timeout: the most seconds to wait.
        enough: how many acceptable replies suffice; None: all.
        accept: which replies count; None: those without an error.
        doubtful: node ids that are not waited for until the deadline: only as long again as the
            others needed or, if there are no others, for a tenth of the timeout.
        at_once: how many replies are received before they are accepted; None: all that arrived.

    Returns:
        All replies that arrived, including errors.
    """
    sent = list(messages)
    if not sent:
        return []
    begun = time.monotonic()
    node_of = {
        identifier: message.metadata.dst_node_id for identifier, message in push(grid, sent).items()
    }
    waiting = dict.fromkeys(node_of)  # in the order of the messages
    trusted = {identifier for identifier, node in node_of.items() if node not in doubtful}
    replies: list[Message] = []
    accepted = 0
    until = None if trusted else begun + timeout * _SHORT_WAIT
    for _ in pauses(begun + timeout):
        for identifiers in _parts(list(waiting), at_once):
            for reply in grid.pull_messages(identifiers):
                waiting.pop(reply.metadata.reply_to_message_id, None)
                replies.append(reply)
                accepted += accept(reply) if accept is not None else reply.has_content()
            if enough is not None and accepted >= enough:
                return replies
        if not waiting:
            break
        if trusted.isdisjoint(waiting):
            now = time.monotonic()
            until = 2 * now - begun if until is None else until
            if now >= until:
                break
    return replies


def push(grid: Grid, messages: Sequence[Message]) -> dict[str, Message]:
    """Send messages; returns those that are on their way by id, in their order.

    The SuperLink takes no message to a node that was unregistered. Some grids then return an empty
    id and others none, so a message is found by the id that it was given.

    Args:
        grid: connects to the nodes.
        messages: one for each node.
    """
    taken = {identifier for identifier in grid.push_messages(messages) if identifier}
    return {
        message.metadata.message_id: message
        for message in messages
        if message.metadata.message_id in taken
    }


def _parts(identifiers: list[str], size: int | None) -> Iterator[list[str]]:
    size = size or max(1, len(identifiers))
    for start in range(0, len(identifiers), size):
        yield identifiers[start : start + size]


def from_client(reply: Message) -> bool:
    """Whether the client itself answered, even with an error, and not the SuperLink for it."""
    return bool(reply.has_content() or reply.error.code in _APP_ERRORS)


@dataclass(eq=False)
class Patience:
    """Waits for a client that never answers until the deadline once, not in every round.

    Attributes:
        silent: node ids that did not answer the last time. They are asked like the others, but
            waited for only briefly until they answer. A restarted client has another node id and is
            waited for again.
    """

    silent: set[int] = field(default_factory=set)

    def exchange(self, grid: Grid, messages: Iterable[Message], *, timeout: float) -> list[Message]:
        """Like the function `exchange`, with the silent nodes as the doubtful ones."""
        sent = list(messages)
        replies = exchange(grid, sent, timeout=timeout, doubtful=self.silent)
        answered = {reply.metadata.reply_to_message_id for reply in replies if from_client(reply)}
        for message in sent:
            if message.metadata.message_id in answered:
                self.silent.discard(message.metadata.dst_node_id)
            else:
                self.silent.add(message.metadata.dst_node_id)
        return replies


def resend(
    message: Message, *, timeout: float, group: str, content: RecordDict | None = None
) -> Message:
    """The same message with a lifetime that fits the deadline.

    So no node works on it long after the end of the round.

    Args:
        message: what is sent.
        timeout: seconds to wait for the reply.
        group: of messages.
        content: in place of the message's own.
    """
    ttl = min(message.metadata.ttl, timeout + _SPARE_SECONDS)
    return Message(
        message.content if content is None else content,
        message.metadata.dst_node_id,
        message.metadata.message_type,
        ttl=ttl,
        group_id=group,
    )


class ForwardingGrid(Grid):  # type: ignore[misc, unused-ignore]
    """A Grid that forwards all calls to another one; the base of those below."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def __getattr__(self, name: str) -> object:
        return getattr(self._grid, name)

    def set_run(self, run: "Run") -> None:
        self._grid.set_run(run)

    @property
    def run(self) -> "Run":
        return self._grid.run

    def create_message(self, *arguments: Any, **named: Any) -> Message:
        return self._grid.create_message(*arguments, **named)

    def get_node_ids(self) -> Iterable[int]:
        nodes: Iterable[int] = self._grid.get_node_ids()
        return nodes

    def get_nodes(self) -> Iterable["NodeInfo"]:
        """Flower's information about its nodes; none before 1.38."""
        return self._grid.get_nodes() if hasattr(self._grid, "get_nodes") else ()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        ids: Iterable[str] = self._grid.push_messages(messages)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        replies: Iterable[Message] = self._grid.pull_messages(message_ids)
        return replies

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        replies: Iterable[Message] = self._grid.send_and_receive(messages, timeout=timeout)
        return replies


class CohortGrid(ForwardingGrid):
    """A Grid that lists the cohort only.

    A strategy that takes all nodes it sees takes the cohort, and never waits.

    Args:
        grid: the real one.
        node_ids: of the cohort.
    """

    def __init__(self, grid: Grid, node_ids: Sequence[int]) -> None:
        super().__init__(grid)
        self._node_ids = list(node_ids)

    def get_node_ids(self) -> list[int]:
        """The cohort's node ids."""
        return list(self._node_ids)

    def get_nodes(self) -> list["NodeInfo"]:
        """The cohort's nodes, if Flower reports more than their ids."""
        chosen = set(self._node_ids)
        return [node for node in super().get_nodes() if node.node_id in chosen]


class DeadlineGrid(ForwardingGrid):
    """A Grid with another `send_and_receive`, so that the round decides when replies suffice.

    Args:
        grid: the real one.
        exchange: grid, messages, timeout -> replies.
    """

    def __init__(
        self,
        grid: Grid,
        exchange: Callable[[Grid, Iterable[Message], float | None], list[Message]],
    ) -> None:
        super().__init__(grid)
        self._exchange = exchange

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """The replies that `exchange` waits for."""
        return self._exchange(self._grid, messages, timeout)
