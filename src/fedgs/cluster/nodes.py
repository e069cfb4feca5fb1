"""The computers of a cluster, and whether they would give the same numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedgs.errors import ConfigError

__all__ = ["Node", "check_alike", "difference"]

_EQUAL = ("fedgs", "code of fedgs", "Python", "NumPy", "PyTorch")


@dataclass(frozen=True)
class Node:
    """A computer that carries out work.

    Attributes:
        key: that Ray gave it.
        name: its host name.
        cpus, gpus: how many it offers.
        facts: what it reported, see `fedgs.cluster.facts`.
    """

    key: str
    name: str
    cpus: int
    gpus: int
    facts: Mapping[str, str]


def difference(own: Mapping[str, str], node: Node) -> str | None:
    """What a node has other than this computer, as a sentence; None: nothing that matters.

    >>> node = Node("1", "east", 4, 0, {"fedgs": "0.1.0", "NumPy": "2.3.0"})
    >>> difference({"fedgs": "0.1.0", "NumPy": "2.4.0"}, node)
    "node 'east' has NumPy 2.3.0 and this computer 2.4.0; both must be equal"
    """
    for name in _EQUAL:
        theirs, ours = node.facts.get(name), own.get(name)
        if theirs != ours:
            if theirs == "none":
                return f"node {node.name!r} has no {name}; install what this computer has"
            return (
                f"node {node.name!r} has {name} {theirs} and this computer {ours}; "
                "both must be equal"
            )
    return None


def check_alike(own: Mapping[str, str], nodes: Sequence[Node]) -> None:
    """Refuse nodes that would give other numbers than this computer or than each other.

    Raises:
        ConfigError: with the name of the node and what differs.

    >>> nodes = [Node(name, name, 1, 0, {"processor": name}) for name in ("x", "y")]
    >>> check_alike({}, nodes)
    Traceback (most recent call last):
    fedgs.errors.ConfigError: node 'y' has the processor y and node 'x' the processor x, and records
    are the same on equal processors alone; use nodes of one kind
    """
    for node in nodes:
        sentence = difference(own, node)
        if sentence is not None:
            raise ConfigError(sentence)
    for node in nodes[1:]:
        one, other = nodes[0].facts.get("processor"), node.facts.get("processor")
        if one != other:
            raise ConfigError(
                f"node {node.name!r} has the processor {other} and node {nodes[0].name!r} the "
                f"processor {one}, and records are the same on equal processors alone; "
                "use nodes of one kind"
            )
