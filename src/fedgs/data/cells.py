"""Tables: columns of cells, read from CSV and Parquet files, and turned into numbers."""

import csv
import gzip
import importlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

from fedgs.arrays import AnyArray, FloatArray
from fedgs.data.numeric import is_missing, is_number_type
from fedgs.errors import DataError, require_extra
from fedgs.suggestions import nearest

__all__ = ["PARQUET", "Table", "read_table"]

_MAX_EXACT = 2**24  # every integer up to here is a float32
PARQUET = (".parquet", ".pq")
_CSV_GAPS = frozenset(("", "NA", "NaN", "nan"))  # CSV has no other way to say "missing"


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of one length by name.

    Attributes:
        columns: name -> (n,) numbers, booleans, or objects such as texts.
        where: what messages call the table.
        place: the words for one row, such as "line 7".
        prefix: what precedes a setting's name in messages: "data." in a configuration.
        gaps: stripped texts that say that a cell is missing, besides the empty text.
    """

    columns: Mapping[str, AnyArray]
    where: str
    place: Callable[[int], str] = "row {}".format
    prefix: str = ""
    gaps: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def column(self, name: str, setting: str) -> AnyArray:
        """The column that a setting names.

        Raises:
            DataError: there is no such column; the message has the nearest name.
        """
        if name not in self.columns:
            raise DataError(
                f"{self.prefix}{setting} = {name!r} is not among the columns of {self.where} "
                f"({', '.join(self.columns)}){nearest(name, self.columns)}"
            )
        return self.columns[name]

    def numbers(self, name: str, setting: str) -> FloatArray:
        """(n,) finite numbers of a column.

        Raises:
            DataError: a missing cell, a text, a number that is not finite or that float32 does not
                hold; the message has column and line.
        """
        column = self.column(name, setting)
        try:
            numbers = column.astype(np.float64) if column.dtype.kind in "biufO" else None
        except (ValueError, TypeError, OverflowError):
            numbers = None
        if numbers is None:
            self._refuse_cell(column.tolist(), name)
        assert numbers is not None
        with np.errstate(over="ignore"):
            wrong = np.flatnonzero(~np.isfinite(numbers.astype(np.float32)))
        if len(wrong):
            row = int(wrong[0])
            cell = column.tolist()[row]
            if is_missing(cell):
                raise self._missing(name, row)
            allowed = (
                "must be within float32's range of +-3.4e38"
                if np.isfinite(numbers[row])
                else "must be finite"
            )
            raise self._wrong(name, row, allowed, str(cell))
        large = np.flatnonzero(np.abs(numbers) > _MAX_EXACT)
        if len(large) and np.array_equal(numbers, np.floor(numbers)):
            changed = large[numbers[large].astype(np.float32) != numbers[large]]
            if len(changed):
                row = int(changed[0])
                raise self._wrong(
                    name,
                    row,
                    "must hold integers that float32 represents exactly, since models receive "
                    "float32",
                    f"{numbers[row]:.0f}",
                    f"; leave ids out of {self.prefix}features",
                )
        return numbers

    def labels(self, name: str, setting: str) -> AnyArray:
        """(n,) numbers where all cells are numbers, else objects such as texts; none is missing."""
        column = self.column(name, setting)
        if column.dtype.kind in "biu":
            return column
        cells = column.tolist()
        missing = next((row for row, cell in enumerate(cells) if self._is_gap(cell)), None)
        if missing is not None:
            raise self._missing(name, missing)
        if all(map(is_number_type, set(map(type, cells)))):
            return np.array(cells)
        if all(type(cell) is str and _is_number(cell) for cell in cells):
            whole = all(map(_is_integer, cells))
            return np.array([int(cell) if whole else float(cell) for cell in cells])
        objects = np.empty(len(cells), dtype=object)
        objects[:] = cells
        return objects

    def indicators(self, name: str, setting: str) -> tuple[list[str], FloatArray]:
        """Names and (n, v) indicators of the v distinct values of a column, in sorted order."""
        cells = [str(cell) for cell in self.labels(name, setting).tolist()]
        values, place = np.unique(np.array(cells), return_inverse=True)
        return [f"{name}={value}" for value in values.tolist()], np.eye(len(values))[place]

    def _is_gap(self, cell: object) -> bool:
        return is_missing(cell) or (isinstance(cell, str) and cell.strip() in self.gaps)

    def _refuse_cell(self, cells: Sequence[object], name: str) -> None:
        for row, cell in enumerate(cells):
            if self._is_gap(cell):
                raise self._missing(name, row)
            if isinstance(cell, str):
                try:
                    float(cell)
                except ValueError:
                    raise self._wrong(
                        name,
                        row,
                        "must hold numbers",
                        f"the text {cell[:40]!r}",
                        f"; {self.prefix}one_hot encodes texts",
                    ) from None
            elif not is_number_type(type(cell)):
                raise self._wrong(name, row, "must hold numbers", f"a {type(cell).__name__}")
        raise DataError(f"{self.where}: column {name!r} must hold numbers")

    def _missing(self, name: str, row: int) -> DataError:
        return DataError(
            f"{self.where}: column {name!r} must have no missing cell, got one in {self.place(row)}"
        )

    def _wrong(self, name: str, row: int, allowed: str, got: str, hint: str = "") -> DataError:
        return DataError(
            f"{self.where}: column {name!r} {allowed}, got {got} in {self.place(row)}{hint}"
        )


def read_table(path: Path, *, delimiter: str | None = None) -> Table:
    """The table in a CSV or Parquet file.

    Args:
        path: a file that ends in .parquet or .pq, else CSV in UTF-8 with a line of names, which may
            be compressed (.gz).
        delimiter: between the cells of CSV; None: a tab for .tsv, else a comma.

    Raises:
        DataError: no such file, no row, a repeated or empty name, a line with another number of
            cells, bytes that are not UTF-8, a broken file.
        MissingExtraError: Parquet without pyarrow.
    """
    if not path.is_file():
        raise DataError(f"data.path: no file {str(path)!r}")
    if path.suffix in PARQUET:
        return _read_parquet(path)
    tabs = path.suffix == ".tsv" or path.name.endswith(".tsv.gz")
    table = _read_csv(path, delimiter or ("\t" if tabs else ","))
    if not len(table):
        raise DataError(f"{path} must have at least one row below the line of names, got none")
    return table


def _read_csv(path: Path, delimiter: str) -> Table:
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        with _opened(path) as file:
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            names = _names(next(reader, []), path)
            for row in reader:
                if row and len(row) != len(names):
                    raise DataError(
                        f"{path} must have {len(names)} cells in each line, got {len(row)} in line "
                        f"{reader.line_num}"
                    )
                if row:
                    rows.append(row)
                    lines.append(reader.line_num)
    except (csv.Error, UnicodeDecodeError, EOFError, OSError, zlib.error) as error:
        raise DataError(f"{path} is not readable as CSV in UTF-8: {error}") from None
    columns = {
        name: np.array([row[place] for row in rows], dtype=object)
        for place, name in enumerate(names)
    }
    return Table(columns, str(path), lambda row: f"line {lines[row]}", "data.", _CSV_GAPS)


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _read_parquet(path: Path) -> Table:
    try:
        arrow, parquet = map(importlib.import_module, ("pyarrow", "pyarrow.parquet"))
    except ImportError:
        raise require_extra("pyarrow", "export") from None
    try:
        stored = parquet.read_table(path)
    except (arrow.ArrowException, OSError) as error:
        raise DataError(
            f"{path} is not readable as Parquet: {str(error).splitlines()[0]}"
        ) from None
    names = _names(stored.column_names, path)
    columns = {
        name: np.asarray(column.to_numpy())
        for name, column in zip(names, stored.columns, strict=True)
    }
    if not stored.num_rows:
        raise DataError(f"{path} must have at least one row, got none")
    return Table(columns, str(path), prefix="data.")


def _names(names: Sequence[str], path: Path) -> list[str]:
    """The stripped names of columns, each of them once."""
    stripped = [name.strip() for name in names]
    if not stripped:
        raise DataError(f"{path} must begin with a line of column names, got an empty file")
    for place, name in enumerate(stripped):
        if not name:
            raise DataError(f"{path} must name every column, got an empty name in column {place}")
        if stripped.index(name) != place:
            raise DataError(f"{path} must have each column once, got {name!r} twice")
    return stripped


def _is_number(text: str) -> bool:
    """Whether a text is an integer or a decimal number with a point."""
    if _is_integer(text):
        return True
    head, point, tail = text.partition(".")
    return point == "." and _is_integer(head) and tail.isascii() and tail.isdigit()


def _is_integer(text: str) -> bool:
    """Whether a text is the usual form of an integer: "007" is none, since it is a name."""
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and (digits == "0" or digits[0] != "0")
