"""Checks before a call of compiled kernels, which do not check the bounds of arrays."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from fedgs.arrays import AnyArray, IntArray
from fedgs.data.federation import Federation
from fedgs.errors import DataError

__all__ = ["as_indices", "as_integers", "check_shape", "checked_ranges", "training_sizes"]


class Shaped(Protocol):
    """An array or a tensor."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        ...


def as_integers(name: str, values: npt.ArrayLike, shape: tuple[int, ...]) -> AnyArray:
    """The values as an array of integers of the given shape; an array is not copied.

    Raises:
        DataError: another shape, or entries that are no integers.

    >>> as_integers("sizes", [1.0, 2.0], (2,))
    Traceback (most recent call last):
    fedgs.errors.DataError: sizes must hold integers, got float64
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iu" and array.size:
        raise DataError(f"{name} must hold integers, got {array.dtype}")
    check_shape(name, array, shape)
    return array


def as_indices(
    name: str, values: npt.ArrayLike, shape: tuple[int, ...], bounds: tuple[int, int]
) -> IntArray:
    """The values as contiguous int64 of the given shape, each in bounds[0]..bounds[1]-1.

    Raises:
        DataError: another shape, entries that are no integers, or out of range.

    >>> as_indices("rows", [[0, 7]], (1, 2), (0, 5))
    Traceback (most recent call last):
    fedgs.errors.DataError: rows must be in 0..4, got 0..7
    """
    given, (least, end) = as_integers(name, values, shape), bounds
    array: IntArray = np.ascontiguousarray(given, dtype=np.int64)
    if array.size:
        # One pass for both bounds: as unsigned numbers, those below `least` are the largest.
        from_least = array if least == 0 else array - least
        if int(from_least.view(np.uint64).max()) >= max(0, end - least):
            raise DataError(
                f"{name} must be in {least}..{end - 1}, got {given.min()}..{given.max()}"
            )
    return array


def check_shape(name: str, array: Shaped, shape: tuple[int, ...]) -> None:
    """Raise `DataError` unless an array or tensor has the shape.

    >>> check_shape("models", np.zeros(3), (3, 2))
    Traceback (most recent call last):
    fedgs.errors.DataError: models must have shape (3, 2), got (3,)
    """
    if tuple(array.shape) != shape:
        raise DataError(f"{name} must have shape {shape}, got {tuple(array.shape)}")


def checked_ranges(
    begin: npt.ArrayLike, end: npt.ArrayLike, shape: tuple[int, ...], count: int
) -> tuple[IntArray, IntArray]:
    """The beginnings and ends of ranges of rows as contiguous int64, 0 <= begin <= end <= count.

    Raises:
        DataError: other shapes, or ranges that are out of bounds.

    >>> checked_ranges([0, 3], [3, 2], (2,), 5)
    Traceback (most recent call last):
    fedgs.errors.DataError: ranges of rows must begin before they end, got 3..2
    """
    first = as_indices("begin", begin, shape, (0, count + 1))
    last = as_indices("end", end, shape, (0, count + 1))
    if not (first <= last).all():
        place = int(np.argmax(first > last))
        raise DataError(
            f"ranges of rows must begin before they end, got {first[place]}..{last[place]}"
        )
    return first, last


def training_sizes(federation: Federation, clients: IntArray) -> IntArray:
    """(m,) how many rows of the training part each client has.

    Raises:
        DataError: clients that are not in the federation, or data sizes that do not fit the part's
            rows.

    >>> x, y = np.eye(4, dtype=np.float32), np.array([0, 1, 0, 1])
    >>> federation = Federation.from_arrays(x, y, client=np.array([0, 0, 0, 1]), test=(x, y))
    >>> training_sizes(federation, np.array([1, 0]))
    array([1, 3])
    """
    offsets, count = federation.train.offsets, len(federation)
    chosen = as_indices("clients", clients, np.shape(clients), (0, count))
    begin, end = offsets[chosen], offsets[chosen + 1]
    sizes: IntArray = end - begin
    declared = federation.clients.data_sizes[chosen]
    wrong = (sizes != declared) | (begin < 0) | (end > len(federation.train))
    if wrong.any():
        place = int(np.argmax(wrong))
        name = federation.clients.names[int(chosen[place])]
        raise DataError(
            f"data_sizes must fit the training part: client {name!r} has {sizes[place]} of "
            f"{len(federation.train)} rows, data_sizes says {declared[place]}"
        )
    return sizes
