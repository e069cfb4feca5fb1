"""What a node says of itself, and what stands for it where it says nothing."""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flwr.serverapp import Grid

from fedgs.flower.journal import listed
from fedgs.flower.roster import Key

__all__ = ["Description", "fallback_key", "last_line", "warn_of_unnamed"]

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Description:
    """A node's description of itself.

    Attributes:
        key: its client key.
        data_size: n_k, or None.
        feature: its feature vector, or None.
        errors: a sentence for each function of the client's `describe` that failed.
        unnamed: why the node reported no key, so that `key` stands for the node; None if it did.
        battery: charge in [0, 1], or None.
        metered: whether its network is metered, or None.
    """

    key: Key
    data_size: float | None = None
    feature: Sequence[float] | None = None
    errors: tuple[str, ...] = ()
    unnamed: str | None = None
    battery: float | None = None
    metered: bool | None = None


def last_line(text: str) -> str:
    """The last line of a traceback."""
    return text.strip().splitlines()[-1] if text.strip() else "no reason given"


def fallback_key(grid: Grid, node: int) -> Key:
    """The node's public key if Flower reports it, else its id.

    Neither survives a restart without a registered key. Flower before 1.38 reports no nodes.
    """
    nodes = grid.get_nodes() if hasattr(grid, "get_nodes") else ()
    public_keys = (getattr(info, "public_key", b"") for info in nodes if info.node_id == node)
    public_key = next(public_keys, b"")
    return f"key-{hashlib.sha256(public_key).hexdigest()[:16]}" if public_key else f"node-{node}"


def warn_of_unnamed(described: Mapping[int, Description]) -> None:
    """One line for all nodes that are known by their node id, which does not survive a restart."""
    reasons: dict[str, list[Key]] = {}
    for node, description in sorted(described.items()):
        if description.unnamed is not None and description.key == f"node-{node}":
            reasons.setdefault(description.unnamed, []).append(description.key)
    for why, keys in reasons.items():
        _logger.warning(
            "nodes do not say which clients they are (%s), so each is a client of its own until it "
            "restarts: %s; set client-id in its node configuration and add "
            "fedgs.flower.describe(app) to the ClientApp",
            why,
            listed(keys),
        )
