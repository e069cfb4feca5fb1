"""The output folder of a study: made or recognised, and kept from other processes."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from fedgs.errors import OutputError
from fedgs.experiments.locks import only_writer
from fedgs.records import write_atomically

__all__ = ["claim"]

MARKER = "fedgs.json"


@contextlib.contextmanager
def claim(folder: Path) -> Iterator[None]:
    """Create or recognise the output folder, and keep other processes out of it.

    Others are kept out while the block runs. A `KeyboardInterrupt` that leaves the block says how
    to resume.

    Raises:
        OutputError: the folder holds something else, is not writable, or is in use.
    """
    marker = folder / MARKER
    try:
        if folder.exists():
            if not folder.is_dir():
                raise OutputError(f"--out must be a folder; {str(folder)!r} is a file")
            if not marker.is_file() and any(folder.iterdir()):
                raise OutputError(
                    "--out must be new, empty or a folder of fedgs runs; "
                    f"{str(folder)!r} holds something else"
                )
        folder.mkdir(parents=True, exist_ok=True)
        if not marker.is_file():
            write_atomically(marker, json.dumps({"format": 1}).encode())
        file = marker.open("r+")
    except OutputError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise OutputError(
            f"--out {str(folder)!r} cannot be written: {getattr(error, 'strerror', None) or error}"
        ) from None
    with file, only_writer(folder, file.fileno()):
        try:
            yield
        except KeyboardInterrupt as interrupt:
            interrupt.args = interrupt.args or (
                f"the same call with out={str(folder)!r} resumes where this one stopped",
            )
            raise
