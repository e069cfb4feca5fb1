"""Federations for the tests of models."""

import numpy as np

from fedgs.data import Federation, Normalization


def federation(shape: tuple[int, ...], labels: int = 4, examples: int = 6) -> Federation:
    """Two clients with uint8 images or float vectors of the given shape."""
    rng = np.random.default_rng(0)
    images = len(shape) == 3
    x = rng.integers(0, 256, (examples, *shape)).astype(np.uint8 if images else np.float32)
    y = np.arange(examples) % labels
    y[-1] = labels - 1
    scaling = Normalization(255.0, (0.5,) * shape[0], (0.5,) * shape[0]) if images else None
    return Federation.from_arrays(
        x, y, client=np.arange(examples) % 2, test=(x, y), normalization=scaling
    )
