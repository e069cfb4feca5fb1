"""Some of many clients: in memory one bit a client, in a record their number and a digest."""

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import overload

import numpy as np

from fedgs.arrays import AnyArray, BoolArray
from fedgs.errors import OutputError

__all__ = ["FindMembers", "Members", "StoredMembers", "digest_of"]

FindMembers = Callable[[str], tuple[Sequence[str | int], AnyArray]]
"""Returns the keys of all N clients and the packed bits of the members with a digest."""


def digest_of(packed: AnyArray) -> str:
    """The digest of packed bits: 8 bytes in hexadecimal (BLAKE2b).

    >>> digest_of(np.packbits([True, False]))
    '2543263f89cfbb88'
    """
    return blake2b(np.ascontiguousarray(packed).data, digest_size=8).hexdigest()


class Members(Sequence[str | int]):
    """Some of the clients, by their own keys and in order.

    One bit a client is stored, so the record of a round with many clients takes little memory.

    Args:
        names: (N,) the keys of all clients, shared and not copied.
        inside: (N,) which of them belong to it.

    >>> members = Members(("a", "b", "c"), np.array([True, False, True]))
    >>> list(members), len(members), members == ["a", "c"]
    (['a', 'c'], 2, True)
    """

    __slots__ = ("_bits", "_length", "_names")

    def __init__(self, names: Sequence[str | int], inside: BoolArray) -> None:
        self._names = names
        self._bits = np.packbits(inside)
        self._length = int(np.count_nonzero(inside))

    def found(self) -> tuple[Sequence[str | int], AnyArray]:
        """The keys of all N clients, and (ceil(N/8),) bytes with a bit for each client."""
        return self._names, self._bits

    @property
    def digest(self) -> str:
        """The digest of the bits, see `digest_of`."""
        return digest_of(self._bits)

    def indices(self) -> AnyArray:
        """Ascending indices of the members among all clients."""
        names, bits = self.found()
        return np.flatnonzero(np.unpackbits(bits, count=len(names)))

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[str | int]:
        names = self.found()[0]
        return (names[k] for k in self.indices().tolist())

    @overload
    def __getitem__(self, position: int) -> str | int: ...
    @overload
    def __getitem__(self, position: slice) -> list[str | int]: ...
    def __getitem__(self, position: int | slice) -> str | int | list[str | int]:
        return list(self)[position]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Members):
            return len(self) == len(other) and self.digest == other.digest
        return (
            isinstance(other, Sequence)
            and not isinstance(other, str)
            and len(self) == len(other)
            and list(self) == list(other)
        )

    def __repr__(self) -> str:
        return f"<{len(self)} clients, digest {self.digest}>"


class StoredMembers(Members):
    """Members of which a record holds the number and the digest.

    Args:
        digest: of their bits.
        length: their number.
        find: finds the clients when they are asked for; None: they cannot be found.

    >>> members = StoredMembers("2543263f89cfbb88", 1, None)
    >>> len(members), members.digest
    (1, '2543263f89cfbb88')
    >>> list(members)
    Traceback (most recent call last):
    fedgs.errors.OutputError: a line alone holds no available clients; read the run's folder
    """

    __slots__ = ("_digest", "_find")

    def __init__(self, digest: str, length: int, find: FindMembers | None) -> None:
        self._digest = digest
        self._length = length
        self._find = find

    @property
    def digest(self) -> str:
        """The digest of the bits, see `digest_of`."""
        return self._digest

    def found(self) -> tuple[Sequence[str | int], AnyArray]:
        """The keys of all N clients, and the bits, read or drawn again.

        Raises:
            OutputError: they cannot be found, or differ from the digest.
        """
        if self._find is None:
            raise OutputError("a line alone holds no available clients; read the run's folder")
        return self._find(self._digest)
