"""Clustered sampling as samplers: availability, the tree of last updates, what is refused."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy.cluster.hierarchy import fcluster, linkage

from fedgs import Clients, View
from fedgs.arrays import FloatMatrix
from fedgs.clients import Outcome
from fedgs.errors import ConfigError, SelectionError
from fedgs.features import UpdateSketch
from fedgs.registry import build
from fedgs.rng import stream
from fedgs.sampling import Clustered, ClusteredSizes, LearnsFromModels, Remembers, Wish
from fedgs.sampling.clustered import _ward
from fedgs.sampling.last_updates import no_updates, with_updates
from fedgs.weighting import as_weighting, checked_weights

SAMPLERS = [ClusteredSizes(), *(Clustered(measure=m) for m in ("angle", "l1", "l2"))]


def view_of(
    sampler: ClusteredSizes | Clustered,
    sizes: list[int],
    *,
    limit: int,
    available: list[int] | None = None,
    features: FloatMatrix | None = None,
) -> View:
    clients, count = Clients(tuple(range(len(sizes))), np.array(sizes)), len(sizes)
    memory = {}
    if isinstance(sampler, Clustered):
        memory = sampler.start(clients)
        if features is not None:
            memory = sampler.start_from(clients, features)
    indices = np.arange(count) if available is None else np.array(available)
    return View(4, clients, indices, np.zeros(count, dtype=np.int64), limit, memory=memory)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
@pytest.mark.parametrize("limit", [1, 2, 3, 9])
def test_draws_are_unbiased_over_the_available_clients(
    sampler: ClusteredSizes | Clustered, limit: int
) -> None:
    rng = np.random.default_rng(limit)
    sizes, available = [5, 80, 3, 1, 40, 9, 9, 22], [0, 2, 4, 5, 7]
    features = rng.normal(size=(8, 6))
    view = view_of(sampler, sizes, limit=limit, available=available, features=features)
    distributions = sampler.distributions(view, rng)
    assert len(distributions.rows) == view.cohort_size
    total = sum(sizes[k] for k in available)
    drawn = [Fraction(0)] * 8
    for row in distributions.rows:
        assert sum(units for _, units in row) == distributions.capacity
        for client, units in row:
            drawn[client] += Fraction(units, distributions.capacity * view.cohort_size)
    expected = [Fraction(n, total) if k in available else 0 for k, n in enumerate(sizes)]
    assert drawn == expected


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_a_client_that_is_drawn_twice_weighs_twice(sampler: ClusteredSizes | Clustered) -> None:
    view = view_of(sampler, [1, 97, 2], limit=3)
    for seed in range(20):
        selection = sampler.select(view, stream(seed, "select", 4))
        draws = dict(zip(selection.clients.tolist(), selection.draws.tolist(), strict=True))  # type: ignore[union-attr]
        assert draws[1] >= 2  # 3 · 97 >= 2 · 100: two distributions of its own
        assert sum(draws.values()) == 3
        weights = checked_weights(as_weighting(sampler.weighting), view, selection, {})
        assert weights.tolist() == [draws[k] / 3 for k in selection.clients.tolist()]


def test_sizes_are_poured_in_descending_order_and_ties_at_random() -> None:
    sampler, orders = ClusteredSizes(), set()
    for seed in range(40):
        view = view_of(sampler, [1, 6, 2, 6, 1], limit=2)
        rows = sampler.distributions(view, np.random.default_rng(seed)).rows
        poured = [client for row in rows for client, _ in row]
        order = list(dict.fromkeys(poured))
        assert [view.clients.data_sizes[k] for k in order] == [6, 6, 2, 1, 1]
        orders.add(tuple(order))
    # All four orders of the ties; odds of missing one: 4 · .75^40 < 1e-4, the seeds are fixed.
    assert len(orders) == 4


@pytest.mark.parametrize("measure", ["angle", "l1", "l2"])
def test_similar_clients_share_a_distribution(measure: str) -> None:
    rng, groups = np.random.default_rng(0), np.array([0, 1, 2] * 4)
    features = 10 * np.eye(3, 8)[groups] + rng.normal(size=(12, 8))
    sampler = build("method", {"name": "clustered", "measure": measure})
    assert isinstance(sampler, Clustered)
    view = view_of(sampler, [7] * 12, limit=3, features=features)
    rows = sampler.distributions(view, rng).rows
    assert sorted(sorted(client for client, _ in row) for row in rows) == [
        [0, 3, 6, 9],
        [1, 4, 7, 10],
        [2, 5, 8, 11],
    ]
    for seed in range(30):  # so every cohort has one client of each group
        cohort = sampler.select(view, stream(seed, "select", 4)).clients
        assert sorted(groups[cohort].tolist()) == [0, 1, 2]


def test_the_measure_decides_which_clients_are_similar() -> None:
    # By direction 0 and 1, and by place 1 and 2.
    features = np.array([[100.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 90.0]])

    def pairs(measure: str) -> list[list[int]]:
        sampler = build("method", {"name": "clustered", "measure": measure})
        assert isinstance(sampler, Clustered)
        view = view_of(sampler, [1] * 4, limit=2, features=features)
        rows = sampler.distributions(view, np.random.default_rng(0)).rows
        return sorted(sorted(client for client, _ in row) for row in rows)

    assert pairs("angle") == [[0, 1], [2, 3]]
    assert pairs("l2") == pairs("l1") == [[0, 3], [1, 2]]


def test_clients_that_never_took_part_share_a_distribution() -> None:
    sampler = Clustered()
    view = view_of(sampler, [3] * 6, limit=2)
    cohort = Outcome(np.array([1, 3, 4]), np.ones(3) / 3, np.eye(3) + 5)
    memory = sampler.observe(view.memory, view, cohort)
    later = View(5, view.clients, view.available, view.counts, 2, memory=memory)
    rows = sampler.distributions(later, np.random.default_rng(0)).rows
    assert sorted(sorted(client for client, _ in row) for row in rows) == [[0, 2, 5], [1, 3, 4]]


def test_the_tree_takes_distances_as_distances() -> None:
    points = np.random.default_rng(3).normal(size=(15, 4))
    distance = with_updates(no_updates(15), points, np.arange(15), "l2")["distance"]
    np.testing.assert_allclose(_ward(distance), linkage(points, method="ward"), rtol=1e-9)


def test_it_asks_for_the_updates_of_each_cohort() -> None:
    sampler = Clustered()
    assert isinstance(sampler, LearnsFromModels) and isinstance(sampler, Remembers)
    assert sampler.wish("start") is None
    assert sampler.wish("round") == Wish("update", sketch=4096)
    assert Clustered(sketch=64, measure="l2").wish("round") == Wish("update", sketch=64)
    assert Clustered(measure="l1").wish("round") == Wish("update", sketch=0)


def test_a_projection_is_refused_for_l1() -> None:
    clients = Clients((0, 1), np.array([1, 1]))
    Clustered(measure="l1", sketch=0).check(clients, 1)
    with pytest.raises(ConfigError, match=r"^method\.sketch must be 0 for measure 'l1'.*got 64; "):
        Clustered(measure="l1", sketch=64).check(clients, 1)


def test_an_unknown_measure_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^method\.measure should be 'angle', 'l1' or 'l2', got"):
        build("method", {"name": "clustered", "measure": "cosine"})


def test_a_view_without_memory_and_an_outcome_without_updates_are_refused() -> None:
    sampler, view = Clustered(), view_of(ClusteredSizes(), [1, 2], limit=1)
    with pytest.raises(SelectionError, match=r"^'clustered' needs the memory that start\(clients"):
        sampler.select(view, np.random.default_rng(0))
    with pytest.raises(SelectionError, match=r"^'clustered' needs the cohort's updates in"):
        sampler.observe(sampler.start(view.clients), view, Outcome(np.array([0]), np.array([1.0])))


@pytest.mark.parametrize(("length", "cosine"), [(7850, 0.5), (60_000, 0.5), (60_000, 0.1)])
def test_projected_updates_keep_the_clusters(length: int, cosine: float) -> None:
    # 100 clients in 10 groups: updates of one group have this cosine, others are orthogonal, and
    # norms differ. The lengths are those of a logistic regression on MNIST and of a small CNN. The
    # error of a cosine is at most about 1/64.
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(10), 10)
    shared, own = rng.normal(size=(10, length)), rng.normal(size=(100, length))
    updates = np.sqrt(cosine) * shared[groups] + np.sqrt(1 - cosine) * own
    updates *= rng.uniform(0.2, 5, size=(100, 1))
    fold = UpdateSketch(torch.zeros(length), 4096)
    assert fold.projects
    models = torch.from_numpy(updates.astype(np.float32))
    everyone = np.arange(100)
    sketches = fold.finish(fold.add(fold.start(), everyone, models))
    trees = [
        _ward(with_updates(no_updates(100), rows, everyone, "angle")["distance"])
        for rows in (updates, sketches)
    ]
    for tree in trees:
        labels = fcluster(tree, 10, "maxclust")
        assert len({*zip(labels.tolist(), groups.tolist(), strict=True)}) == 10
    # The ten clusters are equal, and so is the height at which they are joined, within the error.
    np.testing.assert_allclose(trees[0][-9:, 2], trees[1][-9:, 2], rtol=0.1)
