"""Compiled loop of the landmark metric, loaded by `load_kernels`.

The reference in NumPy is in `landmark_building`. Both add products in the order of the coordinates,
so that they give the same bits on any number of threads.
"""

from typing import Any

import numpy as np

from fedgs.compiling import compiled


@compiled
def nearest_landmarks(vectors: Any, across: Any, nearest: Any, best: Any) -> Any:
    """Each client's largest product with a landmark; the smallest and largest of all products.

    Args:
        vectors: (N, d).
        across: (d, L), the vectors of the landmarks as columns.
        nearest: (N,) on entry the place of each landmark, and -1 for other clients; on return the
            place of the landmark with the largest product, the first of equal ones.
        best: (N,) is filled with that product.

    Returns:
        The smallest and the largest product, without those of landmarks with themselves.
    """
    count, width = vectors.shape
    number = across.shape[1]
    products = np.empty(number)
    low, high = np.inf, -np.inf
    for client in range(count):
        for place in range(number):
            products[place] = 0.0
        for k in range(width):
            x = vectors[client, k]
            row = across[k]
            for place in range(number):
                products[place] += x * row[place]
        own = nearest[client]
        if own >= 0:  # its product with itself counts as its product with the next one
            products[own] = products[(own + 1) % number]
        top, where = products[0], 0
        for place in range(number):
            value = products[place]
            low = min(low, value)
            if value > top:
                top = value
                where = place
        high = max(high, top)
        best[client] = top
        if own < 0:
            nearest[client] = where
    return low, high
