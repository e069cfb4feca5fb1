"""A vector for each client, which rounds replace row by row without copying the others."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from fedgs.aggregation.row_file import RowFile
from fedgs.arrays import AnyArray, FloatArray, IntArray

__all__ = ["ClientTable"]


class ClientTable:
    """N vectors of P numbers, immutable: `replaced` gives a table that shares the other rows.

    A row that was never set is zero and takes no memory, and rows that are the same tensor are held
    and saved once. Replacing m rows costs O(N + m·P), never O(N·P).

    Rows are in memory, or in a memory-mapped file (`kept_in`); then a checkpoint holds their places
    in the file and not the rows.

    Args:
        rows: for each client a (P,) tensor, or None for zeros.

    >>> table = ClientTable([None, None]).replaced(np.array([1]), torch.tensor([[3.0, 4.0]]))
    >>> table.stacked(np.array([0, 1]), like=torch.zeros(2))
    tensor([[0., 0.],
            [3., 4.]])
    """

    __slots__ = ("_file", "_rows")

    def __init__(self, rows: Sequence[torch.Tensor | None]) -> None:
        self._rows = tuple(rows)
        self._file: RowFile | None = None

    @classmethod
    def _in_file(cls, rows: Sequence[torch.Tensor | None], file: RowFile | None) -> "ClientTable":
        """The table of rows that are in this file already; None: in memory."""
        table = cls(rows)
        table._file = file
        return table

    def kept_in(self, path: Path) -> "ClientTable":
        """The table with its rows in a new memory-mapped file, as well as those that replace them.

        Args:
            path: of the file; what it held is lost.
        """
        file = RowFile(path, len(self))
        given = [row for row in self._rows if row is not None]
        stored = iter(_stored(file, given))
        return self._in_file([None if row is None else next(stored) for row in self._rows], file)

    @classmethod
    def zeros(cls, count: int) -> "ClientTable":
        """A table of `count` zero vectors."""
        return cls([None] * count)

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, client: int) -> torch.Tensor | None:
        """The (P,) vector of a client; None: it was never set."""
        return self._rows[client]

    def stacked(self, clients: IntArray, *, like: torch.Tensor) -> torch.Tensor:
        """The (m, P) vectors of these clients; rows that were never set are zero.

        Args:
            clients: (m,) indices.
            like: (P,) vector with the type and device of the result.
        """
        rows = [self._rows[client] for client in clients.tolist()]
        known = next((row for row in rows if row is not None), None)
        if known is None:
            return like.new_zeros(len(clients), len(like))
        return torch.stack([torch.zeros_like(known) if row is None else row for row in rows]).to(
            like
        )

    def replaced(
        self, clients: IntArray, vectors: Sequence[torch.Tensor] | torch.Tensor
    ) -> "ClientTable":
        """The table with new vectors for these clients.

        Args:
            clients: (m,) indices.
            vectors: m vectors of P numbers. Rows of a matrix are copied, so that it is freed.
        """
        rows = list(self._rows)
        if self._file is not None:
            vectors = _stored(self._file, list(vectors))
        elif isinstance(vectors, torch.Tensor):
            vectors = [vector.clone() for vector in vectors]
        for client, vector in zip(clients.tolist(), vectors, strict=True):
            rows[client] = vector
        return self._in_file(rows, self._file)

    def weighted_sum(self, weights: FloatArray, *, like: torch.Tensor) -> torch.Tensor:
        """The (P,) float64 sum of w_k times row k over all clients.

        Args:
            weights: (N,).
            like: (P,) vector with the device of the result.
        """
        total = torch.zeros_like(like, dtype=torch.float64)
        for row, weight in zip(self._rows, weights.tolist(), strict=True):
            if row is not None:
                total.add_(row.to(total), alpha=weight)
        return total

    def arrays(self) -> dict[str, AnyArray]:
        """The table as arrays that a checkpoint can hold; equal tensors are stored once.

        "rows" is the place of each client's row, -1 for a row that was never set. "values" holds
        the rows of a table in memory, by place; "file", "length" and "dtype" say where those of a
        table in a file are.
        """
        if self._file is not None:
            length, dtype = self._file.layout
            about = {"file": self._file.path.name, "length": length, "dtype": dtype}
            return {
                "rows": self._places(),
                **{key: np.array(value) for key, value in about.items()},
            }
        places: dict[int, int] = {}
        unique: list[torch.Tensor] = []
        of_client = np.full(len(self._rows), -1, dtype=np.int64)
        for client, row in enumerate(self._rows):
            if row is not None:
                if id(row) not in places:
                    places[id(row)] = len(unique)
                    unique.append(row)
                of_client[client] = places[id(row)]
        values = torch.stack(unique).cpu().numpy() if unique else np.empty((0, 0), np.float32)
        return {"rows": of_client, "values": values}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], folder: Path) -> "ClientTable":
        """The table that `arrays` gave.

        Args:
            arrays: the table.
            folder: where the file of a table in a file is.

        Raises:
            OutputError: this file is missing or too short.
        """
        places = arrays["rows"]
        if "file" in arrays:
            used = np.unique(places[places >= 0])
            path, layout = (
                folder / str(arrays["file"]),
                (int(arrays["length"]), str(arrays["dtype"])),
            )
            file = RowFile.opened(path, len(places), used, layout=layout)
            rows = file.load(used.tolist())
            return cls._in_file([rows.get(place) for place in places.tolist()], file)
        values = [torch.from_numpy(value.copy()) for value in arrays["values"]]
        return cls([None if place < 0 else values[place] for place in places.tolist()])

    def sync(self) -> None:
        """Bring rows that are in a file to the disk, before a checkpoint of this table."""
        if self._file is not None:
            self._file.sync(self._used())

    def keep(self) -> None:
        """Take note that the last checkpoint holds this table; no earlier one is needed."""
        if self._file is not None:
            self._file.keep(self._used())

    def _used(self) -> IntArray:
        """The places in the file that rows are at."""
        places = self._places()
        return np.unique(places[places >= 0])

    def _places(self) -> IntArray:
        """(N,) the place of each row in the file, -1 for a row that was never set."""
        assert self._file is not None
        place = self._file.place
        return np.array([-1 if row is None else place(row) for row in self._rows], dtype=np.int64)


def _stored(file: RowFile, vectors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Copies of the vectors in the file; vectors that are the same tensor are stored once."""
    copies: dict[int, torch.Tensor] = {}
    for vector in vectors:
        if id(vector) not in copies:
            copies[id(vector)] = file.store(vector)
    return [copies[id(vector)] for vector in vectors]
