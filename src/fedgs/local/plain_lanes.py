"""The functions of `fedgs.local.lanes` in NumPy, for kernels that run as plain Python."""

import numpy as np
import numpy.typing as npt

__all__ = ["LANES", "fma", "fma_lanes", "load", "total", "zero_lanes"]

LANES = 16

Vector = npt.NDArray[np.float32]


def fma(a: np.float32, b: np.float32, c: np.float32) -> np.float32:
    """a·b + c, rounded once by the intrinsic, and here twice, the first time to float64.

    >>> float(fma(np.float32(2), np.float32(3), np.float32(1)))
    7.0
    """
    return np.float32(np.float64(a) * np.float64(b) + np.float64(c))


def fma_lanes(a: Vector, b: Vector, c: Vector) -> Vector:
    """`fma`, lane by lane."""
    return (a.astype(np.float64) * b + c).astype(np.float32)


def zero_lanes() -> Vector:
    """Sixteen zeros."""
    return np.zeros(LANES, dtype=np.float32)


def load(row: Vector, start: int) -> Vector:
    """row[start : start + 16] of a contiguous float32 vector with at least that many entries."""
    return row[start : start + LANES].copy()


def total(lanes: Vector) -> np.float32:
    """The sum of the lanes: the upper half is added to the lower half, until one lane is left.

    >>> float(total(np.arange(16, dtype=np.float32)))
    120.0
    """
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = lanes[:half] + lanes[half:]
    return np.float32(lanes[0])
