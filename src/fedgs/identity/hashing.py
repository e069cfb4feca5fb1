"""Hashes of nested parts. Each part is hashed with its length, so that nesting is unambiguous."""

import hashlib
from collections.abc import Iterable

__all__ = ["joined", "joined_sorted", "text"]


def joined(kind: str, *parts: bytes | str) -> bytes:
    """32 bytes for a kind of thing and its parts, in order.

    >>> joined("pair", "a", "bc") == joined("pair", "ab", "c")
    False
    """
    hasher = hashlib.sha256(kind.encode())
    for part in parts:
        content = text(part) if isinstance(part, str) else part
        hasher.update(b"%d:" % len(content))
        hasher.update(content)
    return hasher.digest()


def text(value: str) -> bytes:
    """A string as bytes, even if it contains half a surrogate pair."""
    return value.encode("utf-8", errors="surrogatepass")


def joined_sorted(kind: str, parts: Iterable[bytes]) -> bytes:
    """As `joined`, for parts without an order."""
    return joined(kind, *sorted(parts))
