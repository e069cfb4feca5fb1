"""The messages of the ring protocol as bytes: a header and a body.

The header holds kind, sender, recipient and batch. All messages that arrive are parsed here, and
anything malformed is refused by a `ProtocolError` that names the message.
"""

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from fedgs.arrays import IntArray
from fedgs.errors import ProtocolError
from fedgs.secure.fixed_point import RingArray

__all__ = [
    "DEALER",
    "EVERYBODY",
    "HEADER_BYTES",
    "SERVER",
    "Head",
    "Kind",
    "Message",
    "describe",
    "each",
    "header",
    "kind_name",
    "numbers",
    "pack",
    "pack_numbers",
    "pack_words",
    "party_name",
    "single",
    "words",
]

SERVER = 2**32 - 1
DEALER = 2**32 - 2
EVERYBODY = 2**32 - 3

_HEADER = struct.Struct(">4sBIIII")  # mark, kind, sender, recipient, batch, length of the body
_MARK = b"FGS1"
HEADER_BYTES = _HEADER.size


class Kind(IntEnum):
    """The kind of a message.

    Within a batch a party sends each kind to another party at most once.
    """

    INVITATION = 1
    HELLO = 2
    DIRECTORY = 3
    ASSIGNMENT = 4
    DEALING = 5
    MASKED = 6
    CORRECTIONS = 7
    DELIVERY = 8
    BLINDED = 9
    RETURN = 10
    SHARES = 11
    SEALED_VECTOR = 12
    SEALED_CORRECTION = 13
    SEALED_U = 14


_KINDS = frozenset(Kind)


class Head(NamedTuple):
    """The fields of a header: what, from whom, to whom and in which batch."""

    kind: int
    sender: int
    recipient: int
    batch: int


class Message(NamedTuple):
    """A parsed message; `raw` holds all its bytes, header included."""

    kind: int
    sender: int
    recipient: int
    batch: int
    body: bytes
    raw: bytes

    @property
    def head(self) -> Head:
        """The fields of its header."""
        return Head(self.kind, self.sender, self.recipient, self.batch)


def party_name(party: int) -> str:
    """A party's name in error messages.

    >>> party_name(3), party_name(SERVER)
    ('client 3', 'the server')
    """
    return {SERVER: "the server", DEALER: "the dealer", EVERYBODY: "everybody"}.get(
        party, f"client {party}"
    )


def kind_name(kind: int) -> str:
    """A kind's name in error messages, such as "sealed u"."""
    return Kind(kind).name.lower().replace("_", " ") if kind in _KINDS else f"unknown kind {kind}"


def describe(message: Message) -> str:
    """How error messages name a message.

    >>> describe(Message(Kind.SEALED_U, 3, 5, 0, b"", b""))
    "message 'sealed u' of batch 0 from client 3 to client 5"
    """
    return (
        f"message '{kind_name(message.kind)}' of batch {message.batch} from "
        f"{party_name(message.sender)} to {party_name(message.recipient)}"
    )


def header(head: Head, length: int) -> bytes:
    """The header, as bytes, of a message whose body has `length` bytes."""
    return _HEADER.pack(_MARK, *head, length)


def pack(head: Head, body: bytes) -> bytes:
    """Header and body as bytes.

    >>> len(pack(Head(Kind.HELLO, sender=0, recipient=SERVER, batch=0), b"abc")) - HEADER_BYTES
    3
    """
    return header(head, len(body)) + body


def each(data: bytes, *, where: str) -> Iterator[Message]:
    """The messages in `data`, one after another.

    Raises:
        ProtocolError: `data`, called `where` in the text, is truncated or not of this protocol.
    """
    start = 0
    while start < len(data):
        if len(data) - start < HEADER_BYTES:
            raise ProtocolError(
                f"{where} is truncated: {len(data) - start} bytes where a header has {HEADER_BYTES}"
            )
        mark, kind, sender, recipient, batch, length = _HEADER.unpack_from(data, start)
        if mark != _MARK or kind not in _KINDS:
            raise ProtocolError(f"{where} is malformed: it is not a message of this protocol")
        stop = start + HEADER_BYTES + length
        raw = data[start:stop]
        message = Message(kind, sender, recipient, batch, raw[HEADER_BYTES:], raw)
        if len(data) < stop:
            raise ProtocolError(
                f"{describe(message)} is truncated: its body has {len(message.body)} of {length} "
                "bytes"
            )
        yield message
        start = stop


def single(data: bytes, *, where: str) -> Message:
    """The only message in `data`.

    Raises:
        ProtocolError: no message, several, a truncated one, or one of another protocol.
    """
    messages = list(each(data, where=where))
    if len(messages) != 1:
        raise ProtocolError(f"{where} is malformed: one message was expected, {len(messages)} came")
    return messages[0]


def pack_words(values: RingArray) -> bytes:
    """Ring elements, little-endian."""
    return values.astype("<u8", copy=False).tobytes()


def words(body: bytes, count: int, message: Message) -> RingArray:
    """Exactly `count` ring elements.

    Raises:
        ProtocolError: `body`, part of `message`, has another length.
    """
    if len(body) != 8 * count:
        raise ProtocolError(
            f"{describe(message)} is malformed: {count} ring elements were expected, {len(body)} "
            "bytes came"
        )
    return np.frombuffer(body, dtype="<u8").astype(np.uint64)


def pack_numbers(values: Sequence[int] | IntArray) -> bytes:
    """Their count, then the numbers, each in four bytes."""
    return struct.pack("<I", len(values)) + np.asarray(values, dtype="<u4").tobytes()


def numbers(body: bytes, message: Message) -> tuple[list[int], bytes]:
    """The numbers that `pack_numbers` wrote at the start of `body`, and the bytes after them.

    Raises:
        ProtocolError: `body`, part of `message`, is too short.

    >>> numbers(pack_numbers([3, 1]) + b"rest", Message(Kind.DELIVERY, 0, 1, 0, b"", b""))
    ([3, 1], b'rest')
    """
    count = struct.unpack_from("<I", body)[0] if len(body) >= 4 else None
    if count is None or len(body) < 4 + 4 * count:
        raise ProtocolError(f"{describe(message)} is malformed: a list of numbers is cut short")
    return np.frombuffer(body, dtype="<u4", count=count, offset=4).tolist(), body[4 + 4 * count :]
