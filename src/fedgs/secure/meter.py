"""The one place that sends messages to parties: it counts what they cost and notes failures."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from fedgs.errors import ProtocolError
from fedgs.secure.wire import DEALER

__all__ = ["Answer", "Cost", "Meter", "PartyFailure"]

T = TypeVar("T")
Answer = Callable[[bytes], bytes]  # sends a message to a party and returns its reply


@dataclass(frozen=True)
class Cost:
    """The cost of a computation.

    Attributes:
        exchanges: how often the server waited for replies; 4 for all pairs if no party fails.
        messages: messages between the server and the parties, both ways.
        bytes: their total length.
        seconds: computing time by role: "client", "dealer", "server", each summed over all parties.
    """

    exchanges: int = 0
    messages: int = 0
    bytes: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class PartyFailure:
    """A party that stopped answering.

    Attributes:
        client: its number, or None for the named dealer.
        step: the step at which it failed.
        exception: what it raised.
    """

    client: int | None
    step: str
    exception: Exception

    def __str__(self) -> str:
        who = "the named dealer" if self.client is None else f"client {self.client}"
        return f"{who} failed at step '{self.step}': {self.exception!r}"


class Meter:
    """Sends messages to parties and counts messages, bytes, seconds by role and failures.

    Args:
        endpoints: party -> how to send a message to it.
    """

    def __init__(self, endpoints: Mapping[int, Answer]) -> None:
        self._endpoints = endpoints
        self._gone: set[int] = set()
        self.start()

    def start(self) -> None:
        """Count from zero."""
        self.exchanges = self.messages = self.bytes = 0
        self.seconds = {"client": 0.0, "dealer": 0.0, "server": 0.0}
        self.failures: list[PartyFailure] = []

    def serve(self, step: Callable[[], T]) -> T:
        """Run a step of the server and count its seconds."""
        began = time.perf_counter()
        try:
            return step()
        finally:
            self.seconds["server"] += time.perf_counter() - began

    @property
    def cost(self) -> Cost:
        """The cost since `start`."""
        return Cost(self.exchanges, self.messages, self.bytes, dict(self.seconds))

    def ask(self, mail: Mapping[int, bytes], step: str, role: str) -> dict[int, bytes]:
        """Send each party its message and return the replies.

        A party that raises has no reply, is noted as failed, and gets no further messages. A
        refused message is not a failure: its `ProtocolError` is raised.
        """
        began, replies = time.perf_counter(), {}
        for party, message in mail.items():
            if party in self._gone:
                continue
            try:
                replies[party] = self._endpoints[party](message)
            except ProtocolError:
                raise
            except Exception as error:
                self._gone.add(party)
                self.failures.append(PartyFailure(None if party == DEALER else party, step, error))
            else:
                self.count(message, replies[party])
        self.seconds[role] += time.perf_counter() - began
        return replies

    def count(self, *messages: bytes) -> None:
        """Count messages of either direction; an empty one does not count."""
        self.messages += sum(message != b"" for message in messages)
        self.bytes += sum(map(len, messages))
