"""The owners of examples: client ids in the forms that users give become names and indices."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedgs.arrays import AnyArray, IntArray
from fedgs.client_names import checked_names, clean_name, natural_key
from fedgs.data.numeric import plain_array
from fedgs.errors import DataError

__all__ = ["Owners", "as_owners", "in_order"]

# Distinct names in sorted order, and (n,) the index of each example's owner.
Owners = tuple[tuple[str | int, ...], IntArray]


def as_owners(value: object, where: str) -> Owners:
    """Names and owners from (n,) client ids.

    Ids are integers, texts, bytes (UTF-8) or floats that are whole numbers.

    Raises:
        DataError: another shape, missing ids (None, NaN, masked, empty texts), booleans and other
            types, ids that mix texts and integers; the message has the row.

    >>> as_owners(["b", "a", "b"], "client")
    (('a', 'b'), array([1, 0, 1]))
    >>> as_owners([2.0, 1.0], "client")
    ((1, 2), array([1, 0]))
    """
    if isinstance(value, np.ma.MaskedArray):
        _refuse_missing(np.ma.getmaskarray(value).ravel(), "masked", where)
    if isinstance(value, list | tuple) and not any(
        isinstance(name, list | tuple | np.ndarray) for name in value
    ):
        # NumPy would turn numbers and NaN next to texts into texts
        return _of_objects(list(value), where)
    ids = plain_array(value, where)
    if ids.ndim != 1:
        hint = "; use .ravel()" if ids.ndim == 2 and ids.shape[1] == 1 else ""
        raise DataError(
            f"{where} must have one id for each example, shape (n,), got shape {ids.shape}{hint}"
        )
    if ids.dtype.kind in "OT":
        return _of_objects(ids.tolist(), where)
    if ids.dtype.kind == "f":
        _refuse_missing(np.isnan(ids), "nan", where)
        ids = ids.astype(np.float64)
        wrong = np.flatnonzero(~((ids == np.floor(ids)) & (np.abs(ids) < 2.0**63)))
        if len(wrong):
            raise _no_id(ids[wrong[0]].item(), int(wrong[0]), where)
        ids = ids.astype(np.int64)
    elif ids.dtype.kind in "US":
        _refuse_missing(ids == ids.dtype.type(), "an empty text", where)
    elif ids.dtype.kind not in "iu":
        if len(ids):
            raise _no_id(ids[0].item() if ids.dtype.kind == "b" else ids[0], 0, where)
        return (), np.zeros(0, dtype=np.int64)
    unique, owner = np.unique(ids, return_inverse=True)
    names = unique.tolist()
    if ids.dtype.kind == "S":
        names = [_decoded(name, where) for name in names]
    if ids.dtype.kind == "u" and len(unique) and int(unique[-1]) >= 2**63:
        row = int(np.flatnonzero(ids == unique[-1])[0])
        raise _no_id(int(unique[-1]), row, where)
    return tuple(names), owner.astype(np.int64)


def in_order(owners: Owners, order: str | Sequence[str | int]) -> Owners:
    """The same owners with the names in another order.

    Args:
        owners: see `as_owners`.
        order: "sorted" (integers by value, texts character by character), "natural" (digits in
            texts compared as numbers), or all names in order.

    Raises:
        DataError: another word, or names that are not exactly the clients'.

    >>> in_order(as_owners(["c10", "c2"], "client"), "natural")
    (('c2', 'c10'), array([1, 0]))
    """
    names, owner = owners
    if isinstance(order, str):
        if order not in ("sorted", "natural"):
            raise DataError(
                "client_order must be 'sorted', 'natural' or all client names in order, "
                f"got {order!r}"
            )
        if order == "sorted":
            return owners
        wanted = tuple(
            sorted(names, key=lambda name: name if isinstance(name, int) else natural_key(name))
        )
    else:
        wanted = checked_names(order)
        odd = [name for name in wanted if name not in set(names)] or [
            name for name in names if name not in set(wanted)
        ]
        if odd:
            raise DataError(
                f"client_order must hold exactly the names of the {len(names)} clients, "
                f"got {len(wanted)} names; "
                f"{odd[0]!r} is only in {'client_order' if odd[0] in wanted else 'client'}"
            )
    place = {name: k for k, name in enumerate(wanted)}
    return wanted, np.array([place[name] for name in names], dtype=np.int64)[owner]


def _of_objects(values: list[object], where: str) -> Owners:
    ids = [_decoded(name, where) if isinstance(name, bytes) else name for name in values]
    missing = np.array(
        [name is None or _is_nan(name) or (isinstance(name, str) and not name) for name in ids],
        dtype=bool,
    )
    first = ids[int(missing.argmax())] if missing.any() else ""
    _refuse_missing(missing, "an empty text" if isinstance(first, str) else str(first), where)
    names = [clean_name(name) for name in ids]
    for row, name in enumerate(names):
        if name is None:
            raise _no_id(ids[row], row, where)
        if type(name) is not type(names[0]):
            raise DataError(
                f"{where} must hold either integers or texts, got {names[0]!r} in row 0 and "
                f"{name!r} in row {row}; convert all of them with str"
            )
    unique: list[Any] = sorted(set(names))  # all texts or all integers
    place = {name: k for k, name in enumerate(unique)}
    return tuple(unique), np.array([place[name] for name in names], dtype=np.int64)


def _is_nan(name: object) -> bool:
    if type(name).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(name, float | np.floating) and bool(np.isnan(name))


def _decoded(name: bytes, where: str) -> str:
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{where} must hold bytes that are UTF-8 text, got {name!r}") from None


def _refuse_missing(missing: AnyArray, what: str, where: str) -> None:
    rows = np.flatnonzero(missing)
    if len(rows):
        raise DataError(
            f"{where} must name the owner of every example, got {len(rows)} missing "
            f"{'ids' if len(rows) > 1 else 'id'} ({what}), the first in row {rows[0]}"
        )


def _no_id(name: object, row: int, where: str) -> DataError:
    hint = "; use .astype(str)"
    if isinstance(name, bool):
        hint = "; use .astype(int)"
    elif type(name) is float:
        hint = ""
    shown = name if isinstance(name, int | float | np.generic) else repr(name)
    return DataError(
        f"{where} must hold integers within 64 bits or texts, got {shown} ({type(name).__name__}) "
        f"in row {row}{hint}"
    )
