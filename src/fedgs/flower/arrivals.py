"""The clients that are connected when a round begins, and their descriptions of themselves."""

import time

from flwr.serverapp import Grid

from fedgs.flower.directory import Directory
from fedgs.flower.exchange import pauses
from fedgs.flower.journal import Journal
from fedgs.flower.roster import Key
from fedgs.flower.selector import Selector

__all__ = ["connected"]


def connected(
    grid: Grid,
    directory: Directory,
    selector: Selector,
    journal: Journal,
    *,
    needed: int,
    timeout: float,
) -> tuple[dict[Key, int], str | None]:
    """Wait until enough clients are connected and known.

    Args:
        grid: connects to the nodes.
        directory: asks the nodes which clients they are.
        selector: receives their descriptions.
        journal: receives the events.
        needed: how many clients are enough.
        timeout: the most seconds to wait.

    Returns:
        Client key -> node id, and why the wait ended without enough clients, or None.
    """
    record = selector.state.round
    deadline = time.monotonic() + timeout
    node_of: dict[Key, int] = {}
    for _ in pauses(deadline):
        node_of, descriptions, lost = directory.resolve(
            grid, grid.get_node_ids(), round=record, deadline=deadline
        )
        for node, why in lost:
            detail = f"{why}; it takes no part until it does, and is asked again"
            journal.event(record, "silent", None, detail, request="describe", node=node)
        for description in descriptions:
            key = description.key
            for error in description.errors:
                journal.event(record, "describe", key, error, request="describe")
            refused = selector.meet(key, size=description.data_size, feature=description.feature)
            if refused is not None:
                journal.event(record, "feature", key, refused)
        if len(node_of) >= needed:
            return node_of, None
    names = ", ".join(repr(key) for key in node_of) or "none"
    return node_of, f"{needed} clients must be connected, {len(node_of)} are ({names})"
