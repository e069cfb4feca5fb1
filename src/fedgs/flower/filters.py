"""Which connected clients may take part in a round: an allow-list, their battery, their network."""

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from pydantic import BeforeValidator, Field

from fedgs.flower.descriptions import Description
from fedgs.flower.directory import Directory
from fedgs.flower.journal import Journal
from fedgs.flower.roster import Key
from fedgs.registry import Variant

__all__ = ["Filters", "Gate", "Refusal"]


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list | set | frozenset) else value


class Refusal(NamedTuple):
    """Why a client is not available.

    Attributes:
        rule: the setting that says so.
        reason: a sentence.
    """

    rule: str
    reason: str


class Filters(Variant):
    """Rules that a connected client has to meet; one that does not is not available.

    Battery and network are what the client last reported through `describe(app, battery=...,
    metered=...)`. A client that has not reported what a rule asks for does not meet it.

    Attributes:
        allow: the client keys that may take part; a number and its text are one key. None: all.
        min_battery: the lowest charge of the battery, in [0, 1]. None: no rule.
        metered: whether clients with a metered network may take part.
        max_age: seconds after which a client is asked again for battery and network. No round
            waits for the answer.

    >>> Filters(min_battery=0.3).refusal("a", Description("a", battery=0.1))
    Refusal(rule='min_battery', reason='its battery is at 0.1, below min_battery = 0.3')
    """

    family = "filters"
    allow: Annotated[tuple[str | int, ...] | None, BeforeValidator(_as_tuple)] = None
    min_battery: float | None = Field(default=None, ge=0, le=1)
    metered: bool = True
    max_age: float = Field(default=600.0, gt=0)

    @property
    def asks(self) -> bool:
        """Whether a rule needs reports of the clients."""
        return self.min_battery is not None or not self.metered

    @property
    def admits_all(self) -> bool:
        """Whether there is no rule."""
        return self.allow is None and not self.asks

    def allows(self, key: Key) -> bool:
        """Whether a client is on the allow-list."""
        return self.allow is None or str(key) in set(map(str, self.allow))

    def refusal(self, key: Key, description: Description | None) -> Refusal | None:
        """Why a client may not take part, or None.

        Args:
            key: of the client.
            description: what it last reported; None: nothing.
        """
        if not self.allows(key):
            return Refusal("allow", "it is not on the list allow")
        battery = None if description is None else description.battery
        metered = None if description is None else description.metered
        if self.min_battery is not None:
            if battery is None:
                return Refusal("min_battery", "it has not reported its battery")
            if battery < self.min_battery:
                text = f"its battery is at {battery:g}, below min_battery = {self.min_battery:g}"
                return Refusal("min_battery", text)
        if not self.metered and metered is not False:
            unknown = "it has not reported whether its network is metered"
            return Refusal("metered", unknown if metered is None else "its network is metered")
        return None


class Gate:
    """Lets clients through that meet the rules; each other one is an event.

    Args:
        filters: the rules.
        directory: has what the clients reported.
        journal: receives the events.
    """

    def __init__(self, filters: Filters, directory: Directory, journal: Journal) -> None:
        self.filters, self._directory, self._journal = filters, directory, journal
        self._refused: dict[Key, str] = {}  # key -> rule of the last event

    def passed(self, record: int, node_of: Mapping[Key, int]) -> dict[Key, int]:
        """Client key -> node id of those that meet the rules.

        A client is an event if it met the rules before, or breaks another one now.

        Args:
            record: t.
            node_of: client key -> node id of the connected clients.
        """
        if self.filters.admits_all:
            return dict(node_of)
        passed: dict[Key, int] = {}
        for key, node in node_of.items():
            refusal = self.filters.refusal(key, self._directory.said(node))
            if refusal is None:
                passed[key] = node
                self._refused.pop(key, None)
            elif self._refused.get(key) != refusal.rule:
                self._refused[key] = refusal.rule
                detail = f"{refusal.reason}; it is not available"
                self._journal.event(record, "filtered", key, detail, rule=refusal.rule)
        return passed
