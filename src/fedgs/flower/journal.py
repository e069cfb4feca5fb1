"""What a deployment reports: lines in the log, and an event for everything that went wrong.

Flower counts rounds from 1, records count from 0. Log lines state both: "round 3 of 10 (record 2)".
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from fedgs.flower.roster import Key

__all__ = ["LOGGER", "Journal", "Request", "listed", "without_sampling_lines"]

LOGGER = logging.getLogger("fedgs.flower")
_FLOWER = logging.getLogger("flwr")
_SHOWN = 10  # names in a log line

Request = Literal["train", "evaluate", "losses", "describe"]

# What FedAvg logs about its own choice of nodes and replies, which `SampledStrategy` makes in its
# place.
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
        events: not yet written.
        last: the number of the last round that is asked for, or None before `start`.

    >>> journal = Journal()
    >>> journal.last = 10
    >>> journal.event(2, "silent", "site-1", "no reply within 60 s")
    >>> journal.taken()
    [{'round': 2, 'client': 'site-1', 'event': 'silent', 'detail': 'no reply within 60 s'}]
    """

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.last: int | None = None

    def place(self, record: int, request: Request = "train") -> str:
        """Which round a record belongs to: the evaluation by clients ends a round, everything else precedes its update."""
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
        """Something went wrong with a client's answer to a request, or with the whole round (client None)."""
        about = "" if request == "train" else f" ({request})"
        who = f"client {client!r} {kind}" if client is not None else kind
        LOGGER.warning("%s: %s%s: %s", self.place(record, request), who, about, detail)
        entry = {"round": record, "client": client, "event": kind, "detail": detail, **more}
        self.events.append(entry if request == "train" else {**entry, "request": request})

    def gave_up(self, record: int, why: str, clients: Sequence[Key]) -> None:
        """A round keeps the model because clients or replies are missing."""
        LOGGER.warning("%s: gave up, the model stays: %s", self.place(record), why)
        self.events.append(
            {
                "round": record,
                "client": None,
                "event": "gave_up",
                "detail": why,
                "clients": list(clients),
            }
        )

    def line(self, record: int, text: str, *arguments: object, request: Request = "train") -> None:
        """A line that reports no fault."""
        LOGGER.info("%s: " + text, self.place(record, request), *arguments)

    def taken(self) -> list[dict[str, Any]]:
        """The events since the last call."""
        events, self.events = self.events, []
        return events

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Show information lines where Flower shows its own, unless the application has set up logging itself."""
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


def listed(keys: Sequence[Key]) -> str:
    """Client keys for a log line, the first few of many.

    >>> listed(["a", 3]), listed([])
    ("'a', 3", 'none')
    """
    shown = ", ".join(repr(key) for key in keys[:_SHOWN]) or "none"
    return shown if len(keys) <= _SHOWN else f"{shown} and {len(keys) - _SHOWN} more"


@contextmanager
def without_sampling_lines() -> Iterator[None]:
    """Keep Flower's log free of the inner strategy's lines about a choice of nodes that it does not make."""

    def other(record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith(_INNER_LINES)

    _FLOWER.addFilter(other)
    try:
        yield
    finally:
        _FLOWER.removeFilter(other)
