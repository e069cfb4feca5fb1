from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgs.compiling import load_kernels
from fedgs.graph.tree import SpanningForest, forest_distances
from fedgs.solver import limits
from fedgs.solver.tree import best_on_forest, linked, plain_best_on_forest, workspace

compiled = pytest.mark.skipif(
    load_kernels("fedgs.solver.kernels.tree") is None,
    reason="without numba the value of several trees is that of the linked tree, a bound",
)


def random_forest(count: int, seed: int, *, cut: float) -> SpanningForest:
    rng = np.random.default_rng(seed)
    order, parent, above = rng.permutation(count), np.full(count, -1), np.zeros(count)
    for place in range(1, count):
        if rng.random() >= cut:
            parent[order[place]] = order[rng.integers(place)]
            above[order[place]] = rng.integers(0, 10)
    return SpanningForest(parent, above, order)


def best_by_trying(metric: np.ndarray, clients: np.ndarray, gains: np.ndarray, size: int) -> float:
    return max(
        sum(gains[i] for i in chosen)
        + sum(metric[clients[i], clients[j]] for i, j in combinations(chosen, 2))
        for chosen in combinations(range(len(clients)), size)
    )


@compiled
@given(st.integers(1, 9), st.sampled_from([0.0, 0.3, 1.0]), st.integers(0, 10**6))
@settings(max_examples=80, deadline=None)
def test_equals_trying_everything(count: int, cut: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    forest = random_forest(count, seed, cut=cut)
    metric = np.where(np.isinf(forest_distances(forest)), 30.0, forest_distances(forest))
    clients = rng.permutation(count)[: rng.integers(1, count + 1)]
    gains = rng.integers(-20, 20, len(clients)).astype(float)
    size = int(rng.integers(1, len(clients) + 1))
    chosen, value = best_on_forest(forest, clients, gains, size, apart=30.0)
    assert len(set(chosen.tolist())) == size
    # Whole numbers: the choice is exactly the best; the value may exceed it by what draws between
    # equals, and is never below it.
    best = best_by_trying(metric, clients, gains, size)
    assert gains[chosen].sum() + metric[np.ix_(clients[chosen], clients[chosen])].sum() / 2 == best
    assert 0 <= value - best <= 30e-10


@pytest.mark.parametrize("count", [40, 150])
def test_plain_and_compiled_agree(count: int) -> None:
    forest = random_forest(count, count, cut=0.0)
    gains = np.random.default_rng(0).integers(-9, 9, count).astype(float)
    chosen, value = best_on_forest(forest, np.arange(count), gains, count // 5, apart=1.0)
    picked, plain = plain_best_on_forest(forest, gains, count // 5)
    assert gains[chosen].sum() + forest_distances(forest)[np.ix_(chosen, chosen)].sum() / 2 == plain
    assert plain <= value <= plain + 1e-10
    assert picked.sum() == count // 5


def test_the_order_of_clients_draws_between_equals() -> None:
    # A star of twelve, and twelve lone clients: any two are as far apart as any others.
    rng = np.random.default_rng(0)
    star = SpanningForest(
        np.append(-1, np.zeros(12, dtype=int)), np.append(0.0, np.ones(12)), np.arange(13)
    )
    for forest in (star, SpanningForest(np.full(13, -1), np.zeros(13), np.arange(13))):
        times = np.zeros(13)
        for _ in range(240):
            clients = 1 + rng.permutation(12)
            chosen, _ = best_on_forest(forest, clients, np.zeros(12), 2, apart=2.0)
            times[clients[chosen]] += 1
        # Each of twelve 40 times, standard deviation 5.8.
        assert np.abs(times[1:] - 40).max() < 6 * 5.8


def test_linking_dominates() -> None:
    forest = random_forest(12, 4, cut=0.5)
    metric = np.where(np.isinf(forest_distances(forest)), 30.0, forest_distances(forest))
    assert (forest_distances(linked(forest, 30.0)) >= metric).all()


def test_forest_too_dear_is_bounded_by_the_linked_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    forest = random_forest(12, 4, cut=0.5)
    _, exact = best_on_forest(forest, np.arange(12), np.zeros(12), 4, apart=30.0)
    monkeypatch.setattr(limits, "MAX_FOREST_TABLE_ENTRIES", 0)
    chosen, bound = best_on_forest(forest, np.arange(12), np.zeros(12), 4, apart=30.0)
    assert len(chosen) == 4
    assert bound >= exact


@compiled
def test_ten_thousand_lone_clients_take_the_largest_gains() -> None:
    count = 10_000
    forest = SpanningForest(np.full(count, -1), np.zeros(count), np.arange(count))
    gains = np.random.default_rng(0).random(count)
    chosen, value = best_on_forest(forest, np.arange(count), gains, 100, apart=1.0)
    assert set(chosen.tolist()) == set(np.argsort(gains)[-100:].tolist())
    assert value == pytest.approx(np.sort(gains)[-100:].sum() + 100 * 99 / 2)


@pytest.mark.parametrize("cut", [0.0, 0.2])
@pytest.mark.parametrize("forest_work", [0, 10_000_000])
def test_the_knapsack_stays_in_the_workspace_it_is_given(
    cut: float, forest_work: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_kernels("fedgs.solver.kernels.tree") or pytest.skip("numba is not installed")
    given: list[tuple[np.ndarray, ...]] = []

    def marked(up: np.ndarray, sizes: np.ndarray, size: int) -> tuple[np.ndarray, ...]:
        """A workspace with walls: numbers behind each array that nobody may overwrite."""
        walls = [
            np.full(made.size + 50, -77, dtype=made.dtype) for made in workspace(up, sizes, size)
        ]
        given.append(tuple(walls))
        return tuple(
            wall[:-50].reshape(made.shape)
            for wall, made in zip(walls, workspace(up, sizes, size), strict=True)
        )

    monkeypatch.setattr("fedgs.solver.tree.workspace", marked)
    monkeypatch.setattr(limits, "MAX_FOREST_TABLE_ENTRIES", forest_work)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        count = int(rng.integers(2, 120))
        clients = rng.permutation(count)[: rng.integers(1, count + 1)]
        size = int(rng.integers(1, len(clients) + 1))
        best_on_forest(
            random_forest(count, seed, cut=cut),
            clients,
            rng.normal(size=len(clients)),
            size,
            apart=30.0,
        )
    assert given
    assert all((wall[-50:] == -77).all() for walls in given for wall in walls)


def test_the_workspace_for_many_small_trees_is_small() -> None:
    order = random_forest(5000, 0, cut=0.3).preorder
    assert workspace(order.up, order.sizes, 1000)[2].size < 0.05 * 5000 * 1000
