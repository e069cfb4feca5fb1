import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import local_sgd

from fedgs.local import batches as module
from fedgs.local.batches import client_keys, local_batches, stacked_keys

SHAPES = st.tuples(st.integers(1, 60), st.integers(1, 12), st.integers(1, 15))  # n, E, B


def as_lists(found: module.Batches, row: int = 0) -> list[list[int]]:
    return [
        found.indices[row, e, : found.sizes[row, e]].tolist() for e in range(found.sizes.shape[1])
    ]


@given(SHAPES, st.integers(0, 2**40), st.integers(0, 1000), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_batches_are_those_of_the_plain_version(
    shape: tuple[int, int, int], seed: int, round: int, client: int
) -> None:
    n, steps, size = shape
    found = local_batches(
        client_keys((seed, round), np.array([client])),
        np.array([n]),
        local_steps=steps,
        batch_size=size,
    )
    assert as_lists(found) == local_sgd.batches(seed, round, client, n, steps, size)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.integers(1, 9), st.integers(1, 15))
@settings(max_examples=40, deadline=None)
def test_compiled_kernel_and_numpy_agree(sizes: list[int], steps: int, batch_size: int) -> None:
    pytest.importorskip("numba")
    keys = client_keys((3, 5), np.arange(len(sizes)))
    compiled = local_batches(keys, np.array(sizes), local_steps=steps, batch_size=batch_size)
    plain = np.zeros_like(compiled.indices)
    own, each = np.array(sizes), np.full(len(sizes), steps)
    module._fill(keys, own, own, each, plain)
    np.testing.assert_array_equal(plain, compiled.indices)


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=5),
    st.integers(1, 3),
    st.integers(1, 15),
    st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_passes_and_left_out_batches_are_those_of_the_plain_version(
    sizes: list[int], passes: int, batch_size: int, drop_last: bool
) -> None:
    """With the compiled kernel and in NumPy; after its last step a client has no batch."""
    own = np.array(sizes)
    steps = passes * module.steps_a_pass(own, batch_size, drop_last=drop_last)
    keys = client_keys((3, 5), np.arange(len(sizes)))
    found = local_batches(keys, own, local_steps=steps, batch_size=batch_size, drop_last=drop_last)
    for client, n in enumerate(sizes):
        short = n % batch_size > 0 and not (drop_last and n > batch_size)
        assert steps[client] == passes * (n // batch_size + short)
        expected = local_sgd.batches(3, 5, client, n, steps[client], batch_size, drop_last)
        assert found.sizes[client].tolist() == [
            *map(len, expected),
            *[0] * (found.sizes.shape[1] - len(expected)),
        ]
        used = found.sizes[client]
        assert [
            found.indices[client, step, : used[step]].tolist() for step in range(len(expected))
        ] == expected
    plain = np.zeros_like(found.indices)
    ends = own // batch_size * batch_size
    module._fill(keys, own, np.where((ends > 0) & drop_last, ends, own), steps, plain)
    np.testing.assert_array_equal(plain, found.indices)


@given(SHAPES)
@settings(max_examples=60, deadline=None)
def test_each_pass_uses_every_example_once_before_any_twice(shape: tuple[int, int, int]) -> None:
    n, steps, size = shape
    found = as_lists(
        local_batches(
            client_keys((0, 0), np.array([0])), np.array([n]), local_steps=steps, batch_size=size
        )
    )
    a_pass = math.ceil(n / size)
    for first in range(0, steps, a_pass):
        used = [i for batch in found[first : first + a_pass] for i in batch]
        assert len(set(used)) == len(used)
        if first + a_pass <= steps:
            assert sorted(used) == list(range(n))


def test_client_smaller_than_the_batch_uses_all_its_examples_in_every_step() -> None:
    found = local_batches(
        client_keys((0, 0), np.array([4])), np.array([3]), local_steps=5, batch_size=10
    )
    assert found.sizes.tolist() == [[3] * 5]
    assert all(sorted(batch) == [0, 1, 2] for batch in as_lists(found))


def test_last_batch_of_a_pass_is_short() -> None:
    found = local_batches(
        client_keys((0, 0), np.array([4])), np.array([7]), local_steps=5, batch_size=3
    )
    assert found.sizes.tolist() == [[3, 3, 1, 3, 3]]


def test_batches_depend_on_seed_round_and_client_alone() -> None:
    clients = np.array([2, 5, 9])
    together = local_batches(
        client_keys((1, 2), clients), np.array([30, 8, 50]), local_steps=4, batch_size=5
    )
    for row, (client, n) in enumerate(zip(clients, (30, 8, 50), strict=True)):
        alone = local_batches(
            client_keys((1, 2), np.array([client])), np.array([n]), local_steps=4, batch_size=5
        )
        np.testing.assert_array_equal(alone.indices[0], together.indices[row])
    sizes = np.array([30, 8, 50])
    first, next_round, next_seed = (
        as_lists(local_batches(client_keys(key, clients), sizes, local_steps=4, batch_size=5))
        for key in ((1, 2), (1, 3), (2, 2))
    )
    assert first != next_round != next_seed != first


def test_keys_of_many_requests_are_those_of_each() -> None:
    keys = stacked_keys([(0, 1), (7, 0), (0, 1)], [2, 0, 1], np.array([3, 4, 9]))
    np.testing.assert_array_equal(
        keys, np.r_[client_keys((0, 1), np.array([3, 4])), client_keys((0, 1), np.array([9]))]
    )


def test_all_orders_of_four_examples_are_equally_frequent() -> None:
    # 24 orders, 24000 clients, 1000 expected each. Chi-square with 23 degrees of freedom exceeds
    # 58.6 with odds 1 : 15000.
    count = 24000
    keys = client_keys((11, 0), np.arange(count))
    found = local_batches(keys, np.full(count, 4), local_steps=1, batch_size=4).indices[:, 0]
    _, frequency = np.unique(found @ np.array([64, 16, 4, 1]), return_counts=True)
    assert len(frequency) == 24
    assert float(np.sum((frequency - 1000) ** 2) / 1000) < 58.6


def test_examples_used_first_are_uniform_over_a_large_client() -> None:
    # 20000 rounds x first batch of 10 of 1000 examples in 50 bins of 20: 4000 expected a bin;
    # chi-square with 49 degrees of freedom (a little less, since draws are without replacement)
    # exceeds 98.0 with odds below 1 : 20000.
    keys = stacked_keys(
        [(5, t) for t in range(20000)], [1] * 20000, np.zeros(20000, dtype=np.int64)
    )
    found = local_batches(keys, np.full(20000, 1000), local_steps=1, batch_size=10).indices.ravel()
    frequency = np.bincount(found // 20, minlength=50)
    assert float(np.sum((frequency - 4000) ** 2) / 4000) < 98.0


def test_passes_of_one_round_are_shuffled_independently() -> None:
    # 3 examples, two passes, 9000 clients: the second order equals the first with probability 1/6;
    # 1500 expected, sd 35.4; five sd on either side: odds of a false alarm below 1 : 1,000,000.
    found = local_batches(
        client_keys((2, 0), np.arange(9000)), np.full(9000, 3), local_steps=2, batch_size=3
    ).indices
    assert abs(int(np.all(found[:, 0] == found[:, 1], axis=1).sum()) - 1500) < 177
