"""Columns of data frames, as pandas, polars and pyarrow hold them."""

import numpy as np

from fedgs.arrays import AnyArray
from fedgs.data.numeric import plain_array
from fedgs.errors import DataError

__all__ = ["columns_of"]


def columns_of(frame: object, where: str) -> dict[str, AnyArray]:
    """(n,) arrays by name of a data frame of pandas or polars, or of a table with `column_names`.

    Raises:
        DataError: something else, a name that occurs twice, columns of different lengths or no row.
    """
    listed = getattr(frame, "column_names", None)
    names = getattr(frame, "columns", None) if listed is None else listed
    get = getattr(frame, "__getitem__", None)
    if names is None or get is None:
        raise DataError(
            f"{where} must be a data frame, such as that of pandas or polars, "
            f"got {type(frame).__name__}"
        )
    columns: dict[str, AnyArray] = {}
    for key in names:
        if str(key) in columns:
            raise DataError(f"{where} must have each column once, got {str(key)!r} twice")
        column = get(key)
        to_numpy = getattr(column, "to_numpy", None)
        array = plain_array(column if to_numpy is None else to_numpy(), f"{where}: {key}")
        if array.dtype.kind in "UST":  # as in files, texts are objects
            array = np.array(array.tolist(), dtype=object)
        if array.ndim != 1:
            raise DataError(
                f"{where} must have each column once with one value a row, "
                f"got shape {array.shape} for {str(key)!r}"
            )
        columns[str(key)] = array
    lengths = {len(column) for column in columns.values()}
    if len(lengths) != 1 or lengths == {0}:
        raise DataError(
            f"{where} must have columns of one length with at least one row, "
            f"got lengths {sorted(lengths)}"
        )
    return columns
