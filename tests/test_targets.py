import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgs.targets import first_reached


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ([], None),
        ([0.1], None),  # one evaluation alone
        ([0.5, 0.5], 0),  # at the target counts
        ([0.4, 0.6, 0.4, 0.6], None),
        ([0.6, 0.4, math.nan, 0.4, 0.4], 3),
        ([0.4, None, 0.4], None),
    ],
)
def test_a_target_is_reached_by_two_evaluations_in_a_row(
    values: list[float | None], place: int | None
) -> None:
    assert first_reached(values, 0.5) == place
    mirrored = [None if value is None else -value for value in values]
    assert first_reached(mirrored, -0.5, higher=True) == place


@given(st.lists(st.floats(0, 1), max_size=8), st.floats(0, 1))
def test_the_place_is_the_first_that_fits(values: list[float], target: float) -> None:
    found = first_reached(values, target)
    places = [t for t in range(len(values) - 1) if max(values[t : t + 2]) <= target]
    assert found == (places[0] if places else None)
