"""Files written whole or not at all, arrays in files, and errors that name the file."""

import contextlib
import errno
import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgs.arrays import AnyArray, open_npz
from fedgs.errors import DataError, OutputError, shown

__all__ = ["check_file", "errors_named", "read_arrays", "save_arrays", "write_atomically"]


def check_file(path: str | os.PathLike[str], *, setting: str) -> None:
    """Refuse a path that is no file; any text is a path.

    Args:
        path: of the file.
        setting: what names it, for messages.

    Raises:
        DataError: no such file, or a folder.
    """
    if not os.path.isfile(path):
        reason = "is a folder" if os.path.isdir(path) else "does not exist"
        raise DataError(f"{setting} must be a file, got {shown(str(path))}, which {reason}")


def read_arrays(path: Path) -> dict[str, AnyArray]:
    """The arrays of an .npz.

    Raises:
        OutputError: the file is damaged.
    """
    try:
        with open_npz(path) as stored:
            return {key: stored[key] for key in stored.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise OutputError(
            f"{path} is damaged ({error}); remove the run's folder to restart it"
        ) from None


def save_arrays(path: Path, arrays: Mapping[str, npt.ArrayLike]) -> None:
    """Write an uncompressed .npz atomically."""
    temporary = path.with_name(path.name + ".part")
    keywords: dict[str, Any] = dict(arrays)  # `savez` has options of its own among its keywords
    with errors_named(path), temporary.open("wb") as file:
        np.savez(file, **keywords)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a whole file or nothing: to a temporary name, to the disk, then renamed."""
    temporary = path.with_name(path.name + ".part")
    with errors_named(path), temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


@contextlib.contextmanager
def errors_named(path: Path) -> Iterator[None]:
    """Raise errors of the file system, such as a full disk, with the name of the file."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or "the file could not be written completely, the disk may be full"
        raise OSError(error.errno or errno.EIO, reason, str(path)) from error
