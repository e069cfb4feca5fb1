"""Writing the files that users request: tables, figures, pages."""

import re
from pathlib import Path

from fedgs.errors import OutputError
from fedgs.records import write_atomically

__all__ = ["file_name", "write_file"]


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


def file_name(text: str) -> str:
    """A text as the name of a file or folder: letters, digits and `_.=+,-`.

    >>> file_name("fedgs alpha=0.5"), file_name("../x")
    ('fedgs_alpha=0.5', 'x')
    """
    return re.sub(r"[^\w.=+,-]+", "_", text).strip("_.") or "run"
