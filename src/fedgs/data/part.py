"""Examples of one split of a federation, in contiguous arrays with an index range per client."""

from dataclasses import dataclass

import numpy as np

from fedgs.arrays import AnyArray, IntArray, frozen, private
from fedgs.data.classes import check_counts
from fedgs.data.targets import Task

__all__ = ["Part", "counted_labels", "counts_by_client", "grouped"]


@dataclass(frozen=True, eq=False)
class Part:
    """Examples of one split, grouped by client.

    The arrays are read-only, since all runs of a federation share them. Arrays that can be written
    to are copied.

    Attributes:
        x: (n, ...) examples in the type in which they were given (float32 vectors, uint8 images);
            may be memory-mapped.
        y: (n,) int64 labels 0..C-1, or the targets of another task, see `Federation.task`.
        offsets: (N+1,) ascending; client k holds rows offsets[k]:offsets[k+1]. The server's test
            set has offsets (0, n).
        index: (n,) row of each example in the set that was partitioned, or None where there was no
            such set.
        held: whether the examples are in memory. Where they are made on demand, x is NaN and y -1,
            see `fedgs.data.on_demand`.
    """

    x: AnyArray
    y: AnyArray
    offsets: IntArray
    index: IntArray | None = None
    held: bool = True

    def __post_init__(self) -> None:
        for name in ("x", "y", "offsets", "index"):
            array = getattr(self, name)
            if array is not None:
                plain = array if isinstance(array, np.ndarray) else np.asarray(array)
                object.__setattr__(self, name, private(plain))

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restore a deep copy or a pickle, whose arrays could be written to."""
        for name, value in state.items():
            self.__dict__[name] = frozen(value) if isinstance(value, np.ndarray) else value

    def __len__(self) -> int:
        return len(self.y)

    def rows(self, client: int) -> slice:
        """The rows of one client."""
        return slice(int(self.offsets[client]), int(self.offsets[client + 1]))

    def label_counts(self, num_labels: int) -> IntArray:
        """(N, C) examples by client and label, for labels that are classes.

        Raises:
            DataError: N · C counts would not fit into memory.
        """
        return counts_by_client(self.y, self.offsets, num_labels)


def counts_by_client(labels: IntArray, offsets: IntArray, num_labels: int) -> IntArray:
    """(N, C) examples by client and label.

    Args:
        labels: (n,) in 0..C-1, grouped by client.
        offsets: (N+1,) client k has the rows offsets[k]:offsets[k+1].
        num_labels: C.

    Raises:
        DataError: N · C counts would not fit into memory.

    >>> counts_by_client(np.array([0, 1, 1]), np.array([0, 2, 3]), 2)
    array([[1, 1],
           [0, 1]])
    """
    count = len(offsets) - 1
    check_counts(count, num_labels, "num_labels")
    owner = np.repeat(np.arange(count), np.diff(offsets))
    flat = np.bincount(owner * num_labels + labels, minlength=count * num_labels)
    return flat.reshape(count, num_labels).astype(np.int64)


def counted_labels(
    train: Part, task: Task, num_labels: int, groups: IntArray | None
) -> IntArray | None:
    """(N, C) training examples by client and label, or by group; None where there is neither.

    Args:
        train: the clients' training parts.
        task: of the federation.
        num_labels: C, for classes.
        groups: (n,) groups of the training examples in their order, for other tasks.
    """
    if task == "classes":
        return train.label_counts(num_labels)
    if groups is None:
        return None
    return counts_by_client(groups, train.offsets, int(groups.max()) + 1)


def grouped(x: AnyArray, y: AnyArray, owner: IntArray, count: int) -> Part:
    """The examples sorted by owner, the order within an owner kept."""
    order = np.argsort(owner, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=count))]).astype(np.int64)
    return Part(frozen(x[order]), y[order], offsets)
