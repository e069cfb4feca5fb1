"""Federations whose examples are made when they are needed, and never all at once."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from fedgs.arrays import AnyArray, IntArray, frozen
from fedgs.data.base import Data
from fedgs.data.federation import Federation
from fedgs.data.part import Part
from fedgs.errors import DataError
from fedgs.machine import memory_limit
from fedgs.registry import table

__all__ = ["FederationOnDemand", "examples_of", "holding", "not_held"]

Held = Literal["train", "validation"]


def not_held(offsets: IntArray, example_shape: tuple[int, ...], kind: str) -> Part:
    """A part without its examples: NaN for all numbers and -1 for all labels, in 12 bytes.

    Args:
        offsets: (N+1,) of the clients.
        example_shape: of one example.
        kind: the type of the examples, such as "float32".
    """
    count = int(offsets[-1])
    x = np.broadcast_to(frozen(np.array(np.nan, dtype=kind)), (count, *example_shape))
    y = np.broadcast_to(frozen(np.array(-1)), count)
    return Part(x, y, frozen(offsets), held=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class FederationOnDemand(Federation):
    """A federation that makes the examples of a client from its key, when they are needed.

    `train` and `validation` have the clients' offsets and no examples, see `not_held`; `holding`
    gives a federation with the examples of some clients. The server's test set is held. A copy and
    a pickle hold what was drawn for all clients, such as their sizes; nothing is drawn again.

    Attributes:
        data: the data set that it is made from; the fingerprint is a hash of its settings.
        make: client -> its examples (s, ...) and labels (s,): training, validation and test
            examples in this order.
    """

    data: Data
    make: Callable[[int], tuple[AnyArray, IntArray]]

    def __post_init__(self) -> None:
        """No example is there to be checked."""

    def __reduce__(self) -> tuple[Callable[..., Federation], tuple[object, ...]]:
        fields = {name: getattr(self, name) for name in type(self).__dataclass_fields__}
        offsets = {
            split: None if fields[split] is None else fields.pop(split).offsets
            for split in ("train", "validation")
        }
        return _restored, (fields, offsets, self.example_shape, self.train.x.dtype.str)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the settings, which decide the content; no example is made for it."""
        settings = json.dumps(["examples on demand", table(self.data)], sort_keys=True)
        return hashlib.sha256(settings.encode()).hexdigest()

    @property
    def label_counts(self) -> None:
        """None: to count labels, all examples would have to be made."""
        return None

    def holding(self, clients: IntArray, split: Held) -> Federation:
        """The federation with the examples of these clients in a part, and all other ones empty.

        Args:
            clients: (m,) distinct indices.
            split: the part.

        Raises:
            DataError: the examples do not fit into memory.

        >>> from fedgs.data import Synthetic
        >>> whole = Synthetic(clients=3).load()
        >>> some = Synthetic(clients=3, on_demand=True).load().holding(np.array([1]), "train")
        >>> bool((some.train.x == whole.train.x[whole.train.rows(1)]).all())
        True
        """
        self.check_room(clients, split)
        sizes = np.zeros(len(self), dtype=np.int64)
        sizes[clients] = np.diff(self._part(split).offsets)[clients]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        x = np.empty((int(offsets[-1]), *self.example_shape), dtype=self.train.x.dtype)
        y = np.empty(len(x), dtype=np.int64)
        for client in np.sort(clients).tolist():
            rows = slice(int(offsets[client]), int(offsets[client + 1]))
            made, labels = self.make(client)
            first = 0 if split == "train" else int(self.clients.data_sizes[client])
            chosen = slice(first, first + int(sizes[client]))
            x[rows], y[rows] = made[chosen], labels[chosen]
        part = Part(frozen(x), frozen(y), frozen(offsets))
        federation = object.__new__(Federation)
        fields = {name: getattr(self, name) for name in Federation.__dataclass_fields__}
        federation.__setstate__({**fields, split: part})
        return federation

    def check_room(self, clients: IntArray | None, split: Held) -> None:
        """Refuse more examples at once than fit into the memory of this process.

        Args:
            clients: (m,) whose examples; None: those of all clients.
            split: the part.

        Raises:
            DataError: they do not fit.
        """
        sizes, limit = np.diff(self._part(split).offsets), memory_limit()
        count = int((sizes if clients is None else sizes[clients]).sum())
        needed = count * (math.prod(self.example_shape) * self.train.x.itemsize + 8)
        if limit is not None and needed > limit:
            number = len(self) if clients is None else len(clients)
            raise DataError(
                f"the {split} examples of {number} clients would take {needed / 1e9:.1f} GB at "
                f"once, and this process may use {limit / 1e9:.1f} GB"
            )

    def _part(self, split: Held) -> Part:
        part = self.train if split == "train" else self.validation
        assert part is not None
        return part


def _restored(
    fields: dict[str, object],
    offsets: Mapping[str, IntArray | None],
    example_shape: tuple[int, ...],
    kind: str,
) -> Federation:
    """The federation of a pickle, in which parts without examples are their offsets."""
    parts = {
        split: None if of_clients is None else not_held(of_clients, example_shape, kind)
        for split, of_clients in offsets.items()
    }
    federation = object.__new__(FederationOnDemand)
    federation.__setstate__({**fields, **parts})
    return federation


def holding(federation: Federation, clients: IntArray, split: Held = "train") -> Federation:
    """The federation with at least the examples of these clients in a part.

    It is the federation itself where that holds all examples.
    """
    if isinstance(federation, FederationOnDemand):
        return federation.holding(clients, split)
    return federation


def examples_of(federation: Federation, rows: IntArray, split: Held = "train") -> AnyArray:
    """(k, ...) examples of a part as they are stored.

    Args:
        federation: any.
        rows: (k,) rows of the part.
        split: the part, which the federation has.

    >>> from fedgs.data import Synthetic
    >>> examples_of(Synthetic(clients=3, on_demand=True).load(), np.array([0, 99])).shape
    (2, 60)
    """
    part = federation.train if split == "train" else federation.validation
    assert part is not None
    if part.held:
        return np.asarray(part.x[rows])
    owners = np.searchsorted(part.offsets, rows, side="right") - 1
    held = holding(federation, np.unique(owners), split)
    there = held.train if split == "train" else held.validation
    assert there is not None
    return np.asarray(there.x[rows - part.offsets[owners] + there.offsets[owners]])
