"""Slow versions of the secure scalar product: whole numbers of any size, nothing encrypted."""

from collections.abc import Sequence
from fractions import Fraction


def encoded(vector: Sequence[float], fraction_bits: int) -> list[int]:
    """round(x·2^f), ties to even, in exact arithmetic."""
    return [round(Fraction(float(x)) * 2**fraction_bits) for x in vector]


def product(a: Sequence[float], b: Sequence[float], fraction_bits: int) -> Fraction:
    """The exact scalar product of two encoded vectors."""
    pairs = zip(encoded(a, fraction_bits), encoded(b, fraction_bits), strict=True)
    return Fraction(sum(x * y for x, y in pairs), 4**fraction_bits)


def products(vectors: Sequence[Sequence[float]], fraction_bits: int) -> list[list[float]]:
    """All exact products, each as the nearest float; NaN on the diagonal."""
    return [
        [
            float("nan") if a is b else float(product(a, b, fraction_bits)) for b in vectors
        ]  # float(Fraction) rounds to nearest
        for a in vectors
    ]
