"""Real vectors as fixed-point numbers in the ring Z_2^64, in which scalar products are exact.

An entry x stands as round(x·2^f) with f fraction bits. A product of two vectors of length d then
lies in (-2^63, 2^63) whenever the entries keep to the stated range, so nothing ever wraps; what
does not keep to it is refused.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from fedgs.arrays import AnyArray, FloatArray
from fedgs.errors import ConfigError, DataError

__all__ = ["MAX_FRACTION_BITS", "FixedPoint", "RingArray", "fixed_point"]

RingArray = npt.NDArray[np.uint64]  # elements of Z_2^64; addition and multiplication wrap

MAX_FRACTION_BITS = 62


def _largest_entry(value_range: float, fraction_bits: int) -> int:
    """The largest absolute value that an entry in [-value_range, value_range] can be encoded as."""
    return math.floor(Fraction(value_range) * (1 << fraction_bits) + Fraction(1, 2))


def _fits(length: int, value_range: float, fraction_bits: int) -> bool:
    return length * _largest_entry(value_range, fraction_bits) ** 2 < 2**63


@dataclass(frozen=True)
class FixedPoint:
    """How vectors of one session are encoded; make it with `fixed_point`, which chooses the fraction bits.

    Attributes:
        length: d >= 1, entries of every vector.
        value_range: entries lie in [-value_range, value_range]; it is public, so state it without
            looking at the data.
        fraction_bits: f in 0..62; an entry is rounded to the nearest multiple of 2^-f.

    Raises:
        ConfigError: a setting is out of range, or a product of two such vectors could leave the 64
            bits.
    """

    length: int
    value_range: float
    fraction_bits: int

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ConfigError(f"vectors need at least one entry, got length {self.length}")
        if not (math.isfinite(self.value_range) and self.value_range > 0):
            raise ConfigError(f"value_range must be a finite number > 0, got {self.value_range}")
        if not 0 <= self.fraction_bits <= MAX_FRACTION_BITS:
            raise ConfigError(
                f"fraction_bits must be in 0..{MAX_FRACTION_BITS}, got {self.fraction_bits}"
            )
        if not _fits(self.length, self.value_range, self.fraction_bits):
            raise ConfigError(
                f"a product of two vectors of length {self.length} in [-{self.value_range}, {self.value_range}] with "
                f"{self.fraction_bits} fraction bits can exceed 63 bits; lower fraction_bits or value_range"
            )

    @property
    def product_error(self) -> float:
        """Largest |a·b - decoded product| that the rounding of the entries can cause: d·(range·2^-f + 2^-(2f + 2)).

        >>> FixedPoint(length=4, value_range=1.0, fraction_bits=1).product_error
        2.25
        """
        step = 2.0**-self.fraction_bits
        return self.length * (self.value_range * step + step * step / 4)

    def encode(self, vector: AnyArray, *, who: str = "the vector") -> RingArray:
        """(d,) real entries as (d,) ring elements, each round(x·2^f) to the nearest, ties to even; negatives as 2^64 - |x|.

        Args:
            who: whose vector it is, for the error message.

        Raises:
            DataError: another length, an entry that is not finite, or one outside the range (never
                clipped, never wrapped).

        >>> FixedPoint(length=2, value_range=1.0, fraction_bits=4).encode(np.array([0.5, -1.0])).astype(np.int64)
        array([  8, -16])
        """
        entries = np.asarray(vector, dtype=np.float64)
        if entries.shape != (self.length,):
            raise DataError(
                f"{who} must be a vector of length {self.length}, got shape {entries.shape}"
            )
        if not np.isfinite(entries).all():
            raise DataError(
                f"{who} has an entry that is not finite at position {int(np.argmin(np.isfinite(entries)))}"
            )
        largest = float(np.abs(entries).max())
        if largest > self.value_range:
            raise DataError(
                f"{who} has an entry of absolute value {largest:g}, outside the stated range [-{self.value_range:g}, "
                f"{self.value_range:g}] with {self.fraction_bits} fraction bits; state a larger value_range"
            )
        return np.rint(np.ldexp(entries, self.fraction_bits)).astype(np.int64).view(np.uint64)

    def decode_products(self, products: RingArray) -> FloatArray:
        """Scalar products of encoded vectors as float64: the nearest to the exact value, since 2^-2f is a power of two.

        >>> FixedPoint(length=2, value_range=1.0, fraction_bits=4).decode_products(np.array([128, 2**64 - 64], dtype=np.uint64))
        array([ 0.5 , -0.25])
        """
        return np.ldexp(products.view(np.int64).astype(np.float64), -2 * self.fraction_bits)


def fixed_point(
    length: int, value_range: float = 1.0, fraction_bits: int | None = None
) -> FixedPoint:
    """The encoding with the most fraction bits that cannot overflow, or with the bits asked for.

    Args:
        length: d, entries of every vector.
        value_range: public bound of the entries' absolute values; 1 for label proportions.
        fraction_bits: None: as many as fit, at most 62.

    Raises:
        ConfigError: what `FixedPoint` refuses, or a range so large that not even whole numbers fit.

    >>> fixed_point(10).fraction_bits
    29
    >>> fixed_point(610, value_range=8.0).fraction_bits
    23
    """
    if fraction_bits is not None:
        return FixedPoint(length, value_range, fraction_bits)
    usable = length >= 1 and math.isfinite(value_range) and value_range > 0
    if not usable or _fits(length, value_range, 0):
        bits = next(
            (
                f
                for f in range(MAX_FRACTION_BITS, 0, -1)
                if usable and _fits(length, value_range, f)
            ),
            0,
        )
        return FixedPoint(length, value_range, bits)
    raise ConfigError(
        f"value_range {value_range:g} is too large for vectors of length {length}: their products would exceed 63 bits "
        "even with 0 fraction bits; scale the vectors down"
    )
