"""Edge lengths for the tests of the graph."""

import numpy as np


def random_lengths(count: int, *, density: float, seed: int, spread: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    lengths = np.where(
        rng.random((count, count)) < density,
        np.exp(-rng.uniform(0, spread, (count, count))),
        np.inf,
    )
    lengths = np.triu(lengths, 1)
    lengths = lengths + lengths.T
    np.fill_diagonal(lengths, 0.0)
    return lengths
