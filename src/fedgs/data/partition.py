"""Partitions: which client gets which example of a labelled data set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, ClassVar

import numpy as np
from pydantic import BeforeValidator, Field, PlainSerializer

from fedgs.arrays import AnyArray, IntArray
from fedgs.data.owners import as_owners
from fedgs.errors import DataError
from fedgs.registry import Variant, build, register, table

__all__ = [
    "Assignment",
    "ByColumn",
    "Iid",
    "LabelsPerClient",
    "Partition",
    "PartitionSetting",
    "Shards",
    "clients_for",
    "draw_label_sets",
]

NO_COLUMNS: Mapping[str, AnyArray] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Assignment:
    """The client of every example: each of the n examples is assigned exactly once.

    Attributes:
        order: (n,) a permutation of the examples, grouped by client and ascending within a client.
        offsets: (N+1,) client k gets order[offsets[k]:offsets[k+1]], which may be empty.
        names: N client names.
        facts: how the assignment was made, JSON-like.
    """

    order: IntArray
    offsets: IntArray
    names: tuple[str | int, ...]
    facts: Mapping[str, object] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.names)

    def examples(self, client: int) -> IntArray:
        """The ascending indices of one client's examples."""
        return self.order[int(self.offsets[client]) : int(self.offsets[client + 1])]

    @staticmethod
    def from_owners(
        owners: IntArray,
        clients: int,
        *,
        names: Sequence[str | int] | None = None,
        facts: Mapping[str, object] = MappingProxyType({}),
    ) -> "Assignment":
        """From the owner of each example, (n,) in 0..clients-1.

        >>> Assignment.from_owners(np.array([1, 0, 1]), 2).examples(1)
        array([0, 2])
        """
        offsets = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=clients))]).astype(
            np.int64
        )
        order = np.argsort(owners, kind="stable").astype(np.int64)
        return Assignment(
            order, offsets, tuple(range(clients) if names is None else names), dict(facts)
        )


class Partition(Variant):
    """Base of all partitions.

    Attributes:
        reads_labels: whether the assignment depends on labels. If not, the partition is possible
            also where targets are no classes and there are no groups; its labels are then 0.
        counts_clients: whether the partition itself determines the number of clients. Another
            number is then refused.
    """

    family: ClassVar[str] = "partition"
    reads_labels: ClassVar[bool] = True
    counts_clients: ClassVar[bool] = False

    @property
    def leaves_out(self) -> bool:
        """Whether examples may belong to no client; otherwise each is assigned exactly once."""
        return False

    def assign(
        self,
        labels: IntArray,
        clients: int,
        rng: np.random.Generator,
        *,
        columns: Mapping[str, AnyArray] = NO_COLUMNS,
    ) -> Assignment:
        """Give every example to one client.

        Args:
            labels: (n,) labels >= 0, or groups where targets are no classes; n >= 1.
            clients: N >= 1.
            rng: the generator of the partition.
            columns: further (n,) arrays that describe each example.

        Raises:
            DataError: the partition is not possible; the message says what is.
        """
        raise TypeError(f"{type(self).__name__} must define assign(labels, clients, rng, columns=)")


def clients_for(partition: Partition, clients: int, default: object) -> int | None:
    """The number of clients to ask a partition for.

    Args:
        partition: which client gets which example.
        clients: the setting.
        default: of the setting, which is no number that was asked for.

    Returns:
        None where the partition determines the number and no other one was asked for.

    >>> clients_for(Iid(), 30, 30), clients_for(ByColumn(column="ward"), 30, 30)
    (30, None)
    """
    return None if partition.counts_clients and clients == default else clients


def as_partition(value: object) -> Variant | None:
    """A partition from its name, a table or the object itself; None stays None."""
    return None if value is None else build("partition", value)


# The type of a setting that holds a partition; in a configuration it is a name, or a table with
# `name`.
PartitionSetting = Annotated[
    Partition, BeforeValidator(as_partition), PlainSerializer(table, return_type=dict[str, object])
]


@register("partition", "iid")
class Iid(Partition):
    """Every client gets a random share; sizes differ by at most one.

    >>> np.diff(Iid().assign(np.zeros(7, dtype=np.int64), 3, np.random.default_rng(0)).offsets)
    array([3, 2, 2])
    """

    reads_labels = False

    def assign(
        self,
        labels: IntArray,
        clients: int,
        rng: np.random.Generator,
        *,
        columns: Mapping[str, AnyArray] = NO_COLUMNS,
    ) -> Assignment:
        """See `Partition.assign`; every partition of this kind is possible."""
        owners = np.empty(len(labels), dtype=np.int64)
        owners[rng.permutation(len(labels))] = _even_owners(len(labels), clients)
        return Assignment.from_owners(owners, clients)


@register("partition", "shards")
class Shards(Partition):
    """The examples, sorted by label, are cut into shards, and every client gets random shards.

    There are N · per_client shards. They differ in size by at most one example, so a shard may hold
    two labels. With per_client = 2 this is the partition of McMahan et al., Communication-Efficient
    Learning of Deep Networks from Decentralized Data, AISTATS 2017.

    Attributes:
        per_client: shards of each client.
    """

    per_client: int = Field(default=2, ge=1)

    def assign(
        self,
        labels: IntArray,
        clients: int,
        rng: np.random.Generator,
        *,
        columns: Mapping[str, AnyArray] = NO_COLUMNS,
    ) -> Assignment:
        """See `Partition.assign`; more shards than examples are an error."""
        shards = clients * self.per_client
        if shards > len(labels):
            raise DataError(
                f"{clients} clients with partition.per_client = {self.per_client} need {shards} "
                f"shards, but there are only {len(labels)} examples; "
                f"at most {len(labels) // self.per_client} clients are possible"
            )
        shuffled = rng.permutation(len(labels))
        by_label = shuffled[np.argsort(labels[shuffled], kind="stable")]
        takers = rng.permutation(np.repeat(np.arange(clients), self.per_client))  # (shards,)
        owners = np.empty(len(labels), dtype=np.int64)
        owners[by_label] = takers[_even_owners(len(labels), shards)]
        return Assignment.from_owners(owners, clients)


@register("partition", "by_column")
class ByColumn(Partition):
    """One client for every value of a column of the file, such as the writer of a digit.

    The value is the client's name.

    Attributes:
        column: the column's name.

    >>> labels, columns = np.zeros(3, dtype=np.int64), {"writer": np.array(["b", "a", "b"])}
    >>> by_writer = ByColumn(column="writer")
    >>> by_writer.assign(labels, 2, np.random.default_rng(0), columns=columns).names
    ('a', 'b')
    """

    reads_labels = False
    counts_clients = True
    column: str

    def assign(
        self,
        labels: IntArray,
        clients: int,
        rng: np.random.Generator,
        *,
        columns: Mapping[str, AnyArray] = NO_COLUMNS,
    ) -> Assignment:
        """See `Partition.assign`; the column determines the number of clients."""
        if self.column not in columns:
            known = ", ".join(columns) or "none"
            raise DataError(
                f"partition.column = {self.column!r} is not among the columns of the data ({known})"
            )
        names, owners = as_owners(columns[self.column], f"partition.column = {self.column!r}")
        if len(owners) != len(labels):
            raise DataError(
                f"partition.column = {self.column!r} must hold {len(labels)} ids, "
                f"one for each example, got {len(owners)}"
            )
        return Assignment.from_owners(owners, len(names), names=names)


def _even_owners(count: int, owners: int) -> IntArray:
    """(count,) ascending owners 0..owners-1 whose numbers differ by at most one.

    >>> _even_owners(5, 2)
    array([0, 0, 0, 1, 1])
    """
    sizes = np.full(owners, count // owners)
    sizes[: count % owners] += 1
    return np.repeat(np.arange(owners), sizes)


@register("partition", "labels_per_client")
class LabelsPerClient(Partition):
    """Every client holds the same number of different labels.

    The numbers of clients per label differ by at most one, and a label's examples are shared out
    evenly among its clients. With 100 clients, 2 labels of 10 and balanced classes, every label
    goes to 20 clients and all sizes are equal: the paper's FashionMNIST. O(N·C + n).

    Attributes:
        labels: different labels of each client.

    >>> labels = np.repeat([0, 1, 2], 4)
    >>> assignment = LabelsPerClient(labels=2).assign(labels, 3, np.random.default_rng(0))
    >>> [len(set(labels[assignment.examples(client)])) for client in range(3)]
    [2, 2, 2]
    """

    labels: int = Field(default=2, ge=1)

    def assign(
        self,
        labels: IntArray,
        clients: int,
        rng: np.random.Generator,
        *,
        columns: Mapping[str, AnyArray] = NO_COLUMNS,
    ) -> Assignment:
        """See `Partition.assign`; every label needs a client and an example for each client.

        Fewer clients or examples are an error.
        """
        classes, counts = np.unique(labels, return_counts=True)
        if self.labels > len(classes):
            raise DataError(
                f"partition.labels is {self.labels}, but the data has only {len(classes)} "
                "different labels"
            )
        if clients * self.labels < len(classes):
            raise DataError(
                f"{clients} clients with {self.labels} labels each cannot hold all {len(classes)} "
                f"labels; at least {-(-len(classes) // self.labels)} clients are needed"
            )
        quota = np.full(len(classes), clients * self.labels // len(classes))
        quota[rng.permutation(len(classes))[: clients * self.labels % len(classes)]] += 1
        short = np.flatnonzero(counts < quota)
        if len(short):
            raise DataError(
                f"label {classes[short[0]]} is given to {quota[short[0]]} clients, "
                f"but has only {counts[short[0]]} examples; "
                "take fewer clients or fewer labels per client"
            )
        label_sets = draw_label_sets(quota, clients, self.labels, rng)
        owners = np.empty(len(labels), dtype=np.int64)
        for position, label in enumerate(classes):
            takers = rng.permutation(np.flatnonzero((label_sets == position).any(axis=1)))
            examples = rng.permutation(np.flatnonzero(labels == label))
            for taker, piece in zip(takers, np.array_split(examples, len(takers)), strict=True):
                owners[piece] = taker
        return Assignment.from_owners(owners, clients)


def draw_label_sets(quota: IntArray, clients: int, size: int, rng: np.random.Generator) -> IntArray:
    """(clients, size) different labels per client, label c given to exactly quota[c] clients.

    Needs sum(quota) = clients·size and quota <= clients. Client after client draws from the labels
    with quota left, in proportion to it; a label whose quota equals the number of clients left is
    taken by necessity, so it never gets stuck.
    """
    left = np.array(quota, dtype=np.int64)
    sets = np.empty((clients, size), dtype=np.int64)
    for row in range(clients):
        remaining = clients - row
        forced = np.flatnonzero(left == remaining)
        free = np.flatnonzero((left > 0) & (left < remaining))
        need = size - len(forced)
        chosen = forced
        if need:
            share = left[free] / left[free].sum()
            chosen = np.concatenate([forced, rng.choice(free, need, replace=False, p=share)])
        left[chosen] -= 1
        sets[row] = np.sort(chosen)
    return rng.permutation(sets)
