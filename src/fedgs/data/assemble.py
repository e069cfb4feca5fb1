"""From arrays and an assignment of examples to clients to a federation."""

from dataclasses import dataclass

import numpy as np

from fedgs.arrays import AnyArray, IntArray
from fedgs.clients import Clients
from fedgs.data.federation import Federation, Normalization, Part
from fedgs.data.partition import Assignment
from fedgs.errors import DataError
from fedgs.rng import stream

__all__ = ["Labelled", "federate", "hold_out", "kept_clients"]


@dataclass(frozen=True, eq=False)
class Labelled:
    """A labelled data set before it is partitioned: training examples, the server's test set, how they become inputs."""

    name: str
    x: AnyArray
    y: IntArray
    test_x: AnyArray
    test_y: IntArray
    num_labels: int
    normalization: Normalization | None = None


def federate(
    source: Labelled, assignment: Assignment, *, validation_fraction: float, seed: int, drop_empty: bool = False
) -> Federation:
    """The federation that an assignment makes of a labelled data set.

    Args:
        source: the data set; its examples are copied once, in the order of the clients.
        assignment: who gets which training example.
        validation_fraction: share of each client's examples that it keeps for validation, in [0, 1); see `hold_out`.
        seed: of the split.
        drop_empty: leave clients without examples out (they are listed in `facts["left_out"]`) instead of refusing them.

    Raises:
        DataError: a client without examples, named.
    """
    kept = kept_clients(np.diff(assignment.offsets), assignment.names, drop_empty=drop_empty)
    splits = [hold_out(assignment.examples(k), validation_fraction, stream(seed, "hold_out", k)) for k in kept.tolist()]
    train = _part(source, [train for train, _ in splits])
    validation = _part(source, [validation for _, validation in splits]) if validation_fraction > 0 else None
    clients = Clients(
        names=tuple(assignment.names[k] for k in kept.tolist()),
        data_sizes=np.diff(train.offsets),
        label_counts=train.label_counts(source.num_labels),
    )
    facts = dict(assignment.facts)
    if len(kept) < len(assignment):
        facts["left_out"] = [name for k, name in enumerate(assignment.names) if k not in set(kept.tolist())]
    test = Part(source.test_x, source.test_y, np.array([0, len(source.test_y)], dtype=np.int64))
    return Federation(source.name, clients, source.num_labels, train, validation, test, source.normalization, facts)


def hold_out(examples: IntArray, fraction: float, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """(training, validation) examples of one client: floor(fraction·s) of its s, drawn at random, are for validation.

    At least one example is left for training; a hold-out that rounds to nothing is legal.

    >>> [len(part) for part in hold_out(np.arange(9), 0.2, np.random.default_rng(0))]
    [8, 1]
    """
    size = int(fraction * len(examples) + 1e-9)
    chosen = np.zeros(len(examples), dtype=bool)
    chosen[rng.permutation(len(examples))[:size]] = True
    return examples[~chosen], examples[chosen]


def kept_clients(sizes: IntArray, names: tuple[str | int, ...], *, drop_empty: bool) -> IntArray:
    """Ascending indices of the clients that have examples; the others are refused unless `drop_empty`."""
    empty = np.flatnonzero(sizes == 0)
    if len(empty) and not drop_empty:
        more = f" (and {len(empty) - 1} more)" if len(empty) > 1 else ""
        raise DataError(
            f"client {names[int(empty[0])]!r} has no training example{more}; data.drop_empty = true leaves such clients out"
        )
    if len(empty) == len(sizes):
        raise DataError("no client has a training example")
    return np.flatnonzero(sizes > 0)


def _part(source: Labelled, pieces: list[IntArray]) -> Part:
    rows = np.concatenate(pieces)
    offsets = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])]).astype(np.int64)
    return Part(source.x[rows], source.y[rows], offsets, index=rows)
