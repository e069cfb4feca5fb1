"""What server and nodes send each other in a session, as the entries of Flower's records.

| phase | request | reply |
|---|---|---|
| keys | nothing more | `public`, `nonce`, `length` and `range` of the vector |
| masked | `names`, `invitation`, `directory`, `assignment`, `dealing` | `message`, `corrections` |
| blinded | `message` | `message` |
| shares | `message` | `message` |

Each request has `phase` and `session`. A reply that refuses the request has `refused`, a sentence,
and `accused`, the names of the clients whose messages were refused.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Literal

from fedgs.errors import ProtocolError

__all__ = [
    "ACCUSED",
    "FAILED",
    "MESSAGE_TYPE",
    "MOST_CLIENTS",
    "PHASES",
    "QUERY",
    "RECORD",
    "REFUSED",
    "Sent",
    "Value",
    "Entries",
    "PhaseName",
    "entry",
    "named",
    "roster_label",
]

QUERY = "fedgs_private"  # the action of the query handler
MESSAGE_TYPE = f"query.{QUERY}"
RECORD = "fedgs"
REFUSED, ACCUSED = "refused", "accused"
FAILED = "failed"  # stands for a reply that is no reply of this protocol
MOST_CLIENTS = 10_000

PhaseName = Literal["keys", "masked", "blinded", "shares"]
PHASES: tuple[PhaseName, ...] = ("keys", "masked", "blinded", "shares")
Entries = Mapping[str, object]  # as they arrive
Value = (
    int
    | float
    | str
    | bytes
    | bool
    | list[int]
    | list[float]
    | list[str]
    | list[bytes]
    | list[bool]
)
Sent = dict[str, Value]


def entry(entries: Entries, name: str, *, most: int, least: int = 0) -> bytes:
    """The bytes of an entry of `least` to `most` bytes.

    Raises:
        ProtocolError: it is missing, of another type, oversized or too short.

    >>> entry({"nonce": bytes(32)}, "nonce", most=32) == bytes(32)
    True
    """
    value = entries.get(name)
    if not isinstance(value, bytes):
        raise ProtocolError(f"its entry {name!r} is missing or holds no bytes")
    if len(value) > most:
        raise ProtocolError(
            f"its entry {name!r} is oversized: at most {most} bytes are allowed, {len(value)} came"
        )
    if len(value) < least:
        raise ProtocolError(
            f"its entry {name!r} is truncated: {least} bytes are needed, {len(value)} came"
        )
    return value


def named(text: str, names: Mapping[int, str]) -> str:
    """A text with "client 3" replaced by the name of that number.

    >>> named("from client 1 to the server", {1: "site-b"})
    "from client 'site-b' to the server"
    """

    def name(match: re.Match[str]) -> str:
        return f"client {names[int(match[1])]!r}" if int(match[1]) in names else match[0]

    return re.sub(r"client (\d+)", name, text)


def roster_label(session: bytes, names: Sequence[str]) -> bytes:
    """A hash of the session's identifier and the clients' names in order, 32 bytes.

    It is part of the plan that all parties hash together with their keys.

    >>> roster_label(b"1", ["a", "b"]) == roster_label(b"1", ["ab", ""])
    False
    """
    digest = hashlib.sha256(b"fedgs roster 1" + len(session).to_bytes(4, "big") + session)
    for name in names:
        encoded = name.encode()
        digest.update(len(encoded).to_bytes(4, "big") + encoded)
    return digest.digest()
