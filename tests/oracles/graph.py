"""Shortest paths by plain loops."""

import math

import numpy as np


def shortest_paths(adjacency: np.ndarray) -> np.ndarray:
    """Bellman-Ford from every vertex."""
    count = len(adjacency)
    out = np.full((count, count), math.inf)
    for source in range(count):
        out[source, source] = 0.0
        for _ in range(count):
            for i in range(count):
                for j in range(count):
                    if out[source, i] + adjacency[i, j] < out[source, j]:
                        out[source, j] = out[source, i] + adjacency[i, j]
    return out
