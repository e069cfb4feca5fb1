"""The output folder of a study: made or recognised, and kept from other processes."""

import contextlib
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path

from fedgs.errors import OutputError
from fedgs.experiments.locks import only_writer, only_writer_of_runs

__all__ = ["claim"]

MARKER = "fedgs.json"


@contextlib.contextmanager
def claim(folder: Path, runs: Sequence[str] | None = None) -> Iterator[None]:
    """Create or recognise the output folder, and keep other processes out of it.

    Others are kept out while the block runs. A `KeyboardInterrupt` that leaves the block says how
    to resume.

    Args:
        folder: of the study.
        runs: the names of the runs' folders that others are kept out of; None: the whole folder.

    Raises:
        OutputError: the folder holds something else, is not writable, or is in use.
    """
    marker = folder / MARKER
    try:
        if folder.exists():
            if not folder.is_dir():
                raise OutputError(f"--out must be a folder; {str(folder)!r} is a file")
            foreign = not marker.is_file() and any(map(_is_foreign, folder.iterdir()))
            if foreign and not marker.is_file():  # another part may have begun meanwhile
                raise OutputError(
                    "--out must be new, empty or a folder of fedgs runs; "
                    f"{str(folder)!r} holds something else"
                )
        folder.mkdir(parents=True, exist_ok=True)
        if not marker.is_file():
            _mark(marker)
        file = marker.open("r+")
    except OutputError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise OutputError(
            f"--out {str(folder)!r} cannot be written: {getattr(error, 'strerror', None) or error}"
        ) from None
    with file:
        descriptor = file.fileno()
        lock = (
            only_writer(folder, descriptor)
            if runs is None
            else only_writer_of_runs(folder, descriptor, runs)
        )
        with lock:
            try:
                yield
            except KeyboardInterrupt as interrupt:
                interrupt.args = interrupt.args or (
                    f"the same call with out={str(folder)!r} resumes where this one stopped",
                )
                raise


def _is_foreign(path: Path) -> bool:
    """Whether a file is none that this package makes before the marker, here or in another part."""
    return not path.name.startswith(MARKER)


def _mark(marker: Path) -> None:
    """Write the marker as a whole; processes that do so at the same time do not meet."""
    temporary = marker.with_name(f"{MARKER}.{secrets.token_hex(8)}")
    temporary.write_text(json.dumps({"format": 1}))
    os.replace(temporary, marker)
