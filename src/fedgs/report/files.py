"""Writing the files that users request: tables, figures, pages."""

import hashlib
import re
from pathlib import Path

from fedgs.errors import OutputError
from fedgs.records import write_atomically

__all__ = ["file_name", "write_file"]

_MOST_BYTES = 200  # file systems allow 255, of which endings and partial files need some


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

    A name of more than 200 bytes is cut and ends with a hash of the text.

    >>> file_name("fedgs alpha=0.5"), file_name("../x")
    ('fedgs_alpha=0.5', 'x')
    """
    name = re.sub(r"[^\w.=+,-]+", "_", text).strip("_.") or "run"
    if len(name.encode()) <= _MOST_BYTES:
        return name
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{name.encode()[: _MOST_BYTES - 9].decode(errors='ignore')}-{digest}"
