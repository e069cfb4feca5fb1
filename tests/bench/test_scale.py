import pytest

from fedgs.bench.scale import ScaleRow, markdown, measure_one, measure_scale
from fedgs.errors import ConfigError


def test_a_small_federation_has_a_dense_graph() -> None:
    row = measure_one(50, 2, 0)
    assert (row.clients, row.cohort, row.landmarks, row.share) == (50, 5, None, None)
    assert row.graph_seconds > 0 and row.selection_seconds > 0 and row.peak_megabytes >= 0


def test_the_table_has_a_line_for_each_row() -> None:
    row = ScaleRow(10**6, 100, 1024, 5.25, 0.1104, 431.2, 0.9991)
    assert markdown([row]).splitlines()[2] == (
        "| 1000000, 100 | 1024 landmarks | 5.25 s | 110 ms | 431 MB | 0.999 |"
    )


def test_federations_without_room_for_a_cohort_are_refused() -> None:
    with pytest.raises(ConfigError, match="--clients must be at least 20, got 5"):
        list(measure_scale((100, 5)))


@pytest.mark.long
def test_a_large_federation_has_landmarks() -> None:
    (row,) = measure_scale((10_001,), rounds=1)
    assert row.landmarks == 1024
    assert row.share is not None and row.share >= 0.99
