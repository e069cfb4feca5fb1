"""Real vectors as fixed-point numbers in the ring Z_2^64, in which scalar products are exact.

An entry x is represented by round(x·2^f) with f fraction bits. The product of two vectors of length
d then lies in (-2^63, 2^63) as long as all entries are in the stated range, so it never wraps.
Entries outside the range are refused.
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
    """The largest absolute value of an encoded entry from [-value_range, value_range]."""
    return math.floor(Fraction(value_range) * (1 << fraction_bits) + Fraction(1, 2))


def _fits(length: int, value_range: float, fraction_bits: int) -> bool:
    return length * _largest_entry(value_range, fraction_bits) ** 2 < 2**63


@dataclass(frozen=True)
class FixedPoint:
    """How the vectors of one session are encoded.

    `fixed_point` makes one and chooses the fraction bits.

    Attributes:
        length: d >= 1, entries of every vector.
        value_range: entries lie in [-value_range, value_range]. It is public, so it must not be
            computed from the data.
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
                f"a product of two vectors of length {self.length} in "
                f"[-{self.value_range}, {self.value_range}] with {self.fraction_bits} fraction "
                "bits can exceed 63 bits; lower fraction_bits or value_range"
            )

    @property
    def product_error(self) -> float:
        """The largest |a·b - decoded product| that the rounding of entries can cause.

        It is d·(range·2^-f + 2^-(2f + 2)).

        >>> FixedPoint(length=4, value_range=1.0, fraction_bits=1).product_error
        2.25
        """
        step = 2.0**-self.fraction_bits
        return self.length * (self.value_range * step + step * step / 4)

    def encode(self, vector: AnyArray, *, who: str = "the vector") -> RingArray:
        """Real entries as ring elements.

        Each entry x becomes round(x·2^f), ties to even. Negative numbers n are stored as
        2^64 - |n|.

        Args:
            vector: (d,) real entries.
            who: whose vector it is, for the error message.

        Returns:
            (d,) ring elements.

        Raises:
            DataError: another length, an entry that is not finite, or one outside the range. No
                entry is clipped or wrapped.

        >>> encoding = FixedPoint(length=2, value_range=1.0, fraction_bits=4)
        >>> encoding.encode(np.array([0.5, -1.0])).astype(np.int64)
        array([  8, -16])
        """
        entries = np.asarray(vector, dtype=np.float64)
        if entries.shape != (self.length,):
            raise DataError(
                f"{who} must be a vector of length {self.length}, got shape {entries.shape}"
            )
        if not np.isfinite(entries).all():
            raise DataError(
                f"{who} has an entry that is not finite at position "
                f"{int(np.argmin(np.isfinite(entries)))}"
            )
        largest = float(np.abs(entries).max())
        if largest > self.value_range:
            raise DataError(
                f"{who} has an entry of absolute value {largest:g}, outside the stated range "
                f"[-{self.value_range:g}, {self.value_range:g}] with {self.fraction_bits} fraction "
                "bits; state a larger value_range"
            )
        return np.rint(np.ldexp(entries, self.fraction_bits)).astype(np.int64).view(np.uint64)

    def decode_products(self, products: RingArray) -> FloatArray:
        """Scalar products of encoded vectors as float64.

        Each is the float nearest to the exact value, since 2^-2f is a power of two.

        >>> encoding = FixedPoint(length=2, value_range=1.0, fraction_bits=4)
        >>> encoding.decode_products(np.array([128, 2**64 - 64], dtype=np.uint64))
        array([ 0.5 , -0.25])
        """
        return np.ldexp(products.view(np.int64).astype(np.float64), -2 * self.fraction_bits)


def fixed_point(
    length: int, value_range: float = 1.0, fraction_bits: int | None = None
) -> FixedPoint:
    """The encoding with the most fraction bits that cannot overflow, or with the bits given.

    Args:
        length: d, entries of every vector.
        value_range: public bound of the entries' absolute values; 1 for label proportions.
        fraction_bits: f, or None for as many as fit, at most 62.

    Raises:
        ConfigError: what `FixedPoint` refuses, or a range so large that products of whole numbers
            could overflow.

    >>> fixed_point(10).fraction_bits
    29
    >>> fixed_point(610, value_range=8.0).fraction_bits
    23
    """
    if fraction_bits is not None:
        return FixedPoint(length, value_range, fraction_bits)
    usable = length >= 1 and math.isfinite(value_range) and value_range > 0
    if not usable or _fits(length, value_range, 0):
        candidates = range(MAX_FRACTION_BITS, 0, -1) if usable else ()
        bits = next((bits for bits in candidates if _fits(length, value_range, bits)), 0)
        return FixedPoint(length, value_range, bits)
    raise ConfigError(
        f"value_range {value_range:g} is too large for vectors of length {length}: their products "
        "would exceed 63 bits even with 0 fraction bits; scale the vectors down"
    )
