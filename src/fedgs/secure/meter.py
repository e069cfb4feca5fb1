"""What a secure computation costs and who fails in it: the one place that sends messages to parties."""

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
    """What a computation cost.

    Attributes:
        exchanges: how often the server waited for replies; 4 for all pairs when nobody fails.
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
    """Who went away, at which step, and why; `client` is None for the named dealer."""

    client: int | None
    step: str
    exception: Exception

    def __str__(self) -> str:
        who = "the named dealer" if self.client is None else f"client {self.client}"
        return f"{who} failed at step '{self.step}': {self.exception!r}"


class Meter:
    """Asks parties and counts: messages, bytes, seconds by role, and who did not answer."""

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
        """The result of a step of the server's, with its seconds counted."""
        began = time.perf_counter()
        try:
            return step()
        finally:
            self.seconds["server"] += time.perf_counter() - began

    @property
    def cost(self) -> Cost:
        """What was counted since `start`."""
        return Cost(self.exchanges, self.messages, self.bytes, dict(self.seconds))

    def ask(self, mail: Mapping[int, bytes], step: str, role: str) -> dict[int, bytes]:
        """Each party's reply.

        A party that raises has none, is noted, and is not asked again. A refused message is not a
        failure: it is raised.
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
        """Add messages that went one way or the other; an empty one is none."""
        self.messages += sum(message != b"" for message in messages)
        self.bytes += sum(map(len, messages))
