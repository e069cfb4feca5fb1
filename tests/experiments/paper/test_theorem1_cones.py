"""Theorem 1's figures against plain geometry."""

import numpy as np
import pytest

from fedgs.experiments.paper.theorem1_cones import (
    cone_share,
    further_but_smaller,
    mean_distance,
    solid_angle,
)

RNG_DIRECTIONS = 20_000


def directions(labels: int) -> np.ndarray:
    return np.abs(np.random.default_rng(3).standard_normal((labels, RNG_DIRECTIONS)))


def test_the_solid_angle_of_a_wedge_is_its_angle() -> None:
    for degrees in (10.0, 45.0, 80.0):
        angle = np.radians(degrees)
        wedge = np.array([[1.0, np.cos(angle)], [0.0, np.sin(angle)]])
        # Standard error at most .5 / sqrt(20000) = .0035; five of them: odds below one in a
        # million.
        assert solid_angle(wedge, directions(2)) == pytest.approx(degrees / 90, abs=0.018)


def test_the_probability_on_the_simplex_is_the_determinant() -> None:
    rng = np.random.default_rng(0)
    points = rng.dirichlet(np.ones(3), size=1500).T
    for columns in (
        np.array([[1.0, 0.2, 0.0], [0.0, 0.7, 0.1], [0.0, 0.1, 0.9]]),
        np.full((3, 3), 1 / 3),
    ):
        share = cone_share(columns, points)
        assert share == pytest.approx(abs(np.linalg.det(columns)), abs=5 * 0.5 / 1500**0.5)


def test_more_clients_never_make_the_cone_smaller() -> None:
    rng = np.random.default_rng(1)
    points = rng.dirichlet(np.ones(3), size=100).T
    columns = rng.dirichlet(np.ones(3), size=5).T
    shares = [cone_share(columns[:, :size], points) for size in (3, 4, 5)]
    assert shares == sorted(shares)


def test_equal_clients_have_distance_zero_and_no_cone() -> None:
    same = np.full((3, 3), 1 / 3)
    assert mean_distance(same) == pytest.approx(0, abs=1e-12)
    assert solid_angle(same, directions(3)) == 0.0


def test_the_way_over_the_middle_of_an_arc_is_shorter() -> None:
    # 45 degrees apart: |e_i - e_j|^2 = 2 - sqrt 2 twice, against 2 directly.
    arc = np.array([[1.0, 0.5, 0.0], [0.0, 0.5, 1.0]])
    assert mean_distance(arc) == pytest.approx((2 + 2 * (2 - 2**0.5)) / 3)
    assert mean_distance(arc, paths=True) == pytest.approx((2 * (2 - 2**0.5) * 2) / 3)


def test_the_counter_example_is_one() -> None:
    first, second = further_but_smaller(0)
    assert np.allclose(first.sum(axis=0), 1) and np.allclose(second.sum(axis=0), 1)
    assert mean_distance(first) > mean_distance(second) + 0.05
    for columns in (
        (first, second),
        tuple(cohort / np.linalg.norm(cohort, axis=0) for cohort in (first, second)),
    ):
        assert 0 < abs(np.linalg.det(columns[0])) < abs(np.linalg.det(columns[1])) - 0.05
