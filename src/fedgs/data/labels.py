"""Labels that are texts or other hashable values become the numbers of classes."""

from collections.abc import Hashable, Mapping, Sequence
from typing import cast

import numpy as np

from fedgs.data.numeric import is_missing, is_number_type, plain_array
from fedgs.errors import DataError

__all__ = ["named_labels", "numbered"]


def numbered(
    labels: Mapping[str, object],
) -> tuple[dict[str, object], tuple[str, ...] | None]:
    """Labels of several parts, where those that are no numbers become 0..C-1.

    The classes are the distinct labels of all parts in sorted order; labels that cannot be compared
    are sorted by type and text.

    Args:
        labels: what messages call a part -> its (n,) labels.

    Returns:
        The labels by part, and the names of the classes; numbers stay as they are, and the names
        are then None.

    Raises:
        DataError: a missing label, numbers beside texts, or a label that is not hashable; the
            message has the row.

    >>> numbered({"y": ["cat", "dog", "cat"], "test y": ["eel"]})
    ({'y': array([0, 1, 0]), 'test y': array([2])}, ('cat', 'dog', 'eel'))
    """
    entries = {where: _entries(part, where) for where, part in labels.items()}
    texts = [where for where, part in entries.items() if part is not None and len(part)]
    if not texts:
        return dict(labels), None
    for where, part in labels.items():
        if entries[where] is None and len(plain_array(part, where)):
            raise DataError(
                f"{texts[0]} and {where} must both hold numbers or both texts, "
                f"got {plain_array(part, where).dtype} in {where}"
            )
    plain = {where: part or [] for where, part in entries.items()}
    classes = _in_order({label for part in plain.values() for label in part})
    place = {label: k for k, label in enumerate(classes)}
    numbers: dict[str, object] = {
        where: np.array([place[label] for label in part], dtype=np.int64)
        for where, part in plain.items()
    }
    return numbers, tuple(
        label.decode(errors="replace") if isinstance(label, bytes) else str(label)
        for label in classes
    )


def named_labels(names: Sequence[str] | None) -> dict[str, object]:
    """The facts of a federation about the names of its classes."""
    return {} if names is None else {"label_names": list(names)}


def _entries(value: object, where: str) -> list[Hashable] | None:
    """The labels of a part as a list, or None where they are numbers (or of another shape)."""
    if isinstance(value, list | tuple) and not any(map(_is_row, value)):
        entries = list(value)  # NumPy would turn numbers next to texts into texts
    else:
        array = plain_array(value, where)
        if array.ndim != 1 or array.dtype.kind not in "OUSTMm":
            return None
        entries = array.tolist()
    if all(map(is_number_type, set(map(type, entries)))):
        return None
    known = [
        row
        for row, label in enumerate(entries)
        if not is_number_type(type(label)) and not is_missing(label)
    ]
    if not known:
        return None  # numbers, whose missing ones `as_labels` reports
    for row, label in enumerate(entries):
        _refuse(label, row, entries[known[0]], known[0], where)
    return cast(list[Hashable], entries)


def _is_row(label: object) -> bool:
    """Whether an entry of a list is a row of an array, and no label: a tuple with a text is one."""
    if isinstance(label, tuple):
        return not any(isinstance(entry, str | bytes) for entry in label)
    return isinstance(label, list) or hasattr(label, "__array__")


def _refuse(label: object, row: int, text: object, text_row: int, where: str) -> None:
    if is_missing(label):
        raise DataError(f"{where}: labels must not be missing, got {label!r} in row {row}")
    if is_number_type(type(label)):
        raise DataError(
            f"{where}: labels must be either numbers or texts, got {label!r} in row {row} and "
            f"{text!r} in row {text_row}; convert all of them with str"
        )
    if not isinstance(label, Hashable) or _unhashable(label):
        raise DataError(
            f"{where}: labels must be numbers, texts or other hashable values, "
            f"got a {type(label).__name__} in row {row}"
        )


def _unhashable(label: object) -> bool:
    try:
        hash(label)
    except TypeError:  # such as a tuple that holds a list
        return True
    return False


def _in_order(labels: set[Hashable]) -> Sequence[Hashable]:
    try:
        return sorted(labels)  # type: ignore[type-var]
    except TypeError:
        return sorted(labels, key=lambda label: (type(label).__name__, str(label)))
