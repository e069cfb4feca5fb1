"""Examples of unequal length, padded to the longest one."""

from collections.abc import Mapping, Sequence

import numpy as np

from fedgs.arrays import AnyArray
from fedgs.data.numeric import as_numbers, plain_array
from fedgs.data.targets import Task
from fedgs.errors import DataError

__all__ = ["padded"]

Parts = dict[str, object]


def padded(
    xs: Mapping[str, object], ys: Mapping[str, object], *, task: Task, mask: bool
) -> tuple[Parts, Parts]:
    """Examples and targets of all parts with examples of one length.

    Shorter examples get zeros at their end. The labels of a sequence get -1 there. For other tasks
    `mask` adds one feature, the last one, which is 1 where an example has an entry and 0 where it
    is padded.

    Args:
        xs: what messages call a part -> its examples, (L,) or (L, d) each.
        ys: the same for targets, in the same order.
        task: "sequence": tokens and their labels are padded together.
        mask: whether examples of other tasks may have unequal lengths.

    Raises:
        DataError: `mask` with the task "sequence", examples without an entry, with entries of
            different shapes, or of another length than their labels.

    >>> x, y = padded({"x": [[1, 2], [3]]}, {"y": [[2, 5], [0]]}, task="sequence", mask=False)
    >>> x["x"].tolist(), y["y"].tolist()
    ([[1, 2], [3, 0]], [[2, 5], [0, -1]])
    >>> x, _ = padded({"x": [[0.5, 2.0], [3.0]]}, {"y": [0, 1]}, task="classes", mask=True)
    >>> x["x"].tolist()
    [[[0.5, 1.0], [2.0, 1.0]], [[3.0, 1.0], [0.0, 0.0]]]
    """
    if mask and task == "sequence":
        raise DataError("mask must be left out where task is 'sequence', whose labels are masked")
    if task == "sequence" and any(_is_ragged(part) for part in [*xs.values(), *ys.values()]):
        return _sequences(xs, ys)
    if not mask:
        return dict(xs), dict(ys)
    rows = {where: _rows(part, where) for where, part in xs.items()}
    _refuse_other_entries(rows)
    longest = max((len(row) for part in rows.values() for row in part), default=0)
    return {where: _masked(part, longest) for where, part in rows.items()}, dict(ys)


def _sequences(xs: Mapping[str, object], ys: Mapping[str, object]) -> tuple[Parts, Parts]:
    tokens = {where: _rows(part, where, flat=True) for where, part in xs.items()}
    labels = {where: _rows(part, where, flat=True) for where, part in ys.items()}
    for (x_name, x_rows), (y_name, y_rows) in zip(tokens.items(), labels.items(), strict=True):
        for row, (x, y) in enumerate(zip(x_rows, y_rows, strict=False)):
            if len(x) != len(y):
                raise DataError(
                    f"{x_name} and {y_name} must have a label for each token, "
                    f"got {len(x)} tokens and {len(y)} labels in row {row}"
                )
    longest = max((len(row) for part in tokens.values() for row in part), default=0)
    return (
        {where: _filled(part, longest, 0) for where, part in tokens.items()},
        {where: _filled(part, longest, -1) for where, part in labels.items()},
    )


def _is_ragged(value: object) -> bool:
    """Whether a part is a list (or an array of objects) whose examples have unequal lengths."""
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return False
    if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str | bytes):
        return False
    return len({np.shape(row)[:1] for row in value if hasattr(row, "__len__")}) > 1


def _rows(value: object, where: str, *, flat: bool = False) -> list[AnyArray]:
    """The examples of a part as arrays of numbers, (L, d) each, or (L,) where `flat`."""
    if not hasattr(value, "__iter__") or isinstance(value, str | bytes):
        raise DataError(f"{where} must be an array or a list, got {type(value).__name__}")
    rows = []
    for place, entry in enumerate(value):
        row = plain_array(entry, f"{where}, row {place}")
        if row.ndim == 0 or len(row) == 0:
            raise DataError(
                f"{where} must have at least one entry in each example, "
                f"got shape {row.shape} in row {place}"
            )
        if flat and row.ndim != 1:
            raise DataError(
                f"{where} must have one number for each position, "
                f"got shape {row.shape} in row {place}"
            )
        columns = row[:, None] if row.ndim == 1 else row
        numbers = as_numbers(columns, f"{where}, row {place}")
        rows.append(numbers[:, 0] if flat else numbers)
    return rows


def _refuse_other_entries(rows: Mapping[str, list[AnyArray]]) -> None:
    shapes = [
        (where, place, row.shape[1:])
        for where, part in rows.items()
        for place, row in enumerate(part)
    ]
    for where, place, shape in shapes:
        if shape != shapes[0][2] or len(shape) > 1:
            raise DataError(
                f"{where} must have examples (L, d) with one d, got {shapes[0][2]} in row 0 of "
                f"{shapes[0][0]} and {shape} in row {place}"
            )


def _masked(rows: list[AnyArray], longest: int) -> AnyArray:
    """(n, L, d + 1) float32 examples with their mask as the last feature."""
    width = rows[0].shape[1] if rows else 1
    x = np.zeros((len(rows), longest, width + 1), dtype=np.float32)
    for place, row in enumerate(rows):
        x[place, : len(row), :width] = row
        x[place, : len(row), width] = 1
    return x


def _filled(rows: list[AnyArray], longest: int, value: int) -> AnyArray:
    """(n, L) integers, `value` where a row is shorter."""
    filled = np.full((len(rows), longest), value, dtype=np.float64)
    for place, row in enumerate(rows):
        filled[place, : len(row)] = row
    whole = filled.astype(np.int64)
    return whole if np.array_equal(whole, filled) else filled  # fractions are refused later
