"""Theorem 1's figures against plain geometry."""

from pathlib import Path

import numpy as np
import pytest

from fedgs.experiments.paper import theorem1
from fedgs.experiments.paper.frame.experiment import Computation
from fedgs.experiments.paper.frame.request import ExperimentRequest
from fedgs.experiments.paper.frame.run import checked, reproduce

RNG_DIRECTIONS = 20_000


def directions(labels: int) -> np.ndarray:
    return np.abs(np.random.default_rng(3).standard_normal((labels, RNG_DIRECTIONS)))


def test_the_solid_angle_of_a_wedge_is_its_angle() -> None:
    for degrees in (10.0, 45.0, 80.0):
        angle = np.radians(degrees)
        wedge = np.array([[1.0, np.cos(angle)], [0.0, np.sin(angle)]])
        # Standard error at most .5 / sqrt(20000) = .0035; five of them: odds below one in a
        # million.
        assert theorem1.solid_angle(wedge, directions(2)) == pytest.approx(degrees / 90, abs=0.018)


def test_the_probability_on_the_simplex_is_the_determinant() -> None:
    rng = np.random.default_rng(0)
    points = rng.dirichlet(np.ones(3), size=1500).T
    for columns in (
        np.array([[1.0, 0.2, 0.0], [0.0, 0.7, 0.1], [0.0, 0.1, 0.9]]),
        np.full((3, 3), 1 / 3),
    ):
        share = theorem1.cone_share(columns, points)
        assert share == pytest.approx(abs(np.linalg.det(columns)), abs=5 * 0.5 / 1500**0.5)


def test_more_clients_never_make_the_cone_smaller() -> None:
    rng = np.random.default_rng(1)
    points = rng.dirichlet(np.ones(3), size=100).T
    columns = rng.dirichlet(np.ones(3), size=5).T
    shares = [theorem1.cone_share(columns[:, :size], points) for size in (3, 4, 5)]
    assert shares == sorted(shares)


def test_equal_clients_have_distance_zero_and_no_cone() -> None:
    same = np.full((3, 3), 1 / 3)
    assert theorem1.mean_distance(same) == pytest.approx(0, abs=1e-12)
    assert theorem1.solid_angle(same, directions(3)) == 0.0


def test_the_way_over_the_middle_of_an_arc_is_shorter() -> None:
    # 45 degrees apart: |e_i - e_j|^2 = 2 - sqrt 2 twice, against 2 directly.
    arc = np.array([[1.0, 0.5, 0.0], [0.0, 0.5, 1.0]])
    assert theorem1.mean_distance(arc) == pytest.approx((2 + 2 * (2 - 2**0.5)) / 3)
    assert theorem1.mean_distance(arc, paths=True) == pytest.approx((2 * (2 - 2**0.5) * 2) / 3)


def test_the_counter_example_is_one() -> None:
    first, second = theorem1.further_but_smaller(0)
    assert np.allclose(first.sum(axis=0), 1) and np.allclose(second.sum(axis=0), 1)
    assert theorem1.mean_distance(first) > theorem1.mean_distance(second) + 0.05
    for columns in (
        (first, second),
        tuple(one / np.linalg.norm(one, axis=0) for one in (first, second)),
    ):
        assert 0 < abs(np.linalg.det(columns[0])) < abs(np.linalg.det(columns[1])) - 0.05


def test_theorem1_is_rendered_from_stored_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(theorem1, "SETS", 40)
    monkeypatch.setattr(theorem1, "DIRECTIONS", 500)
    monkeypatch.setattr(theorem1, "POINTS", 20)
    request = checked(ExperimentRequest("theorem1"))
    outcome = reproduce(request, out=tmp_path)
    again = reproduce(request, out=tmp_path)
    assert again.reused == 1 and again.rendering.verdict == outcome.rendering.verdict
    assert any(
        "H = R does not hold" in sentence and "1.172" in sentence
        for sentence in outcome.rendering.verdict
    )
    kept = outcome.records.computed[""].arrays
    # At C = 2 both probabilities are functions of the angle alone, so the ranks agree but for Monte
    # Carlo ties.
    assert theorem1.rank_correlation(kept["2/distance"], kept["2/solid_angle"]) > 0.99
    assert np.array_equal(
        theorem1.compute(request, Computation("", None, {}), None)["3/determinant"],
        kept["3/determinant"],
    )
