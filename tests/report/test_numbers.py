import pytest

from fedgs.report.tables import number, signed


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0004, ".000"), (-0.0004, ".000"), (-0.5, "-.500"), (10.0, "10.000"), (0.9996, "1.000")],
)
def test_numbers_have_no_zero_before_the_point(value: float, text: str) -> None:
    assert number(value, 3) == text
    assert signed(value) == (text if value < 0 or text == ".000" else f"+{text}")
