"""Equal examples: within a client, at several clients, and between training and test."""

import hashlib
from dataclasses import dataclass

import numpy as np

from fedgs.arrays import AnyArray
from fedgs.data.federation import Federation
from fedgs.data.part import Part
from fedgs.plurals import counted

__all__ = ["Duplicates", "duplicates"]

_BLOCK = 4096  # rows read at a time


@dataclass(frozen=True)
class Duplicates:
    """How many examples are equal to others; labels are not compared.

    Attributes:
        within_clients: training examples that repeat an earlier one of the same client.
        across_clients: training examples that another client has too.
        test_in_training: test examples that are also training examples of some client.
        validation_in_training: the same for validation examples.
    """

    within_clients: int
    across_clients: int
    test_in_training: int
    validation_in_training: int

    def line(self) -> str:
        """The description of all of them in one line."""
        parts = [
            (self.within_clients, "training example", "repeated within a client"),
            (self.across_clients, "training example", "at more than one client"),
            (self.test_in_training, "test example", "in training"),
            (self.validation_in_training, "validation example", "in training"),
        ]
        found = [f"{counted(count, unit)} {what}" for count, unit, what in parts if count]
        return f"duplicates      {', '.join(found) or 'none'}"


def duplicates(federation: Federation) -> Duplicates:
    """Count equal examples by hashes of their content. O(n·d), one block in memory at a time.

    Args:
        federation: any.

    >>> x, y = np.array([[1.0], [1.0], [2.0], [1.0]]), [0, 0, 1, 0]
    >>> client = ["a", "a", "a", "b"]
    >>> duplicates(Federation.from_arrays(x, y, client=client, test=([[2.0], [3.0]], [1, 1])))
    Duplicates(within_clients=1, across_clients=3, test_in_training=1, validation_in_training=0)
    """
    train, validation, test = (
        _digests(part) for part in (federation.train, federation.validation, federation.test)
    )
    owner = np.repeat(np.arange(len(federation)), federation.clients.data_sizes)
    _, content = np.unique(train, return_inverse=True)
    pairs = np.unique(np.stack([content, owner], axis=1), axis=0)  # distinct (content, client)
    holders = np.bincount(pairs[:, 0])
    return Duplicates(
        within_clients=len(train) - len(pairs),
        across_clients=int((holders[content] > 1).sum()),
        test_in_training=int(np.isin(test, train).sum()),
        validation_in_training=int(np.isin(validation, train).sum()),
    )


def _digests(part: Part | None) -> AnyArray:
    """(n,) digests of 16 bytes of the examples, those of equal ones equal."""
    if part is None:
        return np.zeros(0, dtype="S32")
    hashes: list[bytes] = []
    for start in range(0, len(part), _BLOCK):
        block = np.ascontiguousarray(part.x[start : start + _BLOCK])
        if block.dtype.kind == "f":
            block = block + block.dtype.type(0)  # -0.0 and 0.0 are equal
        rows = block.reshape(len(block), -1)
        hashes += [
            hashlib.blake2b(row.tobytes(), digest_size=16).hexdigest().encode() for row in rows
        ]
    return np.array(hashes, dtype="S32")
