"""Types of the arrays that the package passes around, and read-only arrays."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

__all__ = [
    "AnyArray",
    "BoolArray",
    "FloatArray",
    "FloatMatrix",
    "IntArray",
    "frozen",
    "kernel_alias",
    "open_npz",
    "private",
    "read_only",
]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
FloatMatrix = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
AnyArray = npt.NDArray[Any]

Array = TypeVar("Array", bound=AnyArray)


@contextlib.contextmanager
def open_npz(path: str | os.PathLike[str]) -> Iterator["np.lib.npyio.NpzFile"]:
    """The arrays of an .npz file while the block runs; no objects are unpickled.

    The file is closed also where it is damaged: `numpy.load` leaves it open then.
    """
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as stored:
        yield stored


def read_only(array: Array) -> Array:
    """A view that cannot be written to; an array that is read-only already is returned itself.

    >>> counts = np.zeros(2)
    >>> read_only(counts)[0] = 1
    Traceback (most recent call last):
    ValueError: assignment destination is read-only
    """
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def frozen(array: Array) -> Array:
    """The array without a copy, made read-only together with the arrays that it is a view of.

    For arrays that the package has made. The result is a view, so NumPy refuses to make it
    writeable again. A frozen array is returned itself.

    >>> sizes = frozen(np.array([3, 5]))
    >>> sizes.flags.writeable = True
    Traceback (most recent call last):
    ValueError: cannot set WRITEABLE flag to True of this array
    >>> frozen(sizes) is sizes
    True
    """
    if is_frozen(array):
        return array
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner.flags.writeable = False
        owner = owner.base
    return array.view()


def private(array: Array) -> Array:
    """The array if it is frozen, otherwise a frozen copy.

    Later writes to the argument do not change the result.

    >>> sizes = np.array([3, 5])
    >>> copy = private(sizes)
    >>> sizes[0] = 9
    >>> copy.tolist(), private(copy) is copy
    ([3, 5], True)
    """
    return array if is_frozen(array) else frozen(cast(Array, np.array(array)))


def is_frozen(array: AnyArray) -> bool:
    """Whether neither the array nor an array that it is a view of can be written to.

    An array that owns its numbers does not count as frozen, since its flag can be set again.
    """
    if array.flags.writeable or array.base is None:
        return False
    base: object = array.base
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return False
        base = base.base
    return True


def kernel_alias(array: Array) -> Array:
    """A view of the same numbers that counts as writeable, for compiled kernels that only read.

    numba compiles a kernel once more for arrays that are read-only. An array that is writeable is
    returned itself.

    >>> matrix = frozen(np.eye(2))
    >>> kernel_alias(matrix).flags.writeable, np.shares_memory(kernel_alias(matrix), matrix)
    (True, True)
    """
    return array if array.flags.writeable else cast(Array, np.asarray(_Writeable(array)))


class _Writeable:
    """NumPy's array interface of an array, without its read-only flag."""

    def __init__(self, array: AnyArray) -> None:
        self.array = array  # keeps the numbers in memory
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}
