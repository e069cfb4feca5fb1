"""The only place that makes and seeds random generators.

A generator is named by a seed, a purpose and integer keys (round, client). Equal names give equal
streams in every process and on every platform, and no stream depends on how much was drawn from
another: round t can be redone without rounds 0..t-1.
"""

import hashlib
import operator
import pickle
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

# The functions are those of `numpy.random`, whose type stubs leave out two of them.
from numpy.random import mtrand
from numpy.random.bit_generator import ISeedSequence

__all__ = [
    "cuda_is_started",
    "derived_seed",
    "generator_states",
    "kept_generators",
    "seed_generators",
    "seeded",
    "stream",
    "streams",
]


def _words(number: int) -> tuple[int, ...]:
    """A number >= 0 in words of 32 bits, the lowest first.

    `SeedSequence` does the same conversion, at three times the cost.

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
    """The words of seed, purpose and number of keys.

    The number is included, since SeedSequence ignores trailing zeros.
    """
    purpose_word = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "little")
    return (*_words(seed), *_words(purpose_word), *_words(keys))


def stream(seed: int, purpose: str, *keys: int) -> np.random.Generator:
    """An independent generator for one use.

    Args:
        seed: the experiment's seed, >= 0.
        purpose: what the numbers are for, such as "select" or "batches".
        *keys: integers >= 0 that tell uses apart, such as round and client.

    >>> stream(0, "select", 3).integers(10) == stream(0, "select", 3).integers(10)
    np.True_
    """
    words = [*_name(seed, purpose, len(keys))]
    for key in keys:
        words += (key,) if type(key) is int and 0 <= key < 2**32 else _words(operator.index(key))
    return np.random.Generator(
        np.random.PCG64(np.random.SeedSequence(np.array(words, dtype=np.uint32)))
    )


def _powers(first: int, factor: int, number: int) -> npt.NDArray[np.uint32]:
    """The numbers first * factor^i modulo 2^32 for i = 0, 1, ..."""
    return np.array([first * factor**i % 2**32 for i in range(number)], dtype=np.uint32)


# SeedSequence's constants: those of words that enter its pool of four, and those of the eight words
# that leave it.
_FACTOR = 0x931E8875
_ENTER = _powers(0x43B0D7E5, _FACTOR, 5)
_LEAVE = _powers(0x8B51F9DD, 0x58F38DED, 9)


def _hashed(
    words: npt.NDArray[np.uint32], constants: npt.NDArray[np.uint32]
) -> npt.NDArray[np.uint32]:
    """(keys, n) words, each hashed with two of n + 1 constants."""
    hashed = (words ^ constants[:-1]) * constants[1:]
    hashed ^= hashed >> np.uint32(16)
    return hashed


class _Seed(ISeedSequence):
    """The numbers that seed a PCG64, (4,) uint64, which is the type that it asks for."""

    __slots__ = ("numbers",)

    def __init__(self, numbers: npt.NDArray[np.uint64]) -> None:
        self.numbers = numbers

    def generate_state(
        self,
        n_words: int,
        dtype: npt.DTypeLike = np.uint32,
    ) -> npt.NDArray[Any]:
        return self.numbers[:n_words]


def streams(seed: int, purpose: str, keys: range) -> Iterator[np.random.Generator]:
    """The generators `stream(seed, purpose, key)` of successive keys, at a fifth of the cost.

    What the names share is hashed once, and the keys together, as SeedSequence does it.

    Args:
        seed: as for `stream`.
        purpose: as for `stream`.
        keys: integers >= 0. Those in steps of 1 are fast.

    >>> first, second = streams(0, "select", range(3, 5))
    >>> second.integers(1000) == stream(0, "select", 4).integers(1000)
    np.True_
    """
    name = _name(seed, purpose, 1)
    if len(name) < 4 or keys.step != 1 or not 0 <= keys.start <= keys.stop <= 2**32:
        yield from (stream(seed, purpose, key) for key in keys)
        return
    pool = np.random.SeedSequence(np.array(name, dtype=np.uint32)).pool  # (4,)
    # Each word of the name has moved the constants on by four.
    enter = _ENTER * np.uint32(pow(_FACTOR, 4 * len(name), 2**32))
    key = np.arange(keys.start, keys.stop, dtype=np.uint32)[:, np.newaxis]
    pools = pool * np.uint32(0xCA01F9DD) - _hashed(key, enter) * np.uint32(0x4973F715)
    pools ^= pools >> np.uint32(16)  # (keys, 4)
    words = _hashed(np.concatenate((pools, pools), axis=1), _LEAVE)
    for numbers in words.astype("<u4", copy=False).view("<u8").astype(np.uint64, copy=False):
        # NumPy takes any ISeedSequence, which its type stubs leave out.
        yield np.random.Generator(np.random.PCG64(_Seed(numbers)))  # type: ignore[arg-type]


def derived_seed(seed: int, purpose: str, *keys: int) -> int:
    """A 63-bit seed for a generator of another library, such as PyTorch's.

    >>> 0 <= derived_seed(0, "init") < 2**63
    True
    """
    return int(stream(seed, purpose, *keys).integers(2**63))


@contextmanager
def kept_generators() -> Iterator[None]:
    """Restore the global generators after the block.

    They are those of Python's `random`, of NumPy, and of PyTorch on all devices. CUDA is not
    started for this. If the block starts it, its generators are left as they were when it started.

    >>> np.random.seed(0)
    >>> with kept_generators():
    ...     _ = np.random.random(), random.random()
    >>> round(np.random.random(), 4)  # the first number after seed 0
    0.5488
    """
    import torch

    numpy_generator, numpy_state = mtrand.get_bit_generator(), mtrand.get_state(legacy=False)
    python_state = random.getstate()
    started = cuda_is_started()
    with torch.random.fork_rng(devices=list(range(torch.cuda.device_count())) if started else []):
        try:
            yield
        finally:
            random.setstate(python_state)
            mtrand.set_bit_generator(numpy_generator)
            mtrand.set_state(numpy_state)
            if cuda_is_started() and not started:
                for generator in torch.cuda.default_generators:
                    generator.manual_seed(generator.initial_seed())


def cuda_is_started() -> bool:
    """Whether this process uses CUDA already; asking does not start it."""
    import torch

    is_initialized: Callable[[], bool] = torch.cuda.is_initialized  # has no annotations
    return is_initialized()


def seed_generators(seed: int, purpose: str, *keys: int) -> None:
    """Seed the global generators of Python, NumPy and PyTorch, for code that takes no generator.

    The generators of CUDA are seeded if it is started. Call it within `kept_generators`.

    Args:
        seed: as for `stream`.
        purpose: as for `stream`.
        *keys: as for `stream`.
    """
    import torch

    derived = derived_seed(seed, purpose, *keys)
    random.seed(derived)
    # NumPy can seed its global generator only if it is a Mersenne Twister.
    if not isinstance(mtrand.get_bit_generator(), np.random.MT19937):
        mtrand.set_bit_generator(np.random.MT19937())
    mtrand.seed(np.array(_words(derived)))
    torch.default_generator.manual_seed(derived)
    if cuda_is_started():
        torch.cuda.manual_seed_all(derived)


def generator_states() -> bytes:
    """The states of the global generators of Python, NumPy and PyTorch (of the CPU).

    Two results are equal if no number was drawn in between.

    >>> before = generator_states()
    >>> generator_states() == before, random.random() < 1, generator_states() == before
    (True, True, False)
    """
    import torch

    return pickle.dumps(
        (torch.get_rng_state().numpy(), mtrand.get_state(legacy=False), random.getstate())
    )


@contextmanager
def seeded(seed: int, purpose: str, *keys: int) -> Iterator[None]:
    """Seed the global generators within the block, and restore them afterwards.

    For models, which take their numbers from the global generators of PyTorch, NumPy or `random`. A
    generator that the model makes for itself is not seeded.

    Args:
        seed: as for `stream`.
        purpose: as for `stream`.
        *keys: as for `stream`.

    >>> with seeded(0, "init"):
    ...     first = np.random.random(), random.random()
    >>> with seeded(0, "init"):
    ...     (np.random.random(), random.random()) == first
    True
    """
    with kept_generators():
        seed_generators(seed, purpose, *keys)
        yield
