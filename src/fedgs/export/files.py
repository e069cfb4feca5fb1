"""Runs as one CSV or Parquet file, with the columns of `fedgs.export.rows`."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from typing import Any

from fedgs.export.library import library
from fedgs.export.rows import KINDS, columns_of
from fedgs.report.run_view import Run

__all__ = ["as_csv", "as_parquet"]


def as_csv(runs: Sequence[Run]) -> bytes:
    """A header and one line for each run and record, UTF-8.

    Numbers have full precision, lists are JSON, and an empty field is a value that the record or
    the run does not have.

    >>> from fedgs.records import Record
    >>> run = Run({"method": {"name": "md"}}, [Record(0, cohort=["a", "b"], test_loss=0.1)])
    >>> as_csv([run]).decode().splitlines()[1]
    'run,,,,0,unfinished,0,,,"[""a"",""b""]",,,,,,0.1,,'
    """
    columns = columns_of(runs)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_text(value) for value in row] for row in zip(*columns.values(), strict=True))
    return file.getvalue().encode()


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return repr(value) if isinstance(value, float) else str(value)


def as_parquet(runs: Sequence[Run]) -> bytes:
    """The same columns as a Parquet file.

    Names of clients are integers where all are, and texts otherwise; so are the settings. Lists in
    settings are JSON.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    arrow = library("pyarrow", "--to parquet")
    parquet = library("pyarrow.parquet", "--to parquet")
    columns = columns_of(runs)
    table = arrow.table({name: _array(arrow, name, values) for name, values in columns.items()})
    file = io.BytesIO()
    parquet.write_table(table, file)
    return file.getvalue()


def _array(arrow: Any, name: str, values: Sequence[object]) -> Any:
    """A column with its type; lists hold the clients' keys, numbers of draws or weights."""
    types = {int: arrow.int64(), float: arrow.float64(), str: arrow.string(), bool: arrow.bool_()}
    kind = KINDS.get(name) or _common([value for value in values if value is not None])
    if kind is not list:
        return arrow.array(_converted(kind, values), types[kind])
    lists = [value if isinstance(value, list) else None for value in values]
    inside = {"draws": int, "weights": float, "worked": float, "fates": str}.get(name) or _common(
        [entry for value in lists for entry in value or ()]
    )
    converted = [None if value is None else _converted(inside, value) for value in lists]
    return arrow.array(converted, arrow.list_(types[inside]))


def _common(values: Sequence[object]) -> type:
    """The type that holds all values without a loss: bool, int or float, else text."""
    kinds = {type(value) for value in values}
    if len(kinds) == 1 and kinds <= {bool, int, float}:
        return kinds.pop()
    return float if kinds == {int, float} else str


def _converted(kind: type, values: Sequence[object]) -> list[object]:
    convert: Callable[[object], object] = _text if kind is str else kind
    return [None if value is None else convert(value) for value in values]
