"""The clients that stand for all when a model is evaluated: `evaluation.sample`."""

import numpy as np

from fedgs.arrays import IntArray, frozen
from fedgs.rng import stream

__all__ = ["client_sample"]


def client_sample(seed: int, number: int, size: int) -> IntArray:
    """(size,) ascending indices of clients, drawn uniformly without replacement, the same always.

    Args:
        seed: of the run.
        number: N.
        size: 1 <= size <= N.

    >>> client_sample(0, 5, 5).tolist()
    [0, 1, 2, 3, 4]
    """
    drawn = stream(seed, "evaluation sample").choice(number, size, replace=False, shuffle=False)
    return frozen(np.sort(drawn).astype(np.int64))
