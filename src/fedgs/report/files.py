"""Writing the files that users request: tables, figures, pages."""

from pathlib import Path

from fedgs.errors import OutputError
from fedgs.records import write_atomically

__all__ = ["write_file"]


def write_file(path: Path, content: bytes) -> None:
    """Write a whole file; a missing folder is made.

    Raises:
        OutputError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)
    except OSError as error:
        raise OutputError(f"{str(path)!r} cannot be written: {error.strerror or error}") from None
