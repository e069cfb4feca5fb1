"""The arrays of a round's replies: in memory up to a limit, beyond it in a temporary file.

So a cohort of large models needs the memory of a few of them, and the space of all on disk.
"""

import logging
import tempfile
from typing import IO

import numpy as np
from flwr.app import Array, ArrayRecord

from fedgs.arrays import AnyArray

__all__ = ["LIMIT", "Spool"]

_logger = logging.getLogger(__name__)
LIMIT = 64 * 2**20  # bytes


class Spool:
    """Keeps the arrays of replies until the end of a round.

    The file is in the folder for temporary files (`TMPDIR`). Only its owner can read it, and the
    operating system removes it at the end of the process at the latest.

    Args:
        limit: bytes that stay in memory.

    >>> record = ArrayRecord({"w": Array(np.arange(3.0))})
    >>> spool = Spool(limit=0)
    >>> kept = spool.kept(record)
    >>> kept["w"].data, kept["w"].numpy()
    (b'', array([0., 1., 2.]))
    >>> spool.close()
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._left = limit
        self._file: IO[bytes] | None = None
        self._is_full = False

    def kept(self, record: ArrayRecord) -> ArrayRecord:
        """The same arrays; those that do not fit into memory are moved to the file.

        These are read again at each call of `numpy`. If the file cannot be written, they stay in
        memory, and a warning says so.

        The record itself is returned if all its arrays fit into memory.
        """
        size = sum(len(array.data) for array in record.values())
        if size <= self._left:
            self._left -= size
            return record
        kept = ArrayRecord()
        for name, array in record.items():
            kept[name] = self._kept(array)
        return kept

    def _kept(self, array: Array) -> Array:
        size = len(array.data)
        if size > self._left and not self._is_full:
            try:
                return self._written(array)
            except OSError as error:
                self._is_full = True
                _logger.warning(
                    "the replies of this round stay in memory, since the folder for temporary "
                    "files cannot be written: %s",
                    error,
                )
        self._left -= size
        return array

    def close(self) -> None:
        """Remove the file; arrays in it can no longer be read."""
        if self._file is not None:
            self._file.close()

    def _written(self, array: Array) -> Array:
        if self._file is None:
            # Unbuffered, so that a full disk is noticed here and not in a later read.
            self._file = tempfile.TemporaryFile(prefix="fedgs-", buffering=0)  # noqa: SIM115
        start = self._file.seek(0, 2)
        left = memoryview(array.data)
        while left:
            left = left[self._file.write(left) :]
        return _OnDisk(array, self._file, start)


class _OnDisk(Array):  # type: ignore[misc, unused-ignore]
    """An array whose bytes are in a file."""

    def __init__(self, array: Array, file: IO[bytes], start: int) -> None:
        super().__init__(dtype=array.dtype, shape=array.shape, stype=array.stype, data=b"")
        self._file, self._start = file, start

    def numpy(self) -> AnyArray:
        """The values, read from the file."""
        self._file.seek(self._start)
        values: AnyArray = np.load(self._file, allow_pickle=False)
        return values
