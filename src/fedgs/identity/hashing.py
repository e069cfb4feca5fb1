"""Hashes of nested parts: every part is written with its length, so that no two different nests give the same bytes."""

import hashlib
from collections.abc import Iterable

__all__ = ["joined", "joined_sorted", "text"]


def joined(kind: str, *parts: bytes | str) -> bytes:
    """32 bytes for a kind of thing and its parts, in order.

    >>> joined("pair", "a", "bc") == joined("pair", "ab", "c")
    False
    """
    made = hashlib.sha256(kind.encode())
    for part in parts:
        content = text(part) if isinstance(part, str) else part
        made.update(b"%d:" % len(content))
        made.update(content)
    return made.digest()


def text(value: str) -> bytes:
    """A string in bytes, also where it holds half a surrogate pair."""
    return value.encode("utf-8", errors="surrogatepass")


def joined_sorted(kind: str, parts: Iterable[bytes]) -> bytes:
    """As `joined`, for parts without an order."""
    return joined(kind, *sorted(parts))
