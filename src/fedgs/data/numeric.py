"""Checks of the numbers that users give: examples, labels and client features.

What is not usable raises an error of one sentence, which names the row.
"""

import decimal
import numbers
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from fedgs.arrays import AnyArray, FloatMatrix, IntArray
from fedgs.errors import DataError

__all__ = [
    "as_examples",
    "as_features",
    "as_labels",
    "as_numbers",
    "check_examples",
    "is_missing",
    "is_number_type",
    "of_one_type",
    "plain_array",
    "position",
]

_MAX_EXACT = 2**24  # every integer up to here is a float32
_BLOCK = 1 << 20  # entries checked at a time
_MAX_LENGTH = 1e150  # squares, and sums and differences of many of them, are finite in float64
_KINDS = {
    "U": "texts",
    "S": "bytes",
    "T": "texts",
    "M": "dates",
    "m": "durations",
    "c": "complex numbers",
    "V": "records",
    "O": "objects",
}


def plain_array(value: object, where: str) -> AnyArray:
    """An ordinary array from what `np.asarray` accepts: lists, tensors, data frames.

    Raises:
        DataError: a sparse matrix, masked entries, rows of different lengths, or something that
            NumPy cannot read.
    """
    if isinstance(value, np.ma.MaskedArray):
        hidden = np.argwhere(np.ma.getmaskarray(value))
        if len(hidden):
            at = position(tuple(hidden[0].tolist()))
            raise DataError(
                f"{where} must not have missing entries, got {len(hidden)} masked ones, "
                f"the first in {at}"
            )
        return np.asarray(value.data)
    if hasattr(value, "toarray") and hasattr(value, "nnz"):
        raise DataError(
            f"{where} must be a dense array, got a sparse {type(value).__name__}; use .toarray()"
        )
    try:
        array = np.asarray(value)
        if array.ndim or isinstance(value, np.ndarray | np.generic | numbers.Number):
            return array
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        if isinstance(value, Sequence):
            _refuse_ragged(value, where)
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(
            f"{where} must be readable as a NumPy array, got {type(value).__name__}: {reason}"
        ) from None
    raise DataError(f"{where} must be an array or a list, got {type(value).__name__}")


def as_examples(value: object, where: str, *, copy: bool = False) -> AnyArray:
    """(n, ...) examples in the type in which they are stored.

    Floats and tables of objects become float32, other types stay as they are.

    Args:
        value: an array or anything that `np.asarray` reads. An array of objects is converted where
            all its entries are numbers or booleans.
        where: what the messages call it.
        copy: always return a new array; otherwise it may share the memory of `value`.

    Raises:
        DataError: see `check_examples`; entries of an array of objects that are no numbers; the
            message names row and column.

    >>> as_examples(np.array([[0.5, True], [2, False]], dtype=object), "x")
    array([[0.5, 1. ],
           [2. , 0. ]], dtype=float32)
    """
    array = as_numbers(value, where)
    kind = array.dtype.newbyteorder("=") if array.dtype.kind != "f" else np.dtype(np.float32)
    return array.astype(kind, copy=copy)


def of_one_type(parts: Sequence[AnyArray]) -> list[AnyArray]:
    """Checked examples of several parts in one type, where they differ only in width.

    Integers and booleans become the smallest type that has room for all, or float32 if there is
    none; floats become the largest type. Where some parts are integers and others floats, all stay
    as they are, since such a difference is often one of scale.

    >>> integers, long_integers, floats = (
    ...     np.ones((1, 1), dtype) for dtype in (np.int32, np.int64, np.float32)
    ... )
    >>> [part.dtype.name for part in of_one_type([integers, long_integers])]
    ['int64', 'int64']
    >>> [part.dtype.name for part in of_one_type([integers, floats])]
    ['int32', 'float32']
    """
    if (
        len({part.dtype for part in parts}) == 1
        or len({part.dtype.kind == "f" for part in parts}) > 1
    ):
        return list(parts)
    common = np.result_type(*(part.dtype for part in parts))
    if common.kind == "f" and parts[0].dtype.kind != "f":
        common = np.dtype(np.float32)  # which represents them exactly, see `check_examples`
    return [part.astype(common, copy=False) for part in parts]


def as_numbers(value: object, where: str) -> AnyArray:
    """(n, ...) examples in the type that NumPy gives them; an array of objects becomes float64.

    Raises:
        DataError: see `as_examples`.
    """
    array = plain_array(value, where)
    if array.dtype.kind == "O" and array.ndim:
        array = _numbers(array, where)
    check_examples(array, where)
    return array


def check_examples(
    array: AnyArray, where: str, locate: Callable[[int], str] = "row {}".format
) -> None:
    """Refuse examples that models cannot receive as float32. O(n·d), in blocks, without a copy.

    Args:
        array: (n, ...) examples.
        where: what the message calls them.
        locate: the words for one row.

    Raises:
        DataError: fewer than two dimensions, no features, a type that holds no real numbers, NaN,
            inf, values beyond float32's range, integers that float32 would change.
    """
    if array.dtype.kind not in "biuf":
        what = _KINDS.get(array.dtype.kind, str(array.dtype))
        hint = "; encode them as numbers first" if array.dtype.kind in "UST" else ""
        raise DataError(f"{where} must hold numbers or booleans, got {what} ({array.dtype}){hint}")
    if array.ndim < 2:
        hint = "; for one feature use .reshape(-1, 1)" if array.ndim == 1 else ""
        raise DataError(
            f"{where} must have a row for each example, shape (n, d) or (n, channels, ...), "
            f"got {array.shape}{hint}"
        )
    if 0 in array.shape[1:]:
        raise DataError(f"{where} must have at least one feature, got shape {array.shape}")
    whole = array.dtype.kind != "f"
    if array.dtype.kind == "b" or (whole and array.dtype.itemsize <= 2):
        return
    step = max(1, _BLOCK // int(np.prod(array.shape[1:])))
    for start in range(0, len(array), step):
        bad = _unusable(array[start : start + step])
        if bad is not None:
            row, rest = start + bad[0], bad[1:]
            raise DataError(_sentence(array[row][rest].item(), where, locate(row) + _column(rest)))


def as_labels(value: object, where: str) -> IntArray:
    """(n,) int64 labels from integers, booleans or floats that are whole numbers.

    Raises:
        DataError: another shape, or an entry that is no label; the message names the row and says
            how to encode classes.

    >>> as_labels([0.0, 2.0], "y")
    array([0, 2])
    """
    array = plain_array(value, where)
    if array.ndim != 1:
        hint = ""
        if array.ndim == 2 and array.shape[1] == 1:
            hint = "; use .ravel()"
        elif array.ndim == 2:
            hint = (
                "; turn one-hot rows into labels with .argmax(axis=1), "
                "or give task = 'multilabel' where an example has several labels"
            )
        raise DataError(f"{where}: labels must be a 1-d array, got shape {array.shape}{hint}")
    if array.dtype.kind == "O":
        entries = array.tolist()
        wrong = _first_of(entries, lambda kind: not is_number_type(kind))
        if wrong is not None:
            raise _no_label(entries[wrong], wrong, where)
        array = _as_floats(array, where)
    if array.dtype.kind not in "biuf":
        if not len(array):
            return np.zeros(0, dtype=np.int64)
        raise _no_label(array[0].item() if array.dtype.kind in "USM" else array[0], 0, where)
    if array.dtype.kind == "f":
        array = array.astype(np.float64)
        with np.errstate(invalid="ignore"):
            fine = (array >= 0) & (array < 2.0**63) & (array == np.floor(array))
    elif array.dtype.kind == "u":
        fine = array <= np.uint64(2**63 - 1)
    else:
        fine = array.astype(np.int64) >= 0
    rows = np.flatnonzero(~fine)
    if len(rows):
        raise _no_label(array[rows[0]].item(), int(rows[0]), where)
    return array.astype(np.int64)


def as_features(value: object, where: str) -> FloatMatrix:
    """(N, d) finite float64 vectors, d >= 1, of at most length 1e150.

    Raises:
        DataError: another shape, no numbers, NaN or inf, a vector longer than 1e150.
    """
    array = plain_array(value, where)
    if array.dtype.kind == "O" and array.ndim:
        array = _numbers(array, where)
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise DataError(
            f"{where} must be finite numbers of shape (N, d), got {array.dtype} {array.shape}"
        )
    if array.shape[1] == 0:
        raise DataError(
            f"{where} must have at least one number for each client, got shape {array.shape}"
        )
    features = array.astype(np.float64)
    bad = np.argwhere(~np.isfinite(features))
    if len(bad):
        at = tuple(bad[0].tolist())
        raise DataError(
            f"{where} must be finite numbers of shape (N, d), got {features[at]} in {position(at)}"
        )
    with np.errstate(over="ignore"):
        lengths = np.sqrt(np.einsum("kj,kj->k", features, features))
    long = np.flatnonzero(lengths > _MAX_LENGTH)
    if len(long):
        largest = np.abs(features[long[0]]).max()
        raise DataError(
            f"{where} must be vectors of length at most {_MAX_LENGTH:g}, since the graph "
            f"multiplies them, got a vector with the number {largest:g} "
            f"in {position((int(long[0]),))}; divide all of them by one number"
        )
    return features


def position(index: tuple[int, ...]) -> str:
    """An index in words.

    >>> position((3,)), position((3, 1)), position((3, 0, 2))
    ('row 3', 'row 3, column 1', 'row 3, position (0, 2)')
    """
    return f"row {index[0]}{_column(index[1:])}" if index else "the only entry"


def _column(rest: tuple[int, ...]) -> str:
    if not rest:
        return ""
    return f", column {rest[0]}" if len(rest) == 1 else f", position {rest}"


def _unusable(block: AnyArray) -> tuple[int, ...] | None:
    """The index of the first entry that float32 cannot represent.

    That is a float that is not finite in float32, or an integer that float32 would change.
    """
    if block.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            fine = np.isfinite(block.astype(np.float32, copy=False))
    else:
        if int(block.max(initial=0)) <= _MAX_EXACT and int(block.min(initial=0)) >= -_MAX_EXACT:
            return None
        rounded = block.astype(np.float32).astype(np.float64)
        # the largest integers round to a value beyond their type
        within = rounded < float(int(np.iinfo(block.dtype).max) + 1)
        fine = within & (np.where(within, rounded, 0).astype(block.dtype) == block)
    if fine.all():
        return None
    return _unravelled(int(np.flatnonzero(~fine.ravel())[0]), block)


def _sentence(value: float, where: str, at: str) -> str:
    if isinstance(value, numbers.Integral):
        return (
            f"{where} must hold integers that float32 represents exactly, "
            f"since models receive float32, got {value} in {at}; "
            "renumber ids from 0, or pass floats to accept rounding"
        )
    if not np.isfinite(value):
        return f"{where} must be finite, got {value} in {at}"
    return f"{where} must be within float32's range of +-3.4e38, got {value:g} in {at}"


def _numbers(array: AnyArray, where: str) -> AnyArray:
    """An array of objects as float64.

    All entries must be numbers or booleans, or arrays of one shape.
    """
    entries = array.ravel().tolist()
    if array.ndim == 1 and entries and all(_is_row(entry) for entry in entries):
        return _stacked(entries, where)
    wrong = _first_of(entries, lambda kind: not is_number_type(kind))
    if wrong is not None:
        raise DataError(
            f"{where} must hold numbers or booleans, got {_named(entries[wrong])} in "
            f"{_at(wrong, array)}"
        )
    floats = _as_floats(array, where)
    for place in np.flatnonzero(np.abs(floats.ravel()) > _MAX_EXACT).tolist():
        entry = entries[place]
        if (
            isinstance(entry, numbers.Integral)
            and abs(int(entry)) < 2**127
            and int(np.float32(int(entry))) != int(entry)
        ):
            raise DataError(_sentence(int(entry), where, _at(place, array)))
    return floats


def _stacked(rows: list[object], where: str) -> AnyArray:
    """Rows of one shape as one array."""
    arrays = [plain_array(row, f"{where}, row {place}") for place, row in enumerate(rows)]
    _refuse_other_shapes([array.shape for array in arrays], where)
    stacked = np.stack(arrays)
    return _numbers(stacked, where) if stacked.dtype.kind == "O" else stacked


def _refuse_ragged(rows: Sequence[npt.ArrayLike], where: str) -> None:
    shapes: list[tuple[int, ...]] = []
    for place, row in enumerate(rows):
        try:
            shapes.append(np.shape(row))
        except ValueError:
            if isinstance(row, Sequence):
                _refuse_ragged(row, f"{where}, row {place}")
            return
    _refuse_other_shapes(shapes, where)


def _refuse_other_shapes(shapes: Sequence[tuple[int, ...]], where: str) -> None:
    for place, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise DataError(
                f"{where} must have rows of one shape, got {shapes[0]} in row 0 and {shape} in row "
                f"{place}"
            )


def _as_floats(array: AnyArray, where: str) -> AnyArray:
    try:
        return array.astype(np.float64)
    except OverflowError:
        entries = array.ravel().tolist()
        place = next(place for place, entry in enumerate(entries) if abs(entry) >= 2**1023)
        raise DataError(
            f"{where} must be within float32's range of +-3.4e38, "
            f"got an integer beyond it in {_at(place, array)}"
        ) from None


def _first_of(entries: list[object], is_wrong: Callable[[type], bool]) -> int | None:
    """The place of the first entry whose type is wrong; each type is checked once."""
    wrong = {kind for kind in set(map(type, entries)) if is_wrong(kind)}
    if not wrong:
        return None
    return next(place for place, entry in enumerate(entries) if type(entry) in wrong)


def is_number_type(kind: type) -> bool:
    """Whether values of a type are real numbers or booleans."""
    return issubclass(kind, numbers.Real | np.bool_ | decimal.Decimal) and not issubclass(
        kind, np.timedelta64
    )


def is_missing(value: object) -> bool:
    """Whether a value says that there is none: None, NaN, pandas' NA and NaT, an empty text.

    >>> [is_missing(value) for value in (None, float("nan"), "", 0)]
    [True, True, True, False]
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    return isinstance(value, str | bytes) and not value


def _is_row(entry: object) -> bool:
    return isinstance(entry, list | tuple | np.ndarray) or (
        hasattr(entry, "__array__") and getattr(entry, "ndim", 0) > 0
    )


def _named(entry: object) -> str:
    """An entry as messages show it.

    >>> _named(None), _named("red"), _named({})
    ('a missing value (None)', "the text 'red'", 'a dict')
    """
    if entry is None or type(entry).__name__ in ("NAType", "NaTType"):
        return f"a missing value ({entry})"
    if isinstance(entry, str | bytes):
        return f"the {'text' if isinstance(entry, str) else 'bytes'} {entry[:40]!r}"
    if isinstance(entry, numbers.Number):
        return repr(entry)
    name = type(entry).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _at(place: int, array: AnyArray) -> str:
    return position(_unravelled(place, array))


def _unravelled(place: int, array: AnyArray) -> tuple[int, ...]:
    return tuple(int(part) for part in np.unravel_index(place, array.shape))


def _no_label(entry: object, row: int, where: str) -> DataError:
    hint = ""
    if isinstance(entry, str | bytes):
        hint = "; encode classes with np.unique(labels, return_inverse=True)[1]"
    elif isinstance(entry, float) and np.isfinite(entry) and entry >= 0:
        hint = "; for the targets of a regression give task = 'regression'"
    what = repr(entry) if isinstance(entry, numbers.Real) else _named(entry)
    return DataError(
        f"{where}: labels must be integers >= 0, as task 'classes' needs, "
        f"got {what} in row {row}{hint}"
    )
