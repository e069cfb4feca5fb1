"""Speeds of real devices, from a CSV file."""

import csv
import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from fedgs.arrays import FloatArray, frozen
from fedgs.errors import DataError, shown
from fedgs.traces.capacities import Capacities

__all__ = ["COLUMNS", "TRAINING_FACTOR", "Profile", "profile_of", "read_profile", "write_profile"]

TRAINING_FACTOR = 3.0
"""Seconds of training on an example over those of inference, for the backward pass."""
COLUMNS = ("device", "example_seconds", "down", "up")
_MOST_BYTES = 192 << 20


@dataclass(frozen=True, eq=False)
class Profile:
    """The speeds of D devices.

    Attributes:
        names: D distinct texts.
        example_seconds: (D,) seconds of training on one example, > 0.
        down: (D,) bit/s from the server, > 0.
        up: (D,) bit/s to the server, > 0.

    >>> len(Profile(("a",), np.array([0.1]), np.array([1e6]), np.array([1e6])).digest)
    64
    """

    names: Sequence[str]
    example_seconds: FloatArray
    down: FloatArray
    up: FloatArray

    @property
    def digest(self) -> str:
        """A hash of the names and numbers."""
        hashed = hashlib.sha256("\0".join(self.names).encode())
        for numbers in (self.example_seconds, self.down, self.up):
            hashed.update(np.ascontiguousarray(numbers, dtype="<f8").tobytes())
        return hashed.hexdigest()


def profile_of(capacities: Capacities) -> Profile:
    """A profile of FedScale's capacities.

    Training on an example takes `TRAINING_FACTOR` times as long as inference, and both directions
    have the same speed.

    >>> profile = profile_of(Capacities(("a",), np.array([162.0]), np.array([5648.0])))
    >>> profile.example_seconds.round(3).tolist(), profile.up.tolist()
    ([0.486], [5648000.0])
    """
    seconds = TRAINING_FACTOR * capacities.milliseconds / 1000
    speeds = 1000.0 * capacities.kilobits
    return Profile(capacities.names, seconds, speeds, speeds)


def read_profile(path: str | os.PathLike[str]) -> Profile:
    r"""The devices of a CSV file with the header `device,example_seconds,down,up`.

    Raises:
        DataError: no such file, or a line that does not fit; the sentence names the line.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "phones.csv")
    ...     _ = file.write_text("device,example_seconds,down,up\na,0.5,1e6,5e5\n")
    ...     read_profile(file).down.tolist()
    [1000000.0]
    """
    file = Path(path)
    try:
        status = file.stat()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"system.profile {str(path)!r} cannot be read: {reason}") from None
    if status.st_size > _MOST_BYTES:
        raise DataError(
            f"system.profile {str(path)!r} must have at most {_MOST_BYTES >> 20} MB, got "
            f"{status.st_size / 2**20:.1f} MB"
        )
    return _read(str(file.resolve()), str(path), (status.st_size, status.st_mtime_ns))


@lru_cache(maxsize=8)
def _read(file: str, path: str, version: tuple[int, int]) -> Profile:
    names: dict[str, None] = {}
    rows: list[tuple[float, ...]] = []
    try:
        with open(file, newline="", encoding="utf-8-sig") as lines:
            reader = csv.reader(lines)
            header = [title.strip() for title in next(reader, [])]
            if header != list(COLUMNS):
                raise DataError(
                    f"system.profile {path!r} must begin with the line {','.join(COLUMNS)}, got "
                    f"{shown(','.join(header))}"
                )
            for row in reader:
                if row:
                    name, numbers = _checked(
                        row, f"system.profile {path!r}, line {reader.line_num}"
                    )
                    if name in names:
                        raise DataError(
                            f"system.profile {path!r}, line {reader.line_num}: devices must be "
                            f"distinct, got {shown(name)} twice"
                        )
                    names[name] = None
                    rows.append(numbers)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"system.profile {path!r} is not a readable CSV file: {reason}") from None
    if not rows:
        raise DataError(f"system.profile {path!r} must have at least one device, got none")
    columns = [frozen(np.array(column)) for column in zip(*rows, strict=True)]
    return Profile(tuple(names), *columns)


def _checked(row: Sequence[str], where: str) -> tuple[str, tuple[float, ...]]:
    """The name and the three numbers of a line."""
    if len(row) != len(COLUMNS):
        raise DataError(f"{where} must have {len(COLUMNS)} entries, got {len(row)}")
    numbers = []
    for title, text in zip(COLUMNS[1:], row[1:], strict=True):
        try:
            number = math.nan if "_" in text else float(text)  # Python reads 1_0 as 10
        except ValueError:
            number = math.nan
        if not 0 < number < math.inf:
            raise DataError(f"{where}: {title} must be a number > 0, got {shown(text)}")
        numbers.append(number)
    name = row[0].strip()
    if not name:
        raise DataError(f"{where}: device must have a name, got an empty text")
    return name, tuple(numbers)


def write_profile(profile: Profile, path: str | os.PathLike[str]) -> Path:
    """Write a profile as CSV, completely or not at all; returns its path."""
    target = Path(path)
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    columns = (profile.example_seconds, profile.down, profile.up)
    try:
        with partial.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            numbers = zip(*(column.tolist() for column in columns), strict=True)
            for name, row in zip(profile.names, numbers, strict=True):
                writer.writerow([name, *map(repr, row)])
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target
