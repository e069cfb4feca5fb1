"""Labels and federations that several tests of the data use."""

import numpy as np
from hypothesis import strategies as st

from fedgs.clients import Clients
from fedgs.data import Assignment, Federation, Part


def small(**changes: object) -> Federation:
    """Clients "a" and "b" with 2 and 1 training examples, features, and all parts."""
    x = np.arange(6.0, dtype=np.float32).reshape(3, 2)
    parts: dict[str, object] = {
        "name": "small",
        "clients": Clients(("a", "b"), np.array([2, 1]), features=np.eye(2)),
        "num_labels": 2,
        "train": Part(x, np.array([0, 1, 0]), np.array([0, 2, 3])),
        "validation": Part(x[:2], np.array([0, 1]), np.array([0, 1, 2])),
        "test": Part(x[1:], np.array([1, 1]), np.array([0, 2])),
    }
    return Federation(**{**parts, **changes})  # type: ignore[arg-type]


@st.composite
def labelled(draw: st.DrawFn) -> tuple[np.ndarray, int, int]:
    """Labels of random unbalanced classes, some without examples; a number of clients; a seed."""
    seed = draw(st.integers(0, 10_000))
    classes = draw(st.integers(2, 12))
    clients = draw(st.integers(1, 12))
    count = draw(st.integers(2 * clients + classes, 300))
    rng = np.random.default_rng(seed)
    return rng.choice(classes, count, p=rng.dirichlet(np.ones(classes))), clients, seed


def counts_of(assignment: Assignment, labels: np.ndarray) -> np.ndarray:
    return np.stack(
        [
            np.bincount(labels[assignment.examples(k)], minlength=int(labels.max()) + 1)
            for k in range(len(assignment))
        ]
    )
