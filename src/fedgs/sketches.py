"""Count sketches of model updates: a fixed random projection to a few numbers."""

from functools import lru_cache

import numpy as np

from fedgs import rng
from fedgs.arrays import AnyArray, FloatArray

__all__ = ["count_sketch"]

_BLOCK = 1 << 20  # entries whose places and signs are widened at once
_SIGNS = np.array([-1.0, 1.0])


def count_sketch(update: AnyArray, size: int) -> FloatArray:
    """(size,) float64: each entry of an update, with a random sign, is added to a random sum.

    Places and signs depend on the two lengths alone. Inner products are unbiased, and the standard
    error of the cosine c of two updates is about (1 - c²)/sqrt(size).

    Args:
        update: (p,) numbers.
        size: of the sketch, >= 1.

    References:
        M. Charikar, K. Chen, M. Farach-Colton (2002): Finding Frequent Items in Data Streams.
        ICALP.

    >>> rows = np.array([[3.0, 4.0, 0.0], [6.0, 8.0, 0.0]])
    >>> one, other = (count_sketch(row, 2) for row in rows)
    >>> np.array_equal(2 * one, other)
    True
    """
    places, signs = _projection(len(update), size)
    sums = np.zeros(size)
    for block in _blocks(len(update)):
        np.add.at(sums, places[block].astype(np.intp), signs[block] * update[block].astype(float))
    return sums


@lru_cache(maxsize=4)
def _projection(length: int, size: int) -> tuple[AnyArray, AnyArray]:
    """The sum that each entry is added to, and its sign, in the smallest integers that hold them.

    All places are drawn before the first sign. Blocks draw what one call for all entries would.
    """
    draws = rng.stream(0, "update sketch", length, size)
    places = np.empty(length, dtype=np.min_scalar_type(size - 1))
    signs = np.empty(length, dtype=np.int8)
    for block in _blocks(length):
        places[block] = draws.integers(size, size=len(places[block]))
    for block in _blocks(length):
        signs[block] = draws.choice(_SIGNS, size=len(signs[block]))
    return places, signs


def _blocks(length: int) -> list[slice]:
    return [slice(start, start + _BLOCK) for start in range(0, length, _BLOCK)]
