"""FedGS as a sampler: the problem it poses, what it remembers, what it refuses."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgs import Clients, View
from fedgs.arrays import FloatMatrix
from fedgs.errors import ConfigError, GraphError, SelectionError
from fedgs.graph import Graph
from fedgs.registry import build, table
from fedgs.rng import stream
from fedgs.sampling import FedGS, Remembers, Solver


def points(count: int, seed: int = 0) -> FloatMatrix:
    """(N, N) distances of random points in the unit square."""
    where = np.random.default_rng(seed).random((count, 2))
    return np.linalg.norm(where[:, None] - where[None], axis=2)


def view_of(distance: FloatMatrix, counts: list[int], *, limit: int, available: list[int] | None = None) -> View:
    count = len(counts)
    clients = Clients(tuple(range(count)), np.arange(1, count + 1))
    present = np.arange(count) if available is None else np.array(available)
    return View(0, clients, present, np.array(counts), limit, memory={"distance": distance})


def paper_objective(distance: FloatMatrix, counts: list[int], limit: int, cohort: tuple[int, ...], alpha: float) -> float:
    """Equations 14 to 17, one client and one ordered pair at a time."""
    count, mean = len(counts), sum(counts) / len(counts)
    diversity = sum(float(distance[i, j]) for i in cohort for j in cohort if i != j)
    balance = sum(2 * (counts[k] - mean - limit / count) + 1 for k in cohort)
    return alpha / count * diversity - balance


def authors_objective(distance: FloatMatrix, counts: list[int], cohort: tuple[int, ...], alpha: float, available: int) -> float:
    """The `cohort` scale, one client and one unordered pair at a time."""
    count, mean, m = len(counts), sum(counts) / len(counts), len(cohort)
    diversity = sum(float(distance[i, j]) for i, j in combinations(cohort, 2))
    balance = sum(2 * (counts[k] - mean - m / available) + 1 for k in cohort)
    return alpha * 2 / (m * (m - 1)) * diversity - balance / (count - 1)


@given(
    counts=st.lists(st.integers(0, 3), min_size=4, max_size=8),
    alpha=st.sampled_from([0.0, 0.5, 1.0, 5.0, 50.0]),
    limit=st.integers(2, 3),
    seed=st.integers(0, 50),
)
@settings(max_examples=40, deadline=None)
def test_the_cohort_is_the_best_of_all_in_paper_scale(counts: list[int], alpha: float, limit: int, seed: int) -> None:
    distance = points(len(counts), seed)
    selection = FedGS(alpha=alpha).select(view_of(distance, counts, limit=limit), stream(seed, "select", 0))
    best = max(paper_objective(distance, counts, limit, cohort, alpha) for cohort in combinations(range(len(counts)), limit))
    reached = paper_objective(distance, counts, limit, tuple(selection.clients.tolist()), alpha)
    assert reached == pytest.approx(best, abs=1e-9)
    assert selection.objective == pytest.approx(best, abs=1e-9)
    assert selection.upper_bound == pytest.approx(best, abs=1e-9)
    assert selection.status == "optimal"


@given(
    counts=st.lists(st.integers(0, 3), min_size=5, max_size=8),
    alpha=st.sampled_from([0.0, 0.5, 1.0, 5.0]),
    seed=st.integers(0, 50),
)
@settings(max_examples=40, deadline=None)
def test_the_cohort_is_the_best_of_all_in_cohort_scale(counts: list[int], alpha: float, seed: int) -> None:
    distance, available = points(len(counts), seed), list(range(1, len(counts)))
    view = view_of(distance, counts, limit=3, available=available)
    selection = FedGS(alpha=alpha, scale="cohort").select(view, stream(seed, "select", 0))
    best = max(authors_objective(distance, counts, cohort, alpha, len(available)) for cohort in combinations(available, 3))
    reached = authors_objective(distance, counts, tuple(selection.clients.tolist()), alpha, len(available))
    assert reached == pytest.approx(best, abs=1e-9)
    assert selection.objective == pytest.approx(best, abs=1e-9)


def test_zero_diversity_weight_selects_the_smallest_counts() -> None:
    counts = [3, 0, 2, 0, 1, 4, 1]
    for seed in range(20):
        chosen = FedGS(alpha=0.0).select(view_of(points(7), counts, limit=3), stream(seed, "select", 0)).clients
        assert sorted(counts[k] for k in chosen) == [0, 0, 1]


def test_zero_diversity_weight_breaks_ties_with_the_generator() -> None:
    view = view_of(points(4), [0, 1, 1, 1], limit=2)
    cohorts = [tuple(FedGS(alpha=0.0).select(view, stream(seed, "select", 0)).clients.tolist()) for seed in range(1200)]
    # Client 0 and one of three at random: 1/3 each, standard error .0136; six of them: odds 1e-8.
    for other in (1, 2, 3):
        assert cohorts.count((0, other)) / 1200 == pytest.approx(1 / 3, abs=0.082)


def test_paper_scale_has_one_optimum_for_all_alphas_below_the_limit() -> None:
    # h_max = 1 and 0 < alpha < N/(m-1) = 10/2: smallest counts first, then the largest dispersion.
    distance, counts = points(10) / points(10).max(), [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
    view = view_of(distance, counts, limit=3)
    cohorts = {tuple(FedGS(alpha=a).select(view, stream(0, "select", 0)).clients.tolist()) for a in (0.01, 0.5, 1.0, 2.0, 4.9)}
    best = max(combinations(range(5), 3), key=lambda s: sum(distance[i, j] for i, j in combinations(s, 2)))
    assert cohorts == {best}


def test_everyone_is_selected_without_a_solver_where_few_are_available() -> None:
    selection = FedGS().select(view_of(points(6), [0] * 6, limit=3, available=[1, 4, 5]), stream(0, "select", 0))
    assert selection.clients.tolist() == [1, 4, 5]
    assert (selection.status, selection.objective, selection.upper_bound) == (None, None, None)


def test_counts_stay_within_one_of_each_other_under_full_availability() -> None:
    counts, distance = np.zeros(10, dtype=np.int64), points(10)
    for t in range(40):
        view = View(t, Clients(tuple(range(10)), np.ones(10, dtype=np.int64)), np.arange(10), counts.copy(), 3)
        view = View(t, view.clients, view.available, view.counts, 3, memory={"distance": distance})
        counts[FedGS(alpha=1.0).select(view, stream(0, "select", t)).clients] += 1
        assert counts.max() - counts.min() <= 1


def test_unreachable_pairs_do_no_harm() -> None:
    distance = points(5)
    distance[0, 1:] = distance[1:, 0] = np.inf
    selection = FedGS(alpha=1.0).select(view_of(distance, [0] * 5, limit=2), stream(0, "select", 0))
    assert selection.objective is not None
    assert np.isfinite(selection.objective)


def test_the_memory_is_the_distance_of_the_graph() -> None:
    clients = Clients((0, 1, 2), np.array([2, 2, 2]), label_counts=np.array([[2, 0], [1, 1], [0, 2]]))
    memory = FedGS().start(clients)
    assert list(memory) == ["distance"]
    np.testing.assert_array_equal(memory["distance"], Graph().of_clients(clients).distance)
    assert isinstance(FedGS(), Remembers)


def test_graph_settings_reach_the_graph() -> None:
    clients = Clients((0, 1, 2, 3), np.full(4, 3), features=np.random.default_rng(0).random((4, 3)))
    authors = FedGS(graph=Graph(preset="authors"))
    np.testing.assert_array_equal(authors.start(clients)["distance"], Graph(preset="authors").of_clients(clients).distance)
    assert not np.array_equal(authors.start(clients)["distance"], FedGS().start(clients)["distance"])


def test_clients_without_features_and_labels_are_refused() -> None:
    with pytest.raises(GraphError, match="needs client features or labels, and these clients have neither"):
        FedGS().start(Clients((0, 1), np.array([2, 2])))


def test_selecting_without_a_graph_is_refused() -> None:
    bare = View(0, Clients((0, 1), np.array([2, 2])), np.arange(2), np.zeros(2, dtype=np.int64), 1)
    with pytest.raises(SelectionError, match=r"^'fedgs' needs the distances that start\(clients\) gives in view\.memory"):
        FedGS().select(bare, stream(0, "select", 0))


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (
            {"similarity": "functional"},
            "method.graph.similarity must be 'oracle' for a graph of the clients' data, got 'functional'",
        ),
        ({"start": "seen"}, "method.graph.start must be 'all' for a graph of the clients' data, got 'seen'"),
        ({"path": "graph.npz"}, "method.graph.path must be None for a graph of the clients' data, got 'graph.npz'"),
    ],
)
def test_graphs_of_something_else_never_fall_back_to_the_oracle(graph: dict[str, object], message: str) -> None:
    clients = Clients((0, 1), np.array([2, 2]), label_counts=np.ones((2, 2), dtype=np.int64))
    sampler = build("method", {"name": "fedgs", "graph": graph})
    assert isinstance(sampler, FedGS)
    for act in (lambda: sampler.check(clients, 1), lambda: sampler.start(clients)):
        with pytest.raises(ConfigError) as error:
            act()
        assert str(error.value) == message.replace("...", "for a graph of the clients' data")


def test_nested_tables_round_trip() -> None:
    given = {"name": "fedgs", "alpha": 2, "graph": {"epsilon": 0.5}, "solver": {"effort": "fast", "time_limit": 3}}
    sampler = build("method", given)
    assert sampler == FedGS(alpha=2.0, graph=Graph(epsilon=0.5), solver=Solver(effort="fast", time_limit=3.0))
    assert build("method", table(sampler)) == sampler


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": -1}, r"method\.alpha should be greater than or equal to 0, got -1"),
        ({"alpha": float("inf")}, r"method\.alpha should be a finite number, got inf"),
        ({"scale": "authors"}, r"method\.scale should be 'paper' or 'cohort', got 'authors'"),
        ({"solver": {"time_limit": 0}}, r"method\.solver\.time_limit should be greater than 0, got 0"),
        ({"solver": {"effort": "hard"}}, r"method\.solver\.effort should be 'fast', 'default' or 'thorough', got 'hard'"),
        ({"solver": {"limit": 1}}, r"method\.solver\.limit is not a setting; known are effort, time_limit; did you mean"),
        ({"graph": {"epsilon": -1}}, r"^method\.graph\.epsilon should be greater than or equal to 0, got -1"),
        ({"graph": {"sigma": 1}}, r"^method\.graph\.sigma is not a setting; known are .*; did you mean 'sigma_squared'\?"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build("method", {"name": "fedgs", **settings})
