"""Rows of a client table in a memory-mapped file, none of which is overwritten while it is in use.

This is shadow paging: a new row is written to a place that neither a live table nor the last
checkpoint refers to. A checkpoint then holds the places alone, and a process that is killed at any
point leaves every row of that checkpoint as it was.
"""

import weakref
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch

from fedgs.arrays import AnyArray, IntArray
from fedgs.errors import OutputError, UpdateError
from fedgs.file_writing import errors_named

__all__ = ["RowFile"]

SEGMENTS = 8  # that hold a whole table
_ZEROS = 1 << 20  # bytes written at a time where the file grows


class RowFile:
    """A file of rows of equal length and type, which the first row determines.

    A place is free again once no tensor refers to its row and the last checkpoint does not either.
    So a table of N rows, of which m change between two checkpoints, takes N + m places and those of
    one round. The file grows by zeros that are written, so that a full disk is an `OSError`.

    Args:
        path: of the file; what it held is lost when the first row is stored.
        count: rows of the table, >= 1; the file grows by an eighth of them.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = RowFile(Path(folder) / "rows.bin", 3)
    ...     file.store(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    def __init__(self, path: Path, count: int) -> None:
        self.path = path
        self._rows_per_segment = -(-count // SEGMENTS)
        self._length = 0  # numbers of a row; 0: no row was stored yet
        self._dtype = np.dtype(np.float32)
        self._segments: list[AnyArray] = []
        self._free: list[int] = []
        self._place_at: dict[int, int] = {}  # address -> place
        self._kept: frozenset[int] = frozenset()  # places of the last checkpoint
        self._waiting: set[int] = set()  # of these, the places that no tensor refers to
        self._changed: set[int] = set()  # segments written to since `sync`

    @classmethod
    def opened(
        cls, path: Path, count: int, places: IntArray, *, layout: tuple[int, str]
    ) -> "RowFile":
        """The file that a checkpoint refers to.

        Args:
            path: of the file.
            count: rows of the table.
            places: the places that the checkpoint refers to; all others are free.
            layout: of the file, as it was.

        Raises:
            OutputError: the file is missing or too short.
        """
        file = cls(path, count)
        if len(places) == 0:
            return file
        file._length, file._dtype = layout[0], np.dtype(layout[1])
        file._kept = frozenset(places.tolist())
        wanted = (max(file._kept) + 1) * file._row_bytes
        size = path.stat().st_size if path.is_file() else 0
        if size < wanted:
            raise OutputError(
                f"{path} must hold at least {wanted} bytes, which the checkpoint beside it refers "
                f"to, got {size}; remove the run's folder to restart it"
            )
        while file._capacity * file._row_bytes < size:
            file._map_segment()
        file._free = [place for place in file._free if place not in file._kept]
        file._waiting = set(file._kept)
        return file

    @property
    def layout(self) -> tuple[int, str]:
        """The numbers of a row, 0 before the first one, and their type as NumPy names it."""
        return self._length, self._dtype.name

    def store(self, vector: torch.Tensor) -> torch.Tensor:
        """A copy of a vector in the file, on the CPU; it must not be written to.

        Raises:
            UpdateError: the vector has another length or type than the first one.
            OSError: the file cannot grow.
        """
        values = vector.detach().cpu().numpy()
        if not self._length:
            self._begin(values)
        if values.shape != (self._length,) or values.dtype != self._dtype:
            raise UpdateError(
                f"the vectors of a ClientTable must be {self._length} numbers of {self._dtype}, "
                f"got {values.dtype} of shape {values.shape}"
            )
        if not self._free:
            self._map_segment()
        place = self._free.pop()
        row = self._row(place)
        row[:] = values
        self._changed.add(place // self._rows_per_segment)
        return self._lent(place, row)

    def load(self, places: Iterable[int]) -> dict[int, torch.Tensor]:
        """The rows at distinct places of the last checkpoint, by place."""
        rows = {}
        for place in places:
            self._waiting.discard(place)
            rows[place] = self._lent(place, self._row(place))
        return rows

    def place(self, row: torch.Tensor) -> int:
        """The place of a row that `store` or `load` returned."""
        return self._place_at[row.data_ptr()]

    def sync(self, places: IntArray) -> None:
        """Bring new rows to the disk, before a checkpoint that refers to these places is written.

        Until it is written, the places of the earlier checkpoint are kept too.
        """
        self._kept |= frozenset(places.tolist())
        for segment in sorted(self._changed):
            memory = self._segments[segment]
            assert isinstance(memory, np.memmap)
            memory.flush()
        self._changed.clear()

    def keep(self, places: IntArray) -> None:
        """Take note that the last checkpoint refers to these places, and to no others."""
        self._kept = frozenset(places.tolist())
        self._free += self._waiting - self._kept
        self._waiting &= self._kept

    def _begin(self, values: AnyArray) -> None:
        self._length, self._dtype = len(values), values.dtype
        self.path.write_bytes(b"")

    @property
    def _row_bytes(self) -> int:
        return self._length * self._dtype.itemsize

    @property
    def _capacity(self) -> int:
        """How many places there are."""
        return len(self._segments) * self._rows_per_segment

    def _map_segment(self) -> None:
        """Map the next segment, and write zeros where the file is too short for it."""
        begin, count = self._capacity, self._rows_per_segment
        wanted = (begin + count) * self._row_bytes
        with errors_named(self.path), self.path.open("ab") as file:
            while (missing := wanted - file.tell()) > 0:
                file.write(bytes(min(missing, _ZEROS)))
        self._segments.append(
            np.memmap(
                self.path,
                dtype=self._dtype,
                mode="r+",
                offset=begin * self._row_bytes,
                shape=(count, self._length),
            )
        )
        self._free += reversed(range(begin, begin + count))  # the first ones are used first

    def _row(self, place: int) -> AnyArray:
        segment, position = divmod(place, self._rows_per_segment)
        row: AnyArray = np.asarray(self._segments[segment])[position]
        return row

    def _lent(self, place: int, row: AnyArray) -> torch.Tensor:
        """The row as a tensor; the place is released when the last tensor of it has gone."""
        tensor = torch.from_numpy(row)
        self._place_at[tensor.data_ptr()] = place
        weakref.finalize(row, self._release, place).atexit = False
        return tensor

    def _release(self, place: int) -> None:
        if place in self._kept:
            self._waiting.add(place)
        else:
            self._free.append(place)
