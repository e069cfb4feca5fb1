"""A round on its way: what was sent to whom, what came back, what went wrong, and how long it took."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

from fedgs.arrays import AnyArray
from fedgs.clients import Selection, View
from fedgs.flower.exchange import exchange, resend
from fedgs.flower.replies import LOSSES, Reply, examined, first_metric

__all__ = ["InFlight", "asked_losses"]


@dataclass(eq=False)
class InFlight:
    """The round between `configure_train` and `aggregate_train`."""

    sent: dict[str, AnyArray] = field(default_factory=dict)
    view: View | None = None
    selection: Selection | None = None
    available: list[int] = field(default_factory=list)
    messages: dict[int, Message] = field(default_factory=dict)  # row -> message
    replies: dict[int, Reply] = field(default_factory=dict)  # row -> its reply with the verdict
    events: list[dict[str, Any]] = field(default_factory=list)
    gave_up: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    started: float = field(default_factory=time.perf_counter)
    _rows: dict[str, int] = field(default_factory=dict)

    def row_of(self, reply: Message) -> int | None:
        """Whose reply it is, by the message it replies to: an error reply may come from the SuperLink itself."""
        if not self._rows:  # the messages have their ids once they are sent
            identifiers = {row: message.metadata.message_id for row, message in self.messages.items()}
            self._rows = {identifier: row for row, identifier in identifiers.items() if identifier}
        return self._rows.get(reply.metadata.reply_to_message_id)

    def lap(self, phase: str) -> None:
        """Book the seconds since the last lap under `phase`."""
        now = time.perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self.started
        self.started = now


def asked_losses(
    grid: Grid,
    inner: Any,
    *,
    arrays: ArrayRecord,
    nodes: Mapping[int, int],
    rows: Iterable[int],
    config: ConfigRecord,
    timeout: float,
) -> dict[int, float]:
    """Row -> local loss of the current model, for a sampler that asks for losses; NaN for a client that told none in time.

    The clients are asked through their own `evaluate` handler; the configuration says under "loss-on" which part is meant.
    """
    content = RecordDict({inner.arrayrecord_key: arrays, inner.configrecord_key: config})
    group = str(config["server-round"])
    messages = {row: resend(Message(content, nodes[row], MessageType.EVALUATE), timeout=timeout, group=group) for row in rows}
    flight, losses = InFlight(messages=messages), dict.fromkeys(messages, np.nan)
    for message in exchange(grid, messages.values(), timeout=timeout):
        row = flight.row_of(message)
        loss = first_metric(examined(message, weighted_by_key=inner.weighted_by_key, sent=None).metrics, LOSSES)
        if row is not None and loss is not None:
            losses[row] = loss
    return losses
