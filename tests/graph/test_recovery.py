"""Edges against the oracle's, and the rules that choose epsilon."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgs.errors import GraphError
from fedgs.graph import Graph
from fedgs.graph.recovery import (
    components,
    density,
    edges_of,
    epsilon_of_density,
    epsilon_of_histogram,
    oracle_edges,
    recovery,
    recovery_grid,
)


def symmetric(seed: int, count: int) -> np.ndarray:
    half = np.triu(np.random.default_rng(seed).integers(0, 11, (count, count)) / 10, 1)
    return half + half.T + np.eye(count)


@given(
    seed=st.integers(0, 200),
    count=st.integers(2, 9),
    epsilon=st.sampled_from([0.0, 0.1, 0.5, 0.9, 2.0]),
)
@settings(max_examples=60, deadline=None)
def test_precision_recall_and_f1_are_those_of_counting_pairs(
    seed: int, count: int, epsilon: float
) -> None:
    similarity, oracle = symmetric(seed, count), symmetric(seed + 1000, count) >= 0.6
    pairs = list(combinations(range(count), 2))
    found = {pair for pair in pairs if similarity[pair] >= epsilon}
    true = {pair for pair in pairs if oracle[pair]}
    row = recovery(similarity, oracle, epsilon=epsilon)
    precision = len(found & true) / len(found) if found else 1.0
    recall = len(found & true) / len(true) if true else 1.0
    assert row.precision == pytest.approx(precision)
    assert row.recall == pytest.approx(recall)
    assert row.f1 == pytest.approx(
        2 * precision * recall / (precision + recall) if precision + recall else 0.0
    )
    assert row.density == pytest.approx(len(found) / len(pairs))


def test_a_graph_recovers_itself() -> None:
    similarity = symmetric(3, 8)
    row = recovery(similarity, edges_of(similarity, 0.4), epsilon=0.4)
    assert (row.precision, row.recall, row.f1) == (1.0, 1.0, 1.0)


@given(seed=st.integers(0, 200))
@settings(max_examples=20, deadline=None)
def test_relabelled_clients_have_the_same_recovery(seed: int) -> None:
    similarity, oracle = symmetric(seed, 7), symmetric(seed + 1, 7) >= 0.5
    order = np.random.default_rng(seed).permutation(7)
    block = np.ix_(order, order)
    assert recovery(similarity[block], oracle[block], epsilon=0.3) == recovery(
        similarity, oracle, epsilon=0.3
    )


def test_the_grid_has_a_row_for_each_epsilon() -> None:
    rows = recovery_grid(symmetric(0, 6), symmetric(1, 6) >= 0.5)
    assert [row.epsilon for row in rows] == [0.0, 0.01, 0.05, 0.1, 0.5]
    assert [row.density for row in rows] == sorted((row.density for row in rows), reverse=True)


def test_the_three_oracles_differ_by_the_rescaling() -> None:
    # Products off the diagonal .2 .25 .6, on it 1: min-max over i≠j gives 0 .125 1, over all i, j 0
    # .0625 .5.
    products = np.array([[1.0, 0.2, 0.25], [0.2, 1.0, 0.6], [0.25, 0.6, 1.0]])
    assert oracle_edges(products, "raw").sum() // 2 == 3
    assert oracle_edges(products, "off_diagonal").sum() // 2 == 2
    assert oracle_edges(products, "all").sum() // 2 == 1


@given(seed=st.integers(0, 200), count=st.integers(2, 9), target=st.floats(0.01, 1.0))
@settings(max_examples=60, deadline=None)
def test_the_density_rule_gives_at_least_the_target_and_no_larger_epsilon_does(
    seed: int, count: int, target: float
) -> None:
    similarity = symmetric(seed, count)
    epsilon = epsilon_of_density(similarity, target)
    alike = density(edges_of(similarity, 1e-9))
    assert density(edges_of(similarity, epsilon)) >= min(target, alike) - 1e-9
    assert (
        density(edges_of(similarity, np.nextafter(epsilon, 2.0))) < min(target, alike) or alike == 0
    )


@given(seed=st.integers(0, 200), count=st.integers(3, 8))
@settings(max_examples=40, deadline=None)
def test_the_histogram_rule_has_the_least_variance_within_groups(seed: int, count: int) -> None:
    similarity = symmetric(seed, count)
    values = similarity[np.triu_indices(count, 1)]

    def within(epsilon: float) -> float:
        groups = [values[values >= epsilon], values[values < epsilon]]
        return float(sum(((group - group.mean()) ** 2).sum() for group in groups if len(group)))

    chosen = epsilon_of_histogram(similarity)
    assert within(chosen) == pytest.approx(min(within(value) for value in values), abs=1e-12)


def test_the_density_rule_never_joins_clients_that_are_not_alike() -> None:
    similarity = np.eye(4)
    assert epsilon_of_density(similarity, 0.5) == np.inf
    similarity[0, 1] = similarity[1, 0] = 0.2
    assert epsilon_of_density(similarity, 0.5) == 0.2


def test_equal_similarities_are_all_edges_under_both_rules() -> None:
    similarity = np.full((4, 4), 0.3)
    assert density(edges_of(similarity, epsilon_of_histogram(similarity))) == 1.0
    assert density(edges_of(similarity, epsilon_of_density(similarity, 0.1))) == 1.0


def test_density_and_components_of_a_client_graph() -> None:
    similarity = np.eye(5)
    similarity[0, 1] = similarity[1, 0] = similarity[1, 2] = similarity[2, 1] = 0.7
    adjacency = Graph().of_similarity(similarity).adjacency
    assert density(adjacency) == pytest.approx(2 / 10)
    assert components(adjacency) == 3
    assert (density(np.zeros((1, 1))), components(np.zeros((1, 1)))) == (0.0, 1)


@pytest.mark.parametrize("target", [0.0, -0.1, 1.1])
def test_a_target_density_out_of_range_is_refused(target: float) -> None:
    with pytest.raises(
        GraphError, match=rf"^the target density must be in \(0, 1\], got {target}$"
    ):
        epsilon_of_density(symmetric(0, 4), target)


def test_an_epsilon_for_one_client_is_refused() -> None:
    with pytest.raises(GraphError, match="^an epsilon needs at least two clients"):
        epsilon_of_histogram(np.eye(1))


def test_an_oracle_of_another_size_is_refused() -> None:
    with pytest.raises(
        GraphError, match=r"^the oracle must have 3 clients, got edges of shape \(2, 2\)$"
    ):
        recovery(np.eye(3), np.eye(2) > 0, epsilon=0.1)
