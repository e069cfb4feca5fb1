import numpy as np
import pytest
from tests.report import folders

from fedgs.records import Record
from fedgs.report.history import binned, cohort_diversity, count_variances, curve, participation
from fedgs.report.run_view import Run


def test_participation_follows_the_records() -> None:
    clients = folders.make_clients(3)
    a, b, c = clients.names
    records = [
        Record(0, available=[a, b], cohort=[b]),
        Record(1, available=[c], cohort=[c]),
        Record(2, test_loss=1.0),
    ]
    history = participation(Run({}, records, clients))
    assert history.available.tolist() == [[True, False], [True, False], [False, True]]
    assert history.selected.tolist() == [[False, False], [True, False], [False, True]]
    assert history.activity.tolist() == [0.5, 0.5, 0.5]
    assert history.counts.tolist() == [0, 1, 1]


def test_count_variances_and_diversity_equal_a_slow_count() -> None:
    rng = np.random.default_rng(0)
    selected = rng.random((7, 9)) < 0.4
    points = rng.random((7, 2))
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    for t in range(9):
        assert count_variances(selected)[t] == pytest.approx(
            np.var(selected[:, : t + 1].sum(axis=1), ddof=1)
        )
        cohort = np.flatnonzero(selected[:, t])
        pairs = [distance[i, j] for i in cohort for j in cohort if i != j]
        assert cohort_diversity([np.flatnonzero(row) for row in selected.T], distance)[
            t
        ] == pytest.approx(np.mean(pairs) if pairs else np.nan, nan_ok=True)


def test_a_curve_continues_with_the_remaining_seeds() -> None:
    longer = Run({}, [Record(0, test_loss=1.0), Record(1), Record(2, test_loss=0.5)])
    shorter = Run({}, [Record(0, test_loss=3.0), Record(1, test_loss=float("inf"))])
    made = curve([longer, shorter])
    assert made.rounds.tolist() == [0, 2]
    assert made.mean.tolist() == [2.0, 0.5]
    assert made.spread.tolist() == [pytest.approx(np.sqrt(2)), 0.0]


def test_bins_average_without_nan() -> None:
    positions, means = binned(np.array([1.0, np.nan, np.nan, np.nan, 5.0]), 3)
    assert positions.tolist() == [0.5, 2.5, 4.0]
    np.testing.assert_array_equal(means, [1.0, np.nan, 5.0])
    assert len(binned(np.zeros(1001), 250)[0]) <= 250
