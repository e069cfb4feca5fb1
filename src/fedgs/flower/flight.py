"""A round in progress: its requests, its replies, and the seconds of its phases."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from flwr.app import Message

from fedgs.arrays import AnyArray, FloatArray
from fedgs.clients import Outcome, Selection, View
from fedgs.flower.replies import Reply
from fedgs.flower.roster import Key
from fedgs.records import Record

__all__ = ["InFlight", "ModelMetrics"]


@dataclass(frozen=True)
class ModelMetrics:
    """Metrics of theta^t, None where it was not evaluated."""

    test_loss: float | None = None
    test_accuracy: float | None = None
    valid_loss: float | None = None


@dataclass(eq=False)
class InFlight:
    """The round between `configure_train` and `aggregate_train`.

    Attributes:
        sent: the global model by name.
        examine: checks a training reply on its own.
        view: what the sampler saw, or None where it was not asked.
        selection: the sampler's, or None likewise.
        outcome: the clients whose updates entered the average, with their weights; None: none did.
        averaged: whether the round has an average.
        available: rows of the available clients.
        messages: row -> request.
        replies: row -> its checked reply.
        limit: M of the round.
        aborted: whether the round keeps the model because clients or replies are missing.
        why: the reason.
        seconds: phase -> seconds.
        started: when the current phase began (of `time.perf_counter`).
    """

    sent: dict[str, AnyArray] = field(default_factory=dict)
    examine: Callable[[Message], Reply] | None = None
    view: View | None = None
    selection: Selection | None = None
    outcome: Outcome | None = None
    averaged: bool = False
    available: list[int] = field(default_factory=list)
    messages: dict[int, Message] = field(default_factory=dict)
    replies: dict[int, Reply] = field(default_factory=dict)
    limit: int | None = None
    aborted: bool = False
    why: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    started: float = field(default_factory=time.perf_counter)
    _rows: dict[str, int] = field(default_factory=dict)

    def row_of(self, reply: Message) -> int | None:
        """The client that a reply is of, or None if it replies to none of the messages.

        It is found by the message replied to, since an error may come from the SuperLink itself.
        """
        if not self._rows:  # the messages have their ids once they are sent
            identifiers = {
                row: message.metadata.message_id for row, message in self.messages.items()
            }
            self._rows = {identifier: row for row, identifier in identifiers.items() if identifier}
        return self._rows.get(reply.metadata.reply_to_message_id)

    def accepts(self, message: Message) -> bool:
        """Whether a training reply is valid on its own; the checked reply is stored."""
        row = self.row_of(message)
        if row is None or self.examine is None:
            return False
        if row not in self.replies:
            self.replies[row] = self.examine(message)
        return self.replies[row].refused is None

    def lap(self, phase: str) -> None:
        """Add the seconds since the last lap to those of `phase`."""
        now = time.perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self.started
        self.started = now

    def record(
        self, round: int, keys: Sequence[Key], *, weights: FloatArray, metrics: ModelMetrics
    ) -> Record:
        """The record of the round.

        Args:
            round: t.
            keys: client keys by row.
            weights: (m,) of the cohort.
            metrics: of the model before the round's update.
        """
        chosen = self.selection
        return Record(
            round=round,
            available=[keys[row] for row in self.available],
            num_available=len(self.available),
            cohort=[] if chosen is None else [keys[row] for row in chosen.clients.tolist()],
            draws=None if chosen is None or chosen.draws is None else chosen.draws.tolist(),
            weights=weights.tolist(),
            selection_status="skipped" if chosen is None else chosen.status,
            selection_objective=None if chosen is None else chosen.objective,
            selection_upper_bound=None if chosen is None else chosen.upper_bound,
            test_loss=metrics.test_loss,
            test_accuracy=metrics.test_accuracy,
            valid_loss=metrics.valid_loss,
        )
