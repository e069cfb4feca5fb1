"""From arrays and an assignment of examples to clients to a federation."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedgs.arrays import AnyArray, IntArray, frozen, read_only
from fedgs.clients import Clients
from fedgs.data.federation import Federation, Normalization, Part
from fedgs.data.groups import as_groups
from fedgs.data.labels import named_labels, numbered
from fedgs.data.normalization import as_normalization
from fedgs.data.numeric import as_numbers, of_one_type
from fedgs.data.part import counted_labels
from fedgs.data.partition import NO_COLUMNS, Assignment, Partition
from fedgs.data.targets import Task, as_targets, checked_task, output_count
from fedgs.errors import DataError
from fedgs.registry import table
from fedgs.rng import stream

__all__ = [
    "Labelled",
    "federate",
    "hold_out",
    "nonempty_clients",
    "server_part",
    "share_out",
    "split_of_clients",
]


@dataclass(frozen=True, eq=False)
class Labelled:
    """A labelled data set before it is partitioned.

    Attributes:
        name: for headings and tables.
        x, y: (n, ...) training examples and (n,) labels 0..C-1, which are held as int64; for the
            targets of another task see `task`.
        test: (x, y) of the server's test set.
        num_labels: C; for targets that are numbers, their number q.
        normalization: how stored examples become inputs; None: as they are.
        task: see `Federation.task`.
        groups: (n,) integers or texts that stand for labels where targets are not classes, or
            {"quantiles": k} for k bins of the targets; partitions read them.
        label_names: names of the classes 0..C-1; where `y` is given as texts, they become these.

    Raises:
        DataError: the same refusals as those of `Federation.from_arrays`.
    """

    name: str
    x: AnyArray
    y: AnyArray
    test: tuple[AnyArray, AnyArray]
    num_labels: int
    normalization: Normalization | None = None
    task: Task = "classes"
    groups: AnyArray | None = None
    label_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.test, tuple | list) or len(self.test) != 2:
            raise DataError(f"test must be a tuple (x, y), got {type(self.test).__name__}")
        task = checked_task(self.task)
        x, test_x = as_numbers(self.x, "x"), as_numbers(self.test[0], "test x")
        ys: dict[str, object] = {"y": self.y, "test y": self.test[1]}
        label_names = self.label_names
        if task == "classes":
            ys, names = numbered(ys)
            label_names = label_names if names is None else names
        y, test_y = (as_targets(given, where, task) for where, given in ys.items())
        for where, examples, labels in (("", x, y), ("test: ", test_x, test_y)):
            if len(examples) != len(labels):
                raise DataError(
                    f"{where}x and y must have one length, got {len(examples)} and {len(labels)}"
                )
        x, test_x = of_one_type([x, test_x])
        checked = {
            "x": x,
            "y": y,
            "test": (test_x, test_y),
            "num_labels": self._outputs([y, test_y], [x, test_x]),
            "normalization": as_normalization(self.normalization),
            "groups": as_groups(self.groups, y, task),
            "label_names": label_names,
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def _outputs(self, ys: list[AnyArray], xs: list[AnyArray]) -> int:
        if self.task in ("classes", "sequence"):
            return output_count(self.task, ys, xs, self.num_labels, clients=1, setting="num_labels")
        count = output_count(self.task, ys, xs, None, clients=1)
        if self.num_labels != count:
            raise DataError(
                f"num_labels must be {count}, the number of targets of an example, "
                f"got {self.num_labels!r}"
            )
        return count

    def labels_for(self, partition: Partition) -> IntArray:
        """(n,) what stands for labels in a partition: classes or groups, or zeros without both.

        Raises:
            DataError: the partition reads labels, and there are neither classes nor groups.
        """
        if self.groups is not None:
            return self.groups
        if self.task == "classes":
            return self.y
        if partition.reads_labels:
            raise DataError(
                f"partition {partition.name!r} needs labels or groups, and the targets of task "
                f"{self.task!r} are no classes; data.groups names a column of groups or takes "
                "{quantiles = 10} of the targets"
            )
        return np.zeros(len(self.y), dtype=np.int64)


def share_out(
    source: Labelled,
    partition: Partition,
    clients: int | None,
    *,
    seed: int = 0,
    validation_fraction: float = 0.2,
    drop_empty: bool = False,
    columns: Mapping[str, AnyArray] = NO_COLUMNS,
) -> Federation:
    """Partition a labelled data set over clients.

    The partition is drawn and checked, and validation parts are split off.

    Args:
        source: the data set.
        partition: which client gets which example.
        clients: N >= 1; None: the partition determines it.
        seed: of the partition and of the split.
        validation_fraction: share of each client's examples for validation, see `federate`.
        drop_empty: leave clients without examples out, see `federate`.
        columns: (n,) arrays that describe each training example, for partitions that read them.
            Partitions get read-only views.

    Raises:
        DataError: an impossible partition, one that loses or repeats examples or gives another
            number of clients, a client without examples.

    >>> from fedgs.data import LabelsPerClient
    >>> x, y = np.zeros((40, 3), dtype=np.float32), np.arange(40) % 4
    >>> source = Labelled("mine", x, y, (x, y), num_labels=4)
    >>> federation = share_out(source, LabelsPerClient(labels=2), 4)
    >>> federation.clients.data_sizes, federation.facts["partition"]
    (array([8, 8, 8, 8]), {'name': 'labels_per_client', 'labels': 2})
    """
    # A list keeps its entries as they are: NumPy would turn numbers next to texts into texts.
    arrays = {
        name: column if isinstance(column, np.ndarray) else np.array(column, dtype=object)
        for name, column in columns.items()
    }
    assignment = partition.assign(
        read_only(source.labels_for(partition)),
        1 if clients is None else clients,  # partitions that count themselves do not read it
        stream(seed, "partition"),
        columns={name: read_only(array) for name, array in arrays.items()},
    )
    _check_assignment(assignment, partition, len(source.y))
    if clients is not None and partition.counts_clients and clients != len(assignment):
        raise DataError(
            f"clients = {clients} contradicts partition {partition.name!r}, which gives "
            f"{len(assignment)} clients; leave it out"
        )
    facts = {"partition": table(partition), **assignment.facts}
    return federate(
        source,
        replace(assignment, facts=facts),
        validation_fraction=validation_fraction,
        seed=seed,
        drop_empty=drop_empty,
    )


def _check_assignment(assignment: Assignment, partition: Partition, count: int) -> None:
    given_out = np.bincount(assignment.order, minlength=count)
    if (
        len(given_out) != count
        or np.any(given_out > 1)
        or (not partition.leaves_out and np.any(given_out == 0))
        or int(assignment.offsets[-1]) != len(assignment.order)
    ):
        raise DataError(
            f"partition {partition.name!r} must give each of the {count} examples out "
            f"{'at most' if partition.leaves_out else 'exactly'} once"
        )


def federate(
    source: Labelled,
    assignment: Assignment,
    *,
    validation_fraction: float,
    seed: int,
    drop_empty: bool = False,
) -> Federation:
    """The federation that an assignment makes of a labelled data set.

    Args:
        source: the data set; its examples are copied once, in the order of the clients.
        assignment: which client gets which training example.
        validation_fraction: share of each client's examples that it keeps for validation, in [0,
            1); see `hold_out`.
        seed: of the split.
        drop_empty: leave clients without examples out (they are listed in `facts["left_out"]`)
            instead of refusing them.

    Raises:
        DataError: a client without examples, named.
    """
    sizes = np.diff(assignment.offsets)
    nonempty = nonempty_clients(sizes, assignment.names, drop_empty=drop_empty)
    splits = [
        hold_out(assignment.examples(k), validation_fraction, stream(seed, "hold_out", k))
        for k in nonempty.tolist()
    ]
    train = _part(source, [train for train, _ in splits])
    validation = _part(source, [validation for _, validation in splits])
    groups = None if source.groups is None or train.index is None else source.groups[train.index]
    clients = Clients(
        names=tuple(assignment.names[k] for k in nonempty.tolist()),
        data_sizes=np.diff(train.offsets),
        label_counts=counted_labels(train, source.task, source.num_labels, groups),
    )
    facts = {**named_labels(source.label_names), **assignment.facts}
    if len(nonempty) < len(assignment):
        facts["left_out"] = [name for k, name in enumerate(assignment.names) if sizes[k] == 0]
        shift = facts.get("shift")
        if isinstance(shift, Sequence):
            facts["shift"] = [shift[k] for k in nonempty.tolist()]
    test = server_part(*source.test)
    return Federation(
        source.name,
        clients,
        source.num_labels,
        train,
        validation if len(validation) else None,
        test,
        source.normalization,
        facts,
        source.task,
        groups,
    )


def server_part(x: AnyArray, y: AnyArray) -> Part:
    """The server's test set."""
    return Part(x, y, np.array([0, len(y)], dtype=np.int64))


def hold_out(
    examples: IntArray, fraction: float, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """(training, validation) examples of one client.

    Of its s examples, floor(fraction·s) are drawn at random for validation. At least one example is
    left for training; a hold-out that rounds to nothing is legal.

    >>> [len(part) for part in hold_out(np.arange(9), 0.2, np.random.default_rng(0))]
    [8, 1]
    """
    size = int(fraction * len(examples) + 1e-9)
    chosen = np.zeros(len(examples), dtype=bool)
    chosen[rng.permutation(len(examples))[:size]] = True
    return examples[~chosen], examples[chosen]


def split_of_clients(
    owner: IntArray, test_fraction: float, validation_fraction: float, *, seed: int
) -> IntArray:
    """(n,) 0 train, 1 validation, 2 test, drawn for each client.

    Args:
        owner: (n,) clients 0..N-1.
        test_fraction: share of each client's examples for test, in [0, 1); see `hold_out`.
        validation_fraction: share of its other examples for validation, in [0, 1).
        seed: of the draws.

    >>> split_of_clients(np.zeros(10, dtype=np.int64), 0.2, 0.5, seed=0).tolist().count(0)
    4
    """
    split = np.zeros(len(owner), dtype=np.int64)
    order = np.argsort(owner, kind="stable")
    bounds = np.searchsorted(owner[order], np.arange(int(owner.max(initial=-1)) + 2))
    for k, (start, end) in enumerate(itertools.pairwise(bounds.tolist())):
        kept, test = hold_out(order[start:end], test_fraction, stream(seed, "test", k))
        held = hold_out(kept, validation_fraction, stream(seed, "hold_out", k))[1]
        split[test], split[held] = 2, 1
    return split


def nonempty_clients(
    sizes: IntArray, names: tuple[str | int, ...], *, drop_empty: bool
) -> IntArray:
    """Ascending indices of the clients that have examples.

    Raises:
        DataError: a client without examples unless `drop_empty`, or no client with examples.
    """
    empty = np.flatnonzero(sizes == 0)
    if len(empty) and not drop_empty:
        more = f" (and {len(empty) - 1} more)" if len(empty) > 1 else ""
        raise DataError(
            f"client {names[int(empty[0])]!r} has no training example{more}; "
            "data.drop_empty = true leaves such clients out"
        )
    if len(empty) == len(sizes):
        raise DataError("no client has a training example")
    return np.flatnonzero(sizes > 0)


def _part(source: Labelled, pieces: list[IntArray]) -> Part:
    rows = np.concatenate(pieces)
    offsets = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])]).astype(np.int64)
    return Part(frozen(source.x[rows]), frozen(source.y[rows]), offsets, index=rows)
