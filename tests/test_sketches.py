"""Count sketches are those of the whole projection, whatever the blocks."""

import numpy as np
import pytest

from fedgs import rng, sketches
from fedgs.sketches import count_sketch


def whole(update: np.ndarray, size: int) -> np.ndarray:
    """The sketch with all places and signs drawn at once."""
    draws = rng.stream(0, "update sketch", len(update), size)
    places = draws.integers(size, size=len(update))
    signs = draws.choice(np.array([-1.0, 1.0]), size=len(update))
    return np.bincount(places, weights=signs * update, minlength=size)


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
@pytest.mark.parametrize("size", [1, 2, 255, 256, 257, 70_000])
def test_a_sketch_is_that_of_one_projection_in_every_bit(
    monkeypatch: pytest.MonkeyPatch, block: int, size: int
) -> None:
    monkeypatch.setattr(sketches, "_BLOCK", block)
    sketches._projection.cache_clear()
    for kind in (np.float32, np.float64):
        update = np.random.default_rng(1).normal(size=601).astype(kind)
        np.testing.assert_array_equal(count_sketch(update, size), whole(update, size))
    sketches._projection.cache_clear()


def test_every_sum_and_both_signs_are_used() -> None:
    sums = count_sketch(np.ones(4000), 8)
    assert np.abs(sums).max() < 200 and np.unique(sums).size == 8
    # A projection keeps lengths on average.
    lengths = [
        float((count_sketch(row, 512) ** 2).sum() / (row**2).sum())
        for row in np.random.default_rng(0).normal(size=(20, 4000))
    ]
    assert np.mean(lengths) == pytest.approx(1, abs=0.1)
