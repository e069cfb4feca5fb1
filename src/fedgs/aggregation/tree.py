"""Weighted sums of models over a fixed binary tree, whose bits do not depend on who added what.

The models of a cohort are cut into blocks of 32 by position, the leaves. Within a block, models are
added one after another. Two neighbouring nodes of 2^j blocks are merged where the first begins at a
multiple of 2^(j+1) blocks. What is left at the end is merged from the right.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

__all__ = ["BLOCK", "NUMERICS", "Node", "added", "merged", "root"]

BLOCK = 32  # models in a leaf
NUMERICS = 1
"""Version of the sums over more than one block, part of a run's identity."""

_IN_CACHE = 1 << 16  # numbers


@dataclass(frozen=True, eq=False)
class Node:
    """The weighted sum of neighbouring models.

    Attributes:
        begin: place of the first model.
        count: how many there are.
        first: (P,) float32, the model that differences are taken to.
        total: (P,) float64, the sum of w_k·(theta_k - first).
        weight: the sum of w_k.
    """

    begin: int
    count: int
    first: torch.Tensor
    total: torch.Tensor
    weight: float

    @property
    def is_open(self) -> bool:
        """Whether it is a leaf with room for further models."""
        return self.count < BLOCK


def added(
    nodes: Sequence[Node],
    models: torch.Tensor,
    weights: Sequence[float],
    *,
    begin: int,
    first: torch.Tensor | None = None,
) -> tuple[Node, ...]:
    """The nodes with the next models; the sums of an open leaf are written to.

    Args:
        nodes: from left to right, of which the last may be open.
        models: (b, P) float32.
        weights: b numbers.
        begin: place of the first model where there is no node.
        first: (P,) what all differences are taken to; None: the first model of each block.
    """
    done = list(nodes)
    for model, weight in zip(models, weights, strict=True):
        if not done or not done[-1].is_open:
            place = done[-1].begin + done[-1].count if done else begin
            reference = model.clone() if first is None else first
            total = torch.zeros_like(reference, dtype=torch.float64)
            done.append(Node(place, 0, reference, total, 0.0))
        leaf = done[-1]
        _add_difference(leaf.total, model, leaf.first, weight)
        done[-1] = replace(leaf, count=leaf.count + 1, weight=leaf.weight + weight)
        _collapse(done)
    return tuple(done)


def merged(one: Sequence[Node], other: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes of both, of which the second ones follow the first; nothing is written to."""
    nodes = list(one)
    for node in other:
        nodes.append(node)
        _collapse(nodes)
    return tuple(nodes)


def root(nodes: Sequence[Node]) -> Node:
    """The sum of all models."""
    *others, node = nodes
    for left in reversed(others):
        node = _sum(left, node)
    return node


def _collapse(nodes: list[Node]) -> None:
    """Merge the last nodes that are two halves of one."""
    while len(nodes) > 1 and _are_halves(*nodes[-2:]):
        right = nodes.pop()
        nodes[-1] = _sum(nodes[-1], right)


def _are_halves(left: Node, right: Node) -> bool:
    both = left.count + right.count
    return left.count == right.count and not right.is_open and left.begin % both == 0


def _sum(left: Node, right: Node) -> Node:
    """First = first_a, S = S_a + S_b + W_b·(first_b - first_a), W = W_a + W_b."""
    move = right.first.double().sub_(left.first).mul_(right.weight)
    total = (left.total + right.total).add_(move)
    return Node(left.begin, left.count + right.count, left.first, total, left.weight + right.weight)


def _add_difference(
    total: torch.Tensor, model: torch.Tensor, first: torch.Tensor, weight: float
) -> None:
    """Add (model - first)·weight to `total` in float64, (P,) each, in pieces that fit the cache."""
    size = _IN_CACHE if total.device.type == "cpu" else len(total)
    difference = torch.empty_like(total[:size])
    pieces = zip(*(torch.split(vector, size) for vector in (total, model, first)), strict=True)
    for total_piece, model_piece, first_piece in pieces:
        piece = difference[: len(total_piece)].copy_(model_piece)
        total_piece += piece.sub_(first_piece).mul_(weight)
