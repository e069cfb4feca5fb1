"""A round in progress: its requests, its replies, and the seconds of its phases."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from flwr.app import Message

from fedgs.arrays import AnyArray, FloatArray
from fedgs.clients import Outcome, Selection, View
from fedgs.flower.exchange import from_client
from fedgs.flower.replies import Reply, array_records
from fedgs.flower.roster import Key
from fedgs.flower.spool import Spool
from fedgs.records import Record

__all__ = ["InFlight", "ModelMetrics", "round_time"]


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
        spool: keeps the arrays of replies.
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
        begun: when the round began.
        clock: seconds of the deployment until then.
        pushed: when the requests were sent; None: they were not.
        took: row -> seconds from the requests to the reply.
        traffic: bytes of the arrays in requests and replies.
        ended: what ended the wait: "target", "deadline" or "nobody"; None: nothing was sent.
        ended_at: when the wait ended (of `time.perf_counter`).
    """

    sent: dict[str, AnyArray] = field(default_factory=dict)
    examine: Callable[[Message], Reply] | None = None
    spool: Spool = field(default_factory=Spool)
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
    begun: float = field(default_factory=time.perf_counter)
    clock: float = 0.0
    pushed: float | None = None
    took: dict[int, float] = field(default_factory=dict)
    traffic: int = 0
    ended: str | None = None
    ended_at: float = field(default_factory=time.perf_counter)
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
            if self.pushed is not None:
                self.took[row] = time.perf_counter() - self.pushed
            self.traffic += bytes_of(message)
            reply = self.replies[row] = self.examine(message)
            if reply.refused is None:
                reply.replace_arrays(self.spool.kept)
            else:
                reply.drop_arrays()
        return self.replies[row].refused is None

    def sending(self) -> None:
        """The requests are sent now."""
        self.pushed = time.perf_counter()
        sizes: dict[int, int] = {}  # by content, which messages share
        for message in self.messages.values():
            content = id(message.content)
            if content not in sizes:
                sizes[content] = bytes_of(message)
            self.traffic += sizes[content]

    def fates(self, rows: Sequence[int]) -> list[str]:
        """What became of each client of the cohort, in the words of a simulation with a clock.

        "answered": its reply is valid; "failed": it raised an error or its reply was refused;
        "gone": the SuperLink answered for it; "late": no reply.
        """
        words = []
        for row in rows:
            reply = self.replies.get(row)
            if reply is None:
                words.append("late")
            elif reply.refused is None:
                words.append("answered")
            else:
                words.append("failed" if from_client(reply.message) else "gone")
        return words

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
        rows = [] if chosen is None else chosen.clients.tolist()
        seconds = time.perf_counter() - self.begun
        waited = 0.0 if self.pushed is None else self.ended_at - self.pushed
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
            clock=round_time(self.clock),
            seconds=round_time(seconds),
            fates=self.fates(rows),
            worked=[round_time(self.took.get(row, waited)) for row in rows],
            traffic=self.traffic,
            ended=self.ended if rows else None,
        )


def bytes_of(message: Message) -> int:
    """Bytes of the arrays of a message."""
    records = array_records(message)
    return sum(len(array.data) for record in records for array in record.values())


def round_time(seconds: float) -> float:
    """Seconds, to a microsecond."""
    return round(seconds, 6)
