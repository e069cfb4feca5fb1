"""The clients that are connected when a round begins: who they are, and what they told about themselves."""

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
        grid: where the nodes are.
        directory: asks them which clients they are.
        selector: learns what they tell.
        journal: takes what went wrong.
        needed: how many clients are enough.
        timeout: seconds to wait at most.

    Returns:
        Client key -> node id, and why the wait ended without enough clients, or None.
    """
    record = selector.state.round
    deadline = time.monotonic() + timeout
    found: dict[Key, int] = {}
    for _ in pauses(deadline):
        found, told, lost = directory.resolve(
            grid, grid.get_node_ids(), round=record, deadline=deadline
        )
        for node, why in lost:
            detail = f"{why}; it takes no part until it does, and is asked again"
            journal.event(record, "silent", None, detail, request="describe", node=node)
        for one in told:
            for error in one.errors:
                journal.event(record, "describe", one.key, error, request="describe")
            refused = selector.meet(one.key, size=one.data_size, feature=one.feature)
            if refused is not None:
                journal.event(record, "feature", one.key, refused)
        if len(found) >= needed:
            return found, None
    names = ", ".join(repr(key) for key in found) or "none"
    return (
        found,
        f"after {timeout:g} s: {needed} clients must be connected, {len(found)} are ({names})",
    )
