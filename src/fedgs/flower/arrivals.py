"""The clients that are connected when a round begins, and their descriptions of themselves."""

import time
from collections.abc import Callable

from flwr.serverapp import Grid

from fedgs.flower.directory import Directory
from fedgs.flower.exchange import pauses
from fedgs.flower.filters import Gate
from fedgs.flower.journal import Journal
from fedgs.flower.roster import Key
from fedgs.flower.selector import Selector
from fedgs.flower.settings import Settings

__all__ = ["Arrivals"]


class Arrivals:
    """Waits until enough clients are connected and known, which uses up no round.

    Args:
        directory: asks the nodes which clients they are.
        selector: receives their descriptions.
        journal: receives the events.
        settings: deadlines and filters.

    Attributes:
        gate: says which connected clients may take part.
        waited: is called after each wait that is over.
    """

    def __init__(
        self, directory: Directory, selector: Selector, journal: Journal, settings: Settings
    ) -> None:
        self._directory, self._selector = directory, selector
        self._journal, self._settings = journal, settings
        self.gate = Gate(settings.filters, directory, journal)
        self.waited: Callable[[], None] = lambda: None

    def wait(self, grid: Grid, *, needed: int) -> dict[Key, int]:
        """Client key -> node id of the available clients, once there are enough.

        Args:
            grid: connects to the nodes.
            needed: how many clients are enough.

        Raises:
            RunError: `max_idle_rounds` waits of `connect_timeout` seconds are over.
        """
        record, timeout, waits = self._selector.state.round, self._settings.connect_timeout, 0
        while True:
            node_of = self._connected(grid, needed, time.monotonic() + timeout)
            if len(node_of) >= needed:
                return node_of
            waits += 1
            names = ", ".join(repr(key) for key in node_of) or "none"
            why = f"{needed} clients must be connected, {len(node_of)} are ({names})"
            self._journal.waiting(record, why, list(node_of))
            self.waited()
            if waits == self._settings.max_idle_rounds:
                raise self._settings.ended(
                    record,
                    f"{waits} waits of connect_timeout = {timeout:g} s are over (max_idle_rounds = "
                    f"{waits}): {why}",
                )

    def _connected(self, grid: Grid, needed: int, deadline: float) -> dict[Key, int]:
        """The available clients, once there are enough or at the deadline."""
        node_of: dict[Key, int] = {}
        for _ in pauses(deadline):
            node_of = self._described(grid, deadline)
            if len(node_of) >= needed:
                break
        return node_of

    def _described(self, grid: Grid, deadline: float) -> dict[Key, int]:
        """The available clients now; what they said of themselves is noted."""
        record, journal = self._selector.state.round, self._journal
        node_of, descriptions, lost = self._directory.resolve(
            grid, grid.get_node_ids(), round=record, deadline=deadline
        )
        for node, why in lost:
            detail = f"{why}; it takes no part until it does, and is asked again"
            journal.event(record, "silent", None, detail, request="describe", node=node)
        for description in descriptions:
            key = description.key
            if not self.gate.filters.allows(key):
                continue
            for error in description.errors:
                journal.event(record, "describe", key, error, request="describe")
            size, feature = description.data_size, description.feature
            refused = self._selector.meet(key, size=size, feature=feature)
            if refused is not None:
                journal.event(record, "feature", key, refused)
        return self.gate.passed(record, node_of)
