"""The memory of last updates: distances after each cohort are those of all features."""

import math
from typing import get_args

import numpy as np
import pytest

from fedgs import Clients
from fedgs.arrays import FloatArray
from fedgs.errors import ConfigError
from fedgs.registry import build
from fedgs.sampling import last_updates
from fedgs.sampling.last_updates import Measure, no_updates, with_updates

MEASURES = get_args(Measure)


def distance_of(one: FloatArray, other: FloatArray, measure: str) -> float:
    """The distance of two updates, one number at a time."""
    if measure == "l1":
        return sum(abs(a - b) for a, b in zip(one, other, strict=True))
    squared = sum((a - b) ** 2 for a, b in zip(one, other, strict=True))
    if measure in ("l2", "squared"):
        return math.sqrt(squared) if measure == "l2" else squared
    if not one.any() or not other.any():
        cosine = float(not one.any() and not other.any())
    else:
        cosine = float(one @ other) / math.sqrt(float(one @ one) * float(other @ other))
    cosine = min(1.0, max(-1.0, cosine))
    return math.acos(cosine) if measure == "angle" else 1 - cosine


@pytest.mark.parametrize("measure", MEASURES)
def test_distances_are_those_of_the_last_update_of_every_client(measure: Measure) -> None:
    rng, last = np.random.default_rng(0), np.zeros((7, 5))
    memory = no_updates(7)
    for cohort in ([2, 5], [0, 2, 3], [5], [1, 6]):  # client 4 never takes part
        updates = rng.normal(size=(len(cohort), 5))
        updates[0] *= len(cohort) != 1  # the second update of client 5 is zero
        last[cohort] = updates
        memory = with_updates(memory, updates, np.array(cohort), measure)
    expected = [[distance_of(one, other, measure) for other in last] for one in last]
    np.testing.assert_allclose(memory["distance"], expected, atol=1e-7)
    np.testing.assert_array_equal(memory["distance"], memory["distance"].T)
    assert memory["distance"][4, 5] == 0  # both are zero
    assert memory["distance"].diagonal().tolist() == [0.0] * 7


@pytest.mark.parametrize(("measure", "value"), [("angle", np.pi / 2), ("cosine", 1.0)])
def test_an_update_of_zeros_is_orthogonal_to_others(measure: Measure, value: float) -> None:
    memory = with_updates(no_updates(3), np.array([[3.0, 4.0]]), np.array([1]), measure)
    assert memory["distance"][1].tolist() == [value, 0.0, value]


def test_parallel_updates_have_an_angle_and_no_nan() -> None:
    # The cosine of scaled copies is above 1 in floats for some of these.
    updates = np.outer(np.arange(1, 40), np.random.default_rng(0).normal(size=9))
    memory = with_updates(no_updates(39), updates, np.arange(39), "angle")
    assert np.isfinite(memory["distance"]).all()
    assert memory["distance"].max() < 1e-7


def test_the_memory_before_is_not_changed() -> None:
    before = no_updates(3, known=False)
    after = with_updates(before, np.eye(2), np.array([0, 2]), "l2")
    assert before["features"].shape == (3, 0)
    assert not before["distance"].any()
    assert before["known"].tolist() == [False] * 3
    assert after["known"].tolist() == [True, False, True]


@pytest.mark.parametrize("name", ["clustered", "divfl"])
def test_clients_that_do_not_fit_into_memory_are_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_updates, "memory_limit", lambda: 23)
    clients = Clients((0,), np.array([4]))
    with pytest.raises(
        ConfigError, match=rf"^method '{name}' needs about .* GB of memory for the distances of 1"
    ):
        build("method", name).check(clients, 1)  # type: ignore[attr-defined]
    monkeypatch.setattr(last_updates, "memory_limit", lambda: 24)
    build("method", name).check(clients, 1)  # type: ignore[attr-defined]
