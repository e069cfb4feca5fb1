"""The reports of a deployment: lines in the log, and an event for each failure.

Flower counts rounds from 1, records count from 0. Log lines state both: "round 3 of 10 (record 2)".
"""

import json
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from fedgs.flower.roster import Key

__all__ = [
    "JSON_LOGGER",
    "LOGGER",
    "Event",
    "Journal",
    "Request",
    "listed",
    "without_sampling_lines",
]

LOGGER = logging.getLogger("fedgs.flower")
# One JSON object for each line, for programs. It passes nothing on, so that it needs a handler.
JSON_LOGGER = logging.getLogger("fedgs.flower.json")
JSON_LOGGER.propagate = False
JSON_LOGGER.setLevel(logging.INFO)
JSON_LOGGER.addHandler(logging.NullHandler())
_FLOWER = logging.getLogger("flwr")
_SHOWN = 10  # names in a log line

Request = Literal["train", "evaluate", "losses", "describe", "graph", "deliver"]
Event = dict[str, object]  # one line of `events.jsonl`

# The beginnings of FedAvg's log lines about its own choice of nodes and replies, which
# `SampledStrategy` makes in its place. Flower logs them under no name of their own, so they are
# recognised by their text; `test_flowers_own_log_says_nothing_untrue` fails if a version differs.
_INNER_LINES = (
    "configure_train: Sampled",
    "configure_evaluate: Sampled",
    "aggregate_train: Received",
    "aggregate_evaluate: Received",
    "\t├──> Sampling:",
    "\t│\t├──Fraction:",
    "\t│\t├──Minimum nodes:",
    "\t│\t└──Minimum available nodes:",
)


class Journal:
    """Collects events until they are written, and logs them.

    Attributes:
        events: those not yet written.
        last: the number of the last round requested, or None before `start`.

    >>> journal = Journal()
    >>> journal.last = 10
    >>> journal.event(2, "silent", "site-1", "no reply within 60 s")
    >>> journal.taken()
    [{'round': 2, 'client': 'site-1', 'event': 'silent', 'detail': 'no reply within 60 s'}]
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.last: int | None = None

    def place(self, record: int, request: Request = "train") -> str:
        """The round that a record belongs to, for a log line.

        The clients' evaluation ends a round; all other requests precede its update.
        """
        number = record if request == "evaluate" else record + 1
        return f"round {number}{'' if self.last is None else f' of {self.last}'} (record {record})"

    def event(
        self,
        record: int,
        kind: str,
        client: Key | None,
        detail: str,
        *,
        request: Request = "train",
        **more: object,
    ) -> None:
        """A client's answer to a request failed, or the whole round did.

        Args:
            record: t.
            kind: of the event, see `fedgs.flower.records`.
            client: its key; None for the whole round.
            detail: a sentence.
            request: what the client was asked for.
            more: further fields of the event.
        """
        about = "" if request == "train" else f" ({request})"
        who = f"client {client!r} {kind}" if client is not None else kind
        LOGGER.warning("%s: %s%s: %s", self.place(record, request), who, about, detail)
        entry: Event = {"round": record, "client": client, "event": kind, "detail": detail, **more}
        self._keep(entry if request == "train" else {**entry, "request": request})

    def aborted(self, record: int, why: str, clients: Sequence[Key]) -> None:
        """A round keeps the model because clients or replies are missing."""
        LOGGER.warning("%s: gave up, the model stays: %s", self.place(record), why)
        entry: Event = {"round": record, "client": None, "event": "gave_up", "detail": why}
        self._keep({**entry, "clients": list(clients)})

    def waiting(self, record: int, why: str, clients: Sequence[Key]) -> None:
        """A round has not begun, since clients are missing."""
        LOGGER.warning("%s: waits for clients: %s", self.place(record), why)
        entry: Event = {"round": record, "client": None, "event": "waiting", "detail": why}
        self._keep({**entry, "clients": list(clients)})

    def tell(self, record: int, kind: str, **fields: object) -> None:
        """An object for `JSON_LOGGER` that is no failure: what was selected, trained, evaluated.

        Args:
            record: t.
            kind: "selected", "trained" or "evaluated".
            fields: what it names.
        """
        _to_json({"round": record, "event": kind, **fields})

    def _keep(self, event: Event) -> None:
        self.events.append(event)
        _to_json(event)

    def line(self, record: int, text: str, *arguments: object, request: Request = "train") -> None:
        """A line that reports no failure."""
        LOGGER.info("%s: " + text, self.place(record, request), *arguments)

    def taken(self) -> list[Event]:
        """The events since the last call."""
        events, self.events = self.events, []
        return events

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Show information lines with Flower's own, unless the application has set up logging."""
        level = LOGGER.level
        added = [] if LOGGER.hasHandlers() else list(_FLOWER.handlers)
        if level == logging.NOTSET:
            LOGGER.setLevel(_FLOWER.level or logging.INFO)
        for handler in added:
            LOGGER.addHandler(handler)
        try:
            yield
        finally:
            for handler in added:
                LOGGER.removeHandler(handler)
            LOGGER.setLevel(level)


def _to_json(entry: Event) -> None:
    if JSON_LOGGER.isEnabledFor(logging.INFO):
        JSON_LOGGER.info("%s", json.dumps({"time": round(time.time(), 3), **entry}))


def listed(keys: Sequence[Key]) -> str:
    """Client keys for a log line, at most ten of them.

    >>> listed(["a", 3]), listed([])
    ("'a', 3", 'none')
    """
    shown = ", ".join(repr(key) for key in keys[:_SHOWN]) or "none"
    return shown if len(keys) <= _SHOWN else f"{shown} and {len(keys) - _SHOWN} more"


@contextmanager
def without_sampling_lines() -> Iterator[None]:
    """Drop the inner strategy's log lines about a choice of nodes that it does not make."""

    def other(record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith(_INNER_LINES)

    _FLOWER.addFilter(other)
    try:
        yield
    finally:
        _FLOWER.removeFilter(other)
