"""The bytes that parties of the ring protocol exchange: a header that says what, from whom, to whom and when, and a body.

Everything that comes in is read here, and whatever is not exactly as it should be is refused by a
`ProtocolError` that names the message.
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
    """What a message is. Within a batch every party sends each kind to another party at most once."""

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


class Message(NamedTuple):
    """A message taken apart; `raw` is the whole of it, header included."""

    kind: int
    sender: int
    recipient: int
    batch: int
    body: bytes
    raw: bytes


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
    """Names a message for an error.

    >>> describe(Message(Kind.SEALED_U, 3, 5, 0, b"", b""))
    "message 'sealed u' of batch 0 from client 3 to client 5"
    """
    return (
        f"message '{kind_name(message.kind)}' of batch {message.batch} from {party_name(message.sender)} to "
        f"{party_name(message.recipient)}"
    )


def header(kind: Kind, sender: int, recipient: int, batch: int, length: int) -> bytes:
    """The header of a message whose body has `length` bytes."""
    return _HEADER.pack(_MARK, kind, sender, recipient, batch, length)


def pack(kind: Kind, sender: int, recipient: int, batch: int, body: bytes) -> bytes:
    """Header and body as bytes.

    >>> len(pack(Kind.HELLO, 0, SERVER, 0, b"abc")) - HEADER_BYTES
    3
    """
    return header(kind, sender, recipient, batch, len(body)) + body


def each(data: bytes, *, where: str) -> Iterator[Message]:
    """The messages that stand one after another in `data`.

    Raises:
        ProtocolError: `data`, called `where` in the message, is truncated or not of this protocol.
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
                f"{describe(message)} is truncated: its body has {len(message.body)} of {length} bytes"
            )
        yield message
        start = stop


def single(data: bytes, *, where: str) -> Message:
    """The one message that `data` is.

    Raises:
        ProtocolError: it is none, more than one, truncated or not of this protocol.
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
            f"{describe(message)} is malformed: {count} ring elements were expected, {len(body)} bytes came"
        )
    return np.frombuffer(body, dtype="<u8").astype(np.uint64)


def pack_numbers(values: Sequence[int] | IntArray) -> bytes:
    """How many, then the numbers, each in four bytes."""
    return struct.pack("<I", len(values)) + np.asarray(values, dtype="<u4").tobytes()


def numbers(body: bytes, message: Message) -> tuple[list[int], bytes]:
    """The numbers that `pack_numbers` wrote at the start of `body`, and what follows them.

    Raises:
        ProtocolError: `body`, part of `message`, is too short.

    >>> numbers(pack_numbers([3, 1]) + b"rest", Message(Kind.DELIVERY, 0, 1, 0, b"", b""))
    ([3, 1], b'rest')
    """
    count = struct.unpack_from("<I", body)[0] if len(body) >= 4 else None
    if count is None or len(body) < 4 + 4 * count:
        raise ProtocolError(f"{describe(message)} is malformed: a list of numbers is cut short")
    return np.frombuffer(body, dtype="<u4", count=count, offset=4).tolist(), body[4 + 4 * count :]
