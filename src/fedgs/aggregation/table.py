"""A vector for each client, which rounds replace row by row without copying the others."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from fedgs.arrays import AnyArray, FloatArray, IntArray

__all__ = ["ClientTable"]


class ClientTable:
    """N vectors of P numbers, immutable: `replaced` gives a table that shares the other rows.

    A row that was never set is zero and takes no memory, and rows that are the same tensor are held
    and saved once. Replacing m rows costs O(N + m·P), never O(N·P).

    Args:
        rows: for each client a (P,) tensor, or None for zeros.

    >>> table = ClientTable([None, None]).replaced(np.array([1]), torch.tensor([[3.0, 4.0]]))
    >>> table.stacked(np.array([0, 1]), like=torch.zeros(2))
    tensor([[0., 0.],
            [3., 4.]])
    """

    __slots__ = ("_rows",)

    def __init__(self, rows: Sequence[torch.Tensor | None]) -> None:
        self._rows = tuple(rows)

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
        result = like.new_zeros(len(clients), len(like))
        for place, client in enumerate(clients.tolist()):
            row = self._rows[client]
            if row is not None:
                result[place] = row
        return result

    def replaced(
        self, clients: IntArray, vectors: Sequence[torch.Tensor] | torch.Tensor
    ) -> "ClientTable":
        """The table with new vectors for these clients.

        Args:
            clients: (m,) indices.
            vectors: m vectors of P numbers. Rows of a matrix are copied, so that it is freed.
        """
        rows = list(self._rows)
        if isinstance(vectors, torch.Tensor):
            vectors = [vector.clone() for vector in vectors]
        for client, vector in zip(clients.tolist(), vectors, strict=True):
            rows[client] = vector
        return ClientTable(rows)

    def weighted_sum(self, weights: FloatArray, *, like: torch.Tensor) -> torch.Tensor:
        """The (P,) float64 sum of w_k times row k over all clients.

        Args:
            weights: (N,).
            like: (P,) vector with the device of the result.
        """
        total = torch.zeros_like(like, dtype=torch.float64)
        for row, weight in zip(self._rows, weights.tolist(), strict=True):
            if row is not None:
                total.add_(row.to(torch.float64), alpha=weight)
        return total

    def arrays(self) -> dict[str, AnyArray]:
        """The table as arrays that a file can hold; equal tensors are stored once."""
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
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> "ClientTable":
        """The table that `arrays` gave."""
        values = [torch.from_numpy(value.copy()) for value in arrays["values"]]
        return cls([None if place < 0 else values[place] for place in arrays["rows"].tolist()])
