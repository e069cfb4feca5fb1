"""The client's half of aggregations with a state for each client: SCAFFOLD, FedDyn, MIFA, FedAWE.

A training request names the aggregation, the deployment, the round and the version of the state
that the server counts on: the last round whose reply of this client entered the model. A client
keeps that version and the one of its last reply, so that a reply that the server did not use leaves
no trace.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType

from fedgs.arrays import AnyArray
from fedgs.errors import ConfigError
from fedgs.flower.kept import Kept, fits
from fedgs.flower.names import RECORD
from fedgs.flower.task import Task

__all__ = ["LOST", "OFFSETS", "RATE", "SHARED", "STEPS", "STORED", "client_state", "offsets"]

SHARED, STORED, OFFSETS = f"{RECORD}.shared", f"{RECORD}.stored", f"{RECORD}.offsets"
LOST = "lost"
RATE, STEPS = "learning-rate", "local-steps"  # metrics of a reply

Arrays = Mapping[str, AnyArray]
Call = Callable[[Message, Context], Message]


def client_state(message: Message, context: Context, call_next: Call) -> Message:
    """A Flower mod that keeps the state of an aggregation: `ClientApp(mods=[client_state])`.

    It changes training requests of aggregations with a state for each client and passes on all
    other messages. The state is kept in the context; with `state-dir` in the node's configuration
    it is kept in a file of that folder, which survives restarts.

    For SCAFFOLD and FedDyn the training function adds `offsets(message)` to its gradients. For
    SCAFFOLD its metrics report "learning-rate" and "local-steps", for MIFA by gradients
    "learning-rate".

    Args:
        message: from the server.
        context: of the client.
        call_next: the rest of the ClientApp.

    Raises:
        ConfigError: an unknown aggregation, or a training function that does not read the offsets.
        OSError: the file of the state cannot be written.

    >>> from flwr.clientapp import ClientApp
    >>> app = ClientApp(mods=[client_state])
    """
    if not message.has_content() or message.metadata.message_type != MessageType.TRAIN:
        return call_next(message, context)
    request = message.content.config_records.get(RECORD)
    if request is None or "aggregation" not in request:
        return call_next(message, context)
    work = _Work(message, context, Task.read(request))
    if work.task.aggregation == "postponed":
        return work.caught_up(call_next)
    return work.trained(call_next)


class _Offsets(ArrayRecord):  # type: ignore[misc, unused-ignore]
    """Notes whether it was read."""

    read = False


def offsets(message: Message) -> dict[str, AnyArray]:
    """What the training function adds to the gradients of the parameters, by name.

    Args:
        message: the training request.

    Returns:
        Arrays of the parameters' shapes; empty where the aggregation has no offsets.

    >>> from types import SimpleNamespace
    >>> from flwr.app import RecordDict
    >>> offsets(SimpleNamespace(content=RecordDict()))
    {}
    """
    record = message.content.array_records.get(OFFSETS)
    if record is None:
        return {}
    if isinstance(record, _Offsets):
        record.read = True
    return {name: array.numpy() for name, array in record.items()}


@dataclass(eq=False)
class _Work:
    """One training request of an aggregation with a state."""

    message: Message
    context: Context
    task: Task

    def __post_init__(self) -> None:
        task = self.task
        if task.aggregation not in _KINDS:
            known = ", ".join(_KINDS)
            raise ConfigError(
                f"this version of fedgs.flower.client_state knows the aggregations {known}; got "
                f"{task.aggregation!r}"
            )
        self.kept = Kept(self.context, task.run)
        self.key, record = next(
            (name, record)
            for name, record in self.message.content.array_records.items()
            if not name.startswith(f"{RECORD}.")
        )
        self.sent = _arrays(record)
        self.shared = _arrays(self.message.content.array_records.get(SHARED, {}))
        self.own: Arrays = {}  # the state before this round; empty for the first one
        self.lost = False
        if task.version >= 0:
            self.own = self.kept.load().get(task.version, {})
            held = task.aggregation in ("gossip", "postponed")
            self.lost = not fits(self.own, self.sent, list(self.sent) if held else task.names)
        if self.lost:
            self.own = {}
        self.before = task.version if self.own else -1

    def trained(self, call_next: Call) -> Message:
        """The reply of the training function, with the state before and after it."""
        if self.task.aggregation == "gossip":
            start = self.own or self.sent
            reply = self._called(call_next, start, {})
            if not _is_whole(reply, self.sent):
                return reply
            scale = self.task.numbers["rate"]
            if self.task.numbers["echo"]:
                scale *= self.task.round - self.before
            self._echoed(reply, start, scale)
            return self._answered(reply)
        own = {name: self._own(name) for name in self.task.names}
        reply = self._called(call_next, None, self._offsets(own))
        if not _is_whole(reply, self.sent):
            return reply
        local = _arrays(next(iter(reply.content.array_records.values())))
        updates = {
            name: local[name].astype(np.float64) - self.sent[name].astype(np.float64)
            for name in self.task.names
        }
        metrics: Mapping[str, object] = next(iter(reply.content.metric_records.values()), {})
        new = self._new(own, updates, metrics)
        if new is not None:
            kept = {self.task.version: self.own} if self.own else {}
            as_floats = {name: array.astype(np.float32) for name, array in new.items()}
            self.kept.replace({**kept, self.task.round: as_floats})
        if self.task.aggregation == "stale":
            reply.content[STORED] = _record(own)
        return self._answered(reply)

    def caught_up(self, call_next: Call) -> Message:
        """The reply after the local trainings of all rounds since the model was received."""
        start: Arrays = self.own or self.sent
        reply = None
        for round in range(self.before + 1, self.task.round + 1):
            if reply is not None:
                start = _arrays(next(iter(reply.content.array_records.values())))
            reply = self._called(call_next, start, {}, round=round)
            if not _is_whole(reply, self.sent):
                return reply
        assert reply is not None
        self._echoed(reply, start, self.task.numbers["rate"])
        return self._answered(reply)

    def _own(self, name: str) -> AnyArray:
        """An array of the state; zero before the first one."""
        if name in self.own:
            return self.own[name].astype(np.float64)
        return np.zeros(self.sent[name].shape)

    def _offsets(self, own: Arrays) -> Arrays:
        if self.task.aggregation == "scaffold":
            return {name: self.shared[name] - own[name] for name in self.task.names}
        if self.task.aggregation == "feddyn":
            return {name: -own[name] for name in self.task.names}
        return {}

    def _new(self, own: Arrays, updates: Arrays, metrics: Mapping[str, object]) -> Arrays | None:
        """The next state; None where a metric is missing: the server refuses the reply."""
        if self.task.aggregation == "feddyn":
            alpha = self.task.numbers["alpha"]
            return {name: own[name] - alpha * updates[name] for name in self.task.names}
        scale = 1.0
        for metric in self.task.metrics:
            value = metrics.get(metric)
            if not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
                return None
            scale *= value
        if self.task.aggregation == "stale":
            return {name: updates[name] / scale for name in self.task.names}
        return {
            name: own[name] - self.shared[name] - updates[name] / scale for name in self.task.names
        }

    def _called(
        self, call_next: Call, start: Arrays | None, changes: Arrays, *, round: int | None = None
    ) -> Message:
        """The training function's reply to the request with another start, offsets and round."""
        content = self.message.content
        if start is not None:
            content[self.key] = _record(start, like=self.sent)
        if changes:
            content[OFFSETS] = _Offsets(
                {
                    name: Array(np.asarray(array.astype(self.sent[name].dtype)))
                    for name, array in changes.items()
                }
            )
        if round is not None:
            for config in content.config_records.values():
                if "server-round" in config:
                    config["server-round"] = round + 1
        reply = call_next(self.message, self.context)
        read = content.array_records.get(OFFSETS)
        if isinstance(read, _Offsets) and not read.read and reply.has_content():
            raise ConfigError(
                f"the training function of aggregation {self.task.aggregation!r} must add "
                "fedgs.flower.offsets(message) to its gradients; it did not read them"
            )
        return reply

    def _echoed(self, reply: Message, start: Arrays, scale: float) -> None:
        """Replace the local model y by start + scale (y - start), and tell the start if asked."""
        if self.task.tells_start:
            told = {name: start[name] for name in self.task.names}
            reply.content[STORED] = _record(told, like=self.sent)
        if scale == 1.0:
            return
        name = next(name for name in reply.content.array_records if name != STORED)
        record = reply.content.array_records[name]
        local, moved = _arrays(record), dict(_arrays(record))
        for entry in self.task.names:
            from_ = start[entry].astype(np.float64)
            with np.errstate(over="ignore"):  # the server refuses numbers that are not finite
                moved[entry] = from_ + scale * (local[entry].astype(np.float64) - from_)
        reply.content[name] = _record(moved, like=local)

    def _answered(self, reply: Message) -> Message:
        reply.content[RECORD] = ConfigRecord(
            {"aggregation": self.task.aggregation, LOST: self.lost}
        )
        return reply


_KINDS = ("scaffold", "feddyn", "stale", "gossip", "postponed")


def _arrays(record: Mapping[str, Array]) -> dict[str, AnyArray]:
    return {name: array.numpy() for name, array in record.items()}


def _record(arrays: Arrays, *, like: Arrays | None = None) -> ArrayRecord:
    """A record of float32 arrays, or of the types of others."""
    with np.errstate(over="ignore"):
        return ArrayRecord(
            {
                name: Array(
                    np.asarray(array.astype(np.float32 if like is None else like[name].dtype))
                )
                for name, array in arrays.items()
            }
        )


def _is_whole(reply: Message, sent: Arrays) -> bool:
    """Whether a reply holds a model of the right names and shapes; the server refuses others."""
    if not reply.has_content() or len(reply.content.array_records) != 1:
        return False
    local = _arrays(next(iter(reply.content.array_records.values())))
    return fits(local, sent, list(sent))
