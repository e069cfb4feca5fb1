import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgs.report.tables import paired_difference


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=2, max_size=6))
def test_paired_difference_changes_sign_when_the_methods_are_exchanged(
    pairs: list[tuple[float, float]],
) -> None:
    first, second = dict(enumerate(a for a, _ in pairs)), dict(enumerate(b for _, b in pairs))
    there, back = paired_difference(first, second), paired_difference(second, first)
    assert there.mean == pytest.approx(-back.mean)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert there.low <= there.mean <= there.high
