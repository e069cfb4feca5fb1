"""Equal examples are counted within clients, across clients, and between the parts."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgs.data import Federation, describe
from fedgs.data.duplicates import Duplicates, duplicates


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_counts_are_those_of_a_comparison_of_all_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 25))
    x = rng.integers(0, 3, (count, 2)).astype(np.float64)
    x[x == 0] = rng.choice([0.0, -0.0], (x == 0).sum())
    y, owner = rng.integers(0, 2, count), rng.integers(0, 3, count)
    test, held = rng.integers(0, 4, (6, 2)).astype(float), rng.integers(0, 4, (3, 2)).astype(float)
    federation = Federation.from_arrays(
        x, y, client=owner, test=(test, [0] * 6), validation=(held, [0] * 3, [owner[0]] * 3)
    )
    equal = (x[:, None] == x[None]).all(axis=2)
    same = owner[:, None] == owner[None]
    expected = Duplicates(
        within_clients=sum(bool((equal & same)[k, :k].any()) for k in range(count)),
        across_clients=sum(bool((equal & ~same)[k].any()) for k in range(count)),
        test_in_training=sum(bool((row == x).all(axis=1).any()) for row in test),
        validation_in_training=sum(bool((row == x).all(axis=1).any()) for row in held),
    )
    assert duplicates(federation) == expected


def test_the_description_counts_them() -> None:
    x, y = np.array([[1.0], [1.0], [2.0], [1.0]]), [0, 0, 1, 0]
    owner = ["a", "a", "a", "b"]
    description = describe(Federation.from_arrays(x, y, client=owner, test=([[2.0]], [1])))
    assert (
        "duplicates      1 training example repeated within a client, 3 training examples at more "
        "than one client, 1 test example in training"
    ) in description.lines()
    table = description.table()["duplicates"]
    assert table == {
        "within_clients": 1,
        "across_clients": 3,
        "test_in_training": 1,
        "validation_in_training": 0,
    }
    alone = describe(Federation.from_arrays(x[1:3], y[1:3], client=["a", "b"], test=([[5.0]], [1])))
    assert "duplicates      none" in alone.lines()


def test_images_and_booleans_are_compared() -> None:
    flags = np.zeros((3, 2, 2), dtype=bool)
    flags[2] = True
    federation = Federation.from_arrays(flags, [0, 1, 0], client=[0, 1, 1], test=(flags[2:], [0]))
    assert duplicates(federation) == Duplicates(0, 2, 1, 0)
