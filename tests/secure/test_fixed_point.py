import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import secure as oracle

from fedgs.errors import ConfigError, DataError
from fedgs.secure.fixed_point import FixedPoint, fixed_point

ranges = st.floats(1e-3, 1e6)
lengths = st.integers(1, 2000)


@given(lengths, ranges)
@settings(deadline=None, max_examples=100)
def test_chosen_bits_never_overflow_and_one_more_would(length: int, value_range: float) -> None:
    bits = fixed_point(length, value_range).fraction_bits
    largest = oracle.encoded([value_range], bits)[0]
    assert length * largest**2 < 2**63
    if bits < 62:
        next_largest = oracle.encoded([value_range], bits + 1)[0]
        assert length * max(next_largest, largest * 2 + 1) ** 2 >= 2**63


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=8), st.integers(0, 28))
@settings(deadline=None, max_examples=100)
def test_encoding_is_exact_rounding_to_nearest_even(entries: list[float], bits: int) -> None:
    codec = FixedPoint(len(entries), 3.0, bits)
    assert codec.encode(np.array(entries)).view(np.int64).tolist() == oracle.encoded(entries, bits)


@given(st.lists(st.tuples(st.floats(-2, 2), st.floats(-2, 2)), min_size=1, max_size=6))
@settings(deadline=None, max_examples=100)
def test_product_error_bounds_the_rounding_of_entries(pairs: list[tuple[float, float]]) -> None:
    a, b = ([pair[side] for pair in pairs] for side in (0, 1))
    codec = FixedPoint(len(a), 2.0, 10)
    rounding = 1e-12  # of a @ b in floats
    error = abs(float(oracle.product(a, b, 10)) - np.dot(a, b))
    assert error <= codec.product_error + rounding


def test_extreme_vectors_give_the_exact_product_without_wrapping() -> None:
    codec = fixed_point(10, 1.0)
    ones = codec.encode(np.ones(10))
    # The sum wraps where it must: (-1)·1 in the ring.
    product = np.array([(ones * codec.encode(-np.ones(10))).sum()])
    assert codec.decode_products(product)[0] == -10.0


def test_entry_outside_the_range_is_refused_with_range_and_bits() -> None:
    message = "absolute value 1.5, outside the stated range [-1, 1] with 29 fraction bits"
    with pytest.raises(DataError, match=re.escape(message)):
        fixed_point(10).encode(np.array([1.5] + [0.0] * 9))


@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf])
def test_entry_that_is_not_finite_is_refused_with_its_position(entry: float) -> None:
    with pytest.raises(DataError, match="client 4 has an entry that is not finite at position 1"):
        fixed_point(3).encode(np.array([0.0, entry, 0.0]), who="client 4")


def test_vector_of_another_length_is_refused() -> None:
    with pytest.raises(DataError, match=re.escape("must be a vector of length 3, got shape (2,)")):
        fixed_point(3).encode(np.zeros(2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1.0, None), "vectors need at least one entry, got length 0"),
        ((3, 0.0, None), "value_range must be a finite number > 0, got 0.0"),
        ((3, -1.0, 4), "value_range must be a finite number > 0, got -1.0"),
        ((3, float("inf"), None), "value_range must be a finite number > 0, got inf"),
        ((3, float("nan"), None), "value_range must be a finite number > 0, got nan"),
        ((3, 1.0, 63), "fraction_bits must be in 0..62, got 63"),
        ((3, 1.0, -1), "fraction_bits must be in 0..62, got -1"),
        (
            (10, 1.0, 30),
            "length 10 in [-1.0, 1.0] with 30 fraction bits can exceed 63 bits; "
            "lower fraction_bits or value_range",
        ),
        ((10, 1e10, None), "value_range 1e+10 is too large for vectors of length 10"),
    ],
)
def test_unusable_encodings_are_refused(
    arguments: tuple[int, float, int | None], message: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        fixed_point(*arguments)
