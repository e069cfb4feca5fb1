import pytest

from fedgs.bench.scale_workers import WorkersRow, measure_workers, workers_markdown
from fedgs.errors import ConfigError


def test_measured_and_extrapolated_rates_have_columns_of_their_own() -> None:
    rows = [WorkersRow(1000, 2, 0.008, 0.005), WorkersRow(1000, 2, 0.008, None)]
    head, _, with_one, without = workers_markdown(rows).splitlines()
    assert head.endswith("| rounds a second, all workers | W times one worker (extrapolated) |")
    # 2 workers, each 1 / .008 = 125 rounds a second; one alone 1 / .005 = 200
    assert with_one == "| 1000 | 2 | 8.0 ms | 250 | 400 |"
    assert without == "| 1000 | 2 | 8.0 ms | 250 | - |"


def test_no_worker_is_refused() -> None:
    with pytest.raises(ConfigError, match="--workers must be at least 1, got 0"):
        list(measure_workers((100,), (1, 0)))


@pytest.mark.long
def test_runs_are_measured_in_so_many_workers() -> None:
    one, two = measure_workers((50,), (1, 2), rounds=4)
    assert (one.workers, two.workers) == (1, 2)
    assert 0 < one.round_seconds < 60 and 0 < two.round_seconds < 60
    assert two.alone_seconds == one.round_seconds
    assert one.extrapolated == one.rounds_a_second
