"""Runs as a data frame of pandas."""

from collections.abc import Iterable, Sequence
from typing import Any

from fedgs.export.library import library
from fedgs.export.rows import KINDS, columns_of
from fedgs.report.run_view import Run
from fedgs.report.subjects import as_run_list

__all__ = ["to_dataframe"]


def to_dataframe(runs: Run | Iterable[Run]) -> Any:
    """One row for each run and record, as a `pandas.DataFrame`.

    The columns are `run`, `data`, `availability`, `method`, `seed`, `state`, the fields of
    `fedgs.records.Record`, and the settings in which the runs differ by their dotted keys. A row
    holds what the record of the round holds: metrics are NaN where the round was not evaluated, and
    `available`, `cohort`, `draws` and `weights` are lists or None. Integers that can be missing
    have the type `Int64`.

    Args:
        runs: as `fedgs.report.read_runs` returns them, finished or not, or the results of
            `fedgs.compare`.

    Raises:
        ConfigError: not runs, or none.
        MissingExtraError: pandas is not installed.
    """
    columns = columns_of(as_run_list(runs, "to_dataframe"))
    pandas = library("pandas", "to_dataframe")
    return pandas.DataFrame(
        {
            name: pandas.Series(values, dtype=_dtype(KINDS.get(name), values))
            for name, values in columns.items()
        }
    )


def _dtype(kind: type | None, values: Sequence[object]) -> str | None:
    """The type of a column; None: pandas finds it, as for text."""
    if kind is None:
        kinds = {type(value) for value in values if value is not None}
        kind = float if kinds == {int, float} else kinds.pop() if len(kinds) == 1 else object
    if kind is int:
        return "Int64" if None in values else "int64"
    if kind is bool:
        return "boolean" if None in values else "bool"
    return {float: "float64", str: None}.get(kind, "object")
