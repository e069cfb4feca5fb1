"""The distributions of clustered sampling: sums, variance and inclusion, exact as fractions."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import cut_tree, linkage

from fedgs.arrays import FloatArray, IntArray
from fedgs.sampling.clustered_units import (
    Distributions,
    by_clusters,
    by_sizes,
    cut,
    integers_below,
)

SIZES = st.lists(st.one_of(st.integers(1, 30), st.integers(1, 2**62)), min_size=1, max_size=12).map(
    lambda sizes: np.array(sizes, dtype=np.int64)
)


def points_of(count: int, seed: int) -> FloatArray:
    """Points in the plane with many that are equal, as updates of zeros are."""
    return np.random.default_rng(seed).integers(0, 3, size=(count, 2)).astype(np.float64)


def tree_by(points: FloatArray) -> Any:
    def tree_of(clients: IntArray) -> FloatArray:
        return np.asarray(linkage(points[clients], method="ward"))

    return tree_of


def made(algorithm: str, sizes: IntArray, rows: int, seed: int = 0) -> Distributions:
    clients = np.arange(len(sizes))
    if algorithm == "sizes":
        descending = np.argsort(-sizes, kind="stable")
        return by_sizes(clients[descending], sizes[descending], rows)
    return by_clusters(clients, sizes, rows, tree_by(points_of(len(sizes), seed)))


def probabilities(distributions: Distributions, count: int) -> list[list[Fraction]]:
    """r_lk as fractions, a row a distribution."""
    table = [[Fraction(0)] * count for _ in distributions.rows]
    for row, pieces in zip(table, distributions.rows, strict=True):
        assert len({client for client, _ in pieces}) == len(pieces)
        for client, units in pieces:
            assert units > 0
            row[client] = Fraction(units, distributions.capacity)
    return table


class Scripted:
    """A generator that gives these units, or these bytes, one after another."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def integers(self, bound: int, size: int) -> IntArray:
        return np.array([self._values.pop(0) for _ in range(size)])

    def bytes(self, count: int) -> bytes:
        return int(self._values.pop(0)).to_bytes(count, "little")


@pytest.mark.parametrize("algorithm", ["sizes", "clusters"])
@given(sizes=SIZES, rows=st.integers(1, 14), seed=st.integers(0, 5))
def test_sums_variance_and_inclusion(algorithm: str, sizes: IntArray, rows: int, seed: int) -> None:
    table = probabilities(made(algorithm, sizes, rows, seed), len(sizes))
    assert len(table) == rows
    assert all(sum(row) == 1 for row in table)
    total = sum(sizes.tolist())
    for client, size in enumerate(sizes.tolist()):
        share, column = Fraction(size, total), [row[client] for row in table]
        # With weights draws/M the average is unbiased.
        assert sum(column) / rows == share
        # Var of the number of draws, and P(k in S), against M draws with probabilities p.
        assert sum(r * (1 - r) for r in column) <= rows * share * (1 - share)
        missed = Fraction(1)
        for r in column:
            missed *= 1 - r
        assert missed <= (1 - share) ** rows


@pytest.mark.parametrize("algorithm", ["sizes", "clusters"])
@pytest.mark.parametrize("count", [1, 2, 5, 9])
def test_equal_sizes_and_as_many_rows_as_clients_take_everyone_once(
    algorithm: str, count: int
) -> None:
    distributions = made(algorithm, np.full(count, 7), count)
    drawn = distributions.draw(np.random.default_rng(0))
    assert sorted(drawn.tolist()) == list(range(count))


@pytest.mark.parametrize("algorithm", ["sizes", "clusters"])
def test_one_row_is_sampling_in_proportion_to_the_sizes(algorithm: str) -> None:
    sizes = np.array([4, 1, 9, 2])
    (row,) = made(algorithm, sizes, 1).rows
    assert dict(row) == dict(enumerate(sizes.tolist()))


@pytest.mark.parametrize("algorithm", ["sizes", "clusters"])
def test_a_client_with_nearly_all_data_has_rows_of_its_own(algorithm: str) -> None:
    distributions = made(algorithm, np.array([1, 96, 1, 2]), 5)
    own = [row for row in distributions.rows if row == ((1, 100),)]
    assert len(own) == 4  # 5 · 96 = 4 · 100 + 80
    (rest,) = [dict(row) for row in distributions.rows if len(row) > 1]
    assert rest == {1: 80, 0: 5, 2: 5, 3: 10}


@pytest.mark.parametrize("algorithm", ["sizes", "clusters"])
def test_every_unit_draws_its_client(algorithm: str) -> None:
    # The draw maps the n equally likely units of each row to clients, so the probabilities are
    # exact.
    sizes, rows = np.array([3, 1, 4, 1, 5, 9, 2]), 3
    distributions = made(algorithm, sizes, rows)
    counts = np.zeros((rows, len(sizes)), dtype=np.int64)
    for unit in range(distributions.capacity):
        drawn = distributions.draw(Scripted([unit] * rows))  # type: ignore[arg-type]
        counts[np.arange(rows), drawn] += 1
    expected = probabilities(distributions, len(sizes))
    assert counts.tolist() == [[25 * r for r in row] for row in expected]


def test_sizes_are_poured_in_the_order_of_the_clients() -> None:
    rows = by_sizes(np.array([2, 0, 1]), np.array([5, 3, 2]), 2).rows
    assert rows == (((2, 10),), ((0, 6), (1, 4)))


@given(
    units=st.lists(st.integers(1, 9), min_size=2, max_size=12),
    at_least=st.integers(1, 12),
    seed=st.integers(0, 20),
)
def test_a_cut_is_the_coarsest_with_enough_clusters_below_the_capacity(
    units: list[int], at_least: int, seed: int
) -> None:
    count = len(units)
    at_least, capacity = min(at_least, count), max(max(units), sum(units) // 3)
    # Distinct distances, so that SciPy's own cut of the tree is unique.
    tree = linkage(np.random.default_rng(seed).random((count, 2)), method="ward")
    clusters = cut(tree, units, at_least, capacity)
    for number in range(at_least, count + 1):
        labels = cut_tree(tree, n_clusters=number)[:, 0]
        masses = np.bincount(labels, weights=units)
        if masses.max() <= capacity:
            groups = [np.flatnonzero(labels == label).tolist() for label in np.unique(labels)]
            assert clusters == sorted(groups)
            return
    raise AssertionError("single leaves are below the capacity")


def test_the_heaviest_clusters_are_kept_and_the_others_are_poured_into_them() -> None:
    # Three places: clients 0-1, 2-3 and 4-5, with 2·n_k of 8, 6 and 6 units, n = 10.
    points = np.array([[0.0], [0.1], [5.0], [5.1], [50.0], [50.1]])
    rows = by_clusters(np.arange(6), np.array([2, 2, 2, 1, 1, 2]), 2, tree_by(points)).rows
    assert rows == (((0, 4), (1, 4), (4, 2)), ((2, 4), (3, 2), (5, 4)))


def test_integers_above_64_bits_are_uniform() -> None:
    bound = 2**64 + 2
    # 65 bits in 9 bytes: the 7 lowest bits are dropped, and values from the bound on are refused.
    given = [(2**64 + 2) << 7, (2**64 + 1) << 7, 5 << 7, (2**65 - 1) << 7, 0]
    assert integers_below(bound, 3, Scripted(given)) == [2**64 + 1, 5, 0]  # type: ignore[arg-type]
    draws = integers_below(2**70, 4000, np.random.default_rng(0))
    # Share of the lower half: standard error .0079, six of them: odds below 1e-8.
    assert abs(np.mean([value < 2**69 for value in draws]) - 0.5) < 0.0475
