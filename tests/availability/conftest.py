"""The four toy clients: sizes 10, 20, 40, 80; labels {0}, {0, 1}, {2..5}, {9} of ten."""

import numpy as np
import pytest

from fedgs import Clients


def toy_clients() -> Clients:
    counts = np.zeros((4, 10), dtype=np.int64)
    counts[0, 0] = 10
    counts[1, [0, 1]] = 10
    counts[2, 2:6] = 10
    counts[3, 9] = 80
    return Clients(("a", "b", "c", "d"), np.array([10, 20, 40, 80]), label_counts=counts)


@pytest.fixture
def toy() -> Clients:
    return toy_clients()
