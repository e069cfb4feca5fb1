"""Recorded availability: a matrix from the user's file."""

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BeforeValidator

from fedgs.arrays import AnyArray, BoolArray, FloatArray
from fedgs.availability.base import Availability
from fedgs.client_names import warn_of_text_order
from fedgs.clients import Clients
from fedgs.errors import ConfigError, DataError
from fedgs.file_writing import check_file
from fedgs.registry import register

__all__ = ["AvailabilityFile"]

_CELLS: dict[str, bool | None] = {"0": False, "1": True, "false": False, "true": True}


@register("availability", "file")
class AvailabilityFile(Availability):
    r"""Availability is read from a boolean (N, T) matrix: rates are 0 and 1.

    The file is read once, when it is first needed. A `.npy` file holds booleans or the numbers 0
    and 1. A `.csv` file has one line per client, in the clients' order, and one comma-separated
    value per round: 0, 1, true or false, or 0.0 and 1.0, without a header.

    Attributes:
        path: of the file, `.npy` or `.csv`; a relative path starts at the working folder.

    Raises:
        DataError: from `check` and `rates`: no such file, not a matrix, other values than these,
            lines of different length.
        ConfigError: from `check` and `rates`: not one row per client, or fewer columns than rounds.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "available.csv")
    >>> _ = path.write_text("1,0,1\n0,0,1\n")
    >>> AvailabilityFile(path=path).rates(2, Clients(("a", "b"), np.array([5, 5])))
    array([1., 1.])
    >>> folder.cleanup()
    """

    path: Annotated[
        str, BeforeValidator(lambda path: str(path) if isinstance(path, Path) else path)
    ]

    def check(self, clients: Clients, rounds: int) -> None:
        """As for every mode; also one row per client and at least one column per round."""
        columns = self._rows_of(clients).shape[1]
        warn_of_text_order(clients.names, f"availability.path {self.path!r}")
        if rounds > columns:
            raise ConfigError(
                f"training.rounds must be at most {columns}, the number of columns of "
                f"availability.path {self.path!r}, got {rounds}"
            )
        super().check(clients, rounds)

    def rates(self, round: int, clients: Clients) -> FloatArray:
        """(N,) the column of the round, 0 or 1; see the class for the errors."""
        matrix = self._rows_of(clients)
        if round >= matrix.shape[1]:
            raise ConfigError(
                f"availability.path {self.path!r} has {matrix.shape[1]} columns, there is none for "
                f"round {round}"
            )
        return matrix[:, round].astype(np.float64)

    @cached_property
    def matrix(self) -> BoolArray:
        """(N, T) the content of the file."""
        path = Path(self.path)
        if path.suffix not in (".npy", ".csv"):
            raise ConfigError(f"availability.path must end in .npy or .csv, got {self.path!r}")
        check_file(path, setting="availability.path")
        return _read_npy(path) if path.suffix == ".npy" else _read_csv(path)

    @property
    def content_digest(self) -> str:
        """A hash of the matrix, which stands for the path in a run's identity."""
        return hashlib.sha256(
            repr(self.matrix.shape).encode() + np.packbits(self.matrix).tobytes()
        ).hexdigest()

    def _rows_of(self, clients: Clients) -> BoolArray:
        if len(self.matrix) != len(clients):
            raise ConfigError(
                f"availability.path {self.path!r} must have {len(clients)} rows, one a client, "
                f"got {len(self.matrix)}"
            )
        return self.matrix


def _read_npy(path: Path) -> BoolArray:
    try:
        matrix: AnyArray = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        # An array of objects is a pickle, which is never loaded. NumPy 2.4 has no error class for
        # it, only this text.
        if "Object arrays" in str(error):
            raise DataError(
                f"availability.path {str(path)!r} must hold booleans or the numbers 0 and 1, got "
                "an array of objects; save it with .astype(bool)"
            ) from None
        raise DataError(
            f"availability.path {str(path)!r} is not a readable .npy file: {error}"
        ) from None
    if matrix.ndim != 2 or matrix.size == 0:
        raise DataError(
            f"availability.path {str(path)!r} must hold a matrix, clients x rounds, got shape "
            f"{matrix.shape}"
        )
    if matrix.dtype != np.bool_ and not (
        matrix.dtype.kind in "iuf" and np.isin(matrix, (0, 1)).all()
    ):
        raise DataError(
            f"availability.path {str(path)!r} must hold booleans or the numbers 0 and 1 alone"
        )
    return matrix.astype(np.bool_)


def _read_csv(path: Path) -> BoolArray:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise DataError(f"availability.path {str(path)!r} is not a text file") from None
    rows = [
        _csv_row(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()
    ]
    if not rows:
        raise DataError(
            f"availability.path {str(path)!r} must have a line a client, got an empty file"
        )
    for row in rows:
        if len(row) != len(rows[0]):
            raise DataError(
                f"availability.path {str(path)!r} must have lines of equal length, got "
                f"{len(rows[0])} and {len(row)} values"
            )
    return np.array(rows, dtype=np.bool_)


def _csv_row(path: Path, number: int, line: str) -> list[bool]:
    cells = [cell.strip().lower() for cell in line.split(",")]
    values = [_CELLS.get(cell, _zero_or_one(cell)) for cell in cells]
    for cell, value in zip(cells, values, strict=True):
        if value is None:
            raise DataError(
                f"availability.path {str(path)!r} must hold 0, 1, true or false, got {cell!r} in "
                f"line {number}"
            )
    return [bool(value) for value in values]


def _zero_or_one(cell: str) -> bool | None:
    """The value of a number such as 1.0 or 0e0, as written by other programs; else None."""
    try:
        number = float(cell)
    except ValueError:
        return None
    return number == 1 if number in (0, 1) else None
