"""The only place that makes random generators.

A generator is named by a seed, a purpose and integer keys (round, client). Equal names give equal streams in every process and
on every platform, and no stream depends on how much was drawn from another: round t can be redone without rounds 0..t-1.
"""

import hashlib
from functools import lru_cache

import numpy as np

__all__ = ["derived_seed", "stream"]


@lru_cache(maxsize=256)
def _purpose_word(purpose: str) -> int:
    return int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "little")


def stream(seed: int, purpose: str, *keys: int) -> np.random.Generator:
    """An independent generator for one use.

    Args:
        seed: the experiment's seed, >= 0.
        purpose: what the numbers are for, such as "select" or "batches".
        keys: integers >= 0 that tell uses apart, such as round and client.

    >>> stream(0, "select", 3).integers(10) == stream(0, "select", 3).integers(10)
    np.True_
    """
    # The number of keys is part of the name, since SeedSequence ignores trailing zeros.
    entropy = (seed, _purpose_word(purpose), len(keys), *keys)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))


def derived_seed(seed: int, purpose: str, *keys: int) -> int:
    """A 63-bit seed for a generator of another library, such as PyTorch's.

    >>> 0 <= derived_seed(0, "init") < 2**63
    True
    """
    return int(stream(seed, purpose, *keys).integers(2**63))
