"""How many classes there are: given, or the largest label + 1 where that is plausible."""

import operator
from collections.abc import Sequence

import numpy as np

from fedgs.arrays import IntArray
from fedgs.errors import DataError

__all__ = ["check_counts", "class_count", "given_classes"]

# Up to this many classes, labels are never taken for the targets of a regression.
_FEW_CLASSES = 100
# Above this many classes, labels are taken for such targets if more than half of them never occur.
_MANY_CLASSES = 1000
_MAX_COUNTS = 2**28  # clients times classes: 2 GiB of label counts


def class_count(
    labels: Sequence[IntArray], classes: int | None, *, clients: int, setting: str = "classes"
) -> int:
    """C, the number of classes.

    Args:
        labels: the labels of all parts.
        classes: C as given by the user; None: the largest label + 1.
        clients: N.
        setting: what messages call `classes`.

    Raises:
        DataError: `classes` is no integer above the largest label; no number is given and the
            labels look like the targets of a regression (C > 100 with no more examples than
            classes, or C > 1000 with more than half of the classes never occurring); label counts
            of N clients and C classes that would not fit into memory.

    >>> labels = [np.array([0, 3, 1])]
    >>> class_count(labels, None, clients=1), class_count(labels, 10, clients=1)
    (4, 10)
    """
    largest = max((int(part.max(initial=-1)) for part in labels), default=-1)
    if classes is None:
        count = largest + 1
        _refuse_regression(labels, count, setting)
    else:
        try:
            count = operator.index(classes)
        except TypeError:
            count = -1
        if isinstance(classes, bool | np.bool_) or count <= largest or count < 1:
            raise DataError(
                f"{setting} must be an integer above the largest label, which is {largest}, "
                f"got {classes!r}"
            )
    check_counts(clients, count, setting)
    return count


def check_counts(clients: int, classes: int, setting: str) -> None:
    """Refuse so many clients and classes that a count for each pair would not fit into memory."""
    if clients * classes > _MAX_COUNTS:
        raise DataError(
            f"{setting} must leave room for a count by client and class in memory, "
            f"got {classes} classes and {clients} clients, {clients * classes * 8 / 2**30:.3g} GiB"
        )


def given_classes(labels: Sequence[IntArray], classes: int | None) -> int | None:
    """`classes` where it is more than the largest label + 1, else None.

    It must have been checked by `class_count`.
    """
    largest = max((int(part.max(initial=-1)) for part in labels), default=-1)
    return None if classes is None or int(classes) == largest + 1 else int(classes)


def _refuse_regression(labels: Sequence[IntArray], count: int, setting: str) -> None:
    if count <= _FEW_CLASSES:
        return
    total = sum(len(part) for part in labels)
    distinct = len(np.unique(np.concatenate(list(labels))))
    if total <= count or (count > _MANY_CLASSES and 2 * distinct < count):
        raise DataError(
            f"labels must be classes 0..C-1, got {distinct} different labels between 0 and "
            f"{count - 1} in {total} examples, as the targets of a regression have; "
            "for these give task = 'regression', and if they are classes, "
            f"confirm it with {setting} = {count}"
        )
