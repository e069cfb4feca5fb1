"""The only place that makes random generators.

A generator is named by a seed, a purpose and integer keys (round, client). Equal names give equal streams in every process and
on every platform, and no stream depends on how much was drawn from another: round t can be redone without rounds 0..t-1.
"""

import hashlib
import operator
from functools import lru_cache

import numpy as np

__all__ = ["derived_seed", "stream"]


def _words(number: int) -> tuple[int, ...]:
    """A number >= 0 in words of 32 bits, the lowest first: what `SeedSequence` makes of it, at a third of the cost.

    >>> _words(0), _words(2**33 + 5)
    ((0,), (5, 2))
    """
    if number < 0:
        raise ValueError(f"seeds and keys must be >= 0, got {number}")
    words = [number & 0xFFFFFFFF]
    while number := number >> 32:
        words.append(number & 0xFFFFFFFF)
    return tuple(words)


@lru_cache(maxsize=1024)
def _name(seed: int, purpose: str, keys: int) -> tuple[int, ...]:
    """The words of seed and purpose; the number of keys is part of the name, since SeedSequence ignores trailing zeros."""
    purpose_word = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "little")
    return (*_words(seed), *_words(purpose_word), *_words(keys))


def stream(seed: int, purpose: str, *keys: int) -> np.random.Generator:
    """An independent generator for one use.

    Args:
        seed: the experiment's seed, >= 0.
        purpose: what the numbers are for, such as "select" or "batches".
        keys: integers >= 0 that tell uses apart, such as round and client.

    >>> stream(0, "select", 3).integers(10) == stream(0, "select", 3).integers(10)
    np.True_
    """
    words = [*_name(seed, purpose, len(keys))]
    for key in keys:
        words += (key,) if type(key) is int and 0 <= key < 2**32 else _words(operator.index(key))
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(np.array(words, dtype=np.uint32))))


def derived_seed(seed: int, purpose: str, *keys: int) -> int:
    """A 63-bit seed for a generator of another library, such as PyTorch's.

    >>> 0 <= derived_seed(0, "init") < 2**63
    True
    """
    return int(stream(seed, purpose, *keys).integers(2**63))
