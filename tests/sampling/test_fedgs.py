"""FedGS as a sampler: the problem it poses, what it remembers, what it refuses."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgs import Clients, View
from fedgs.arrays import FloatMatrix
from fedgs.clients import Outcome
from fedgs.errors import ConfigError, DataError, GraphError, SelectionError
from fedgs.graph import Graph
from fedgs.graph.files import save_graph
from fedgs.registry import build, table
from fedgs.rng import stream
from fedgs.sampling import FedGS, LearnsFromModels, Remembers, Solver, Wish
from fedgs.sampling.shares import turns_ahead
from fedgs.solver import Scale


def points(count: int, seed: int = 0) -> FloatMatrix:
    """(N, N) distances of random points in the unit square."""
    where = np.random.default_rng(seed).random((count, 2))
    return np.linalg.norm(where[:, None] - where[None], axis=2)


def view_of(
    distance: FloatMatrix, counts: list[int], *, limit: int, available: list[int] | None = None
) -> View:
    count = len(counts)
    clients = Clients(tuple(range(count)), np.arange(1, count + 1))
    indices = np.arange(count) if available is None else np.array(available)
    return View(0, clients, indices, np.array(counts), limit, memory={"distance": distance})


def paper_objective(
    distance: FloatMatrix, counts: list[int], limit: int, cohort: tuple[int, ...], alpha: float
) -> float:
    """Equations 14 to 17, one client and one ordered pair at a time."""
    count, mean = len(counts), sum(counts) / len(counts)
    diversity = sum(float(distance[i, j]) for i in cohort for j in cohort if i != j)
    balance = sum(2 * (counts[k] - mean - limit / count) + 1 for k in cohort)
    return alpha / count * diversity - balance


def authors_objective(
    distance: FloatMatrix, counts: list[int], cohort: tuple[int, ...], alpha: float, available: int
) -> float:
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
def test_the_cohort_is_the_best_of_all_in_paper_scale(
    counts: list[int], alpha: float, limit: int, seed: int
) -> None:
    distance = points(len(counts), seed)
    selection = FedGS(alpha=alpha).select(
        view_of(distance, counts, limit=limit), stream(seed, "select", 0)
    )
    best = max(
        paper_objective(distance, counts, limit, cohort, alpha)
        for cohort in combinations(range(len(counts)), limit)
    )
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
def test_the_cohort_is_the_best_of_all_in_cohort_scale(
    counts: list[int], alpha: float, seed: int
) -> None:
    distance, available = points(len(counts), seed), list(range(1, len(counts)))
    view = view_of(distance, counts, limit=3, available=available)
    selection = FedGS(alpha=alpha, scale="cohort").select(view, stream(seed, "select", 0))
    best = max(
        authors_objective(distance, counts, cohort, alpha, len(available))
        for cohort in combinations(available, 3)
    )
    reached = authors_objective(
        distance, counts, tuple(selection.clients.tolist()), alpha, len(available)
    )
    assert reached == pytest.approx(best, abs=1e-9)
    assert selection.objective == pytest.approx(best, abs=1e-9)


def test_zero_diversity_weight_selects_the_smallest_counts() -> None:
    counts = [3, 0, 2, 0, 1, 4, 1]
    for seed in range(20):
        chosen = (
            FedGS(alpha=0.0)
            .select(view_of(points(7), counts, limit=3), stream(seed, "select", 0))
            .clients
        )
        assert sorted(counts[k] for k in chosen) == [0, 0, 1]


def test_balanced_answers_count_the_updates_and_the_failures_since_the_last_one() -> None:
    # answers + failures = [1, 1, 3, 0]: the two smallest are of client 3 and of client 0 or 1.
    view = replace(
        view_of(points(4), [0, 5, 3, 9], limit=2),
        answers=np.array([1, 1, 0, 0]),
        failures=np.array([0, 0, 3, 0]),
    )
    chosen = [
        set(FedGS(alpha=0.0, balance="answered").select(view, stream(s, "select", 0)).clients)
        for s in range(20)
    ]
    assert {0, 3} in chosen and {1, 3} in chosen and all(3 in c and 2 not in c for c in chosen)
    assert FedGS(alpha=0.0).select(view, stream(0, "select", 0)).clients.tolist() == [0, 2]


def test_without_failures_both_balances_select_the_same_and_the_default_is_not_stored() -> None:
    view = view_of(points(7), [3, 0, 2, 0, 1, 4, 1], limit=3)
    for seed in range(5):
        pair = [
            FedGS(balance=balance).select(view, stream(seed, "select", 0)).clients.tolist()
            for balance in ("selected", "answered")
        ]
        assert pair[0] == pair[1]
    assert "balance" not in table(FedGS())
    assert table(FedGS(balance="answered"))["balance"] == "answered"


def test_zero_diversity_weight_breaks_ties_with_the_generator() -> None:
    view = view_of(points(4), [0, 1, 1, 1], limit=2)
    cohorts = [
        tuple(FedGS(alpha=0.0).select(view, stream(seed, "select", 0)).clients.tolist())
        for seed in range(1200)
    ]
    # Client 0 and one of three at random: 1/3 each, standard error .0136; six of them: odds 1e-8.
    for other in (1, 2, 3):
        assert cohorts.count((0, other)) / 1200 == pytest.approx(1 / 3, abs=0.082)


def test_paper_scale_has_one_optimum_for_all_alphas_below_the_limit() -> None:
    # h_max = 1 and 0 < alpha < N/(m-1) = 10/2: smallest counts first, then the largest dispersion.
    distance, counts = points(10) / points(10).max(), [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
    view = view_of(distance, counts, limit=3)
    cohorts = {
        tuple(FedGS(alpha=a).select(view, stream(0, "select", 0)).clients.tolist())
        for a in (0.01, 0.5, 1.0, 2.0, 4.9)
    }
    best = max(
        combinations(range(5), 3), key=lambda s: sum(distance[i, j] for i, j in combinations(s, 2))
    )
    assert cohorts == {best}


def test_everyone_is_selected_without_a_solver_where_few_are_available() -> None:
    selection = FedGS().select(
        view_of(points(6), [0] * 6, limit=3, available=[1, 4, 5]), stream(0, "select", 0)
    )
    assert selection.clients.tolist() == [1, 4, 5]
    assert (selection.status, selection.objective, selection.upper_bound) == (None, None, None)


def test_counts_stay_within_one_of_each_other_under_full_availability() -> None:
    counts, distance = np.zeros(10, dtype=np.int64), points(10)
    for t in range(40):
        view = View(
            t,
            Clients(tuple(range(10)), np.ones(10, dtype=np.int64)),
            np.arange(10),
            counts.copy(),
            3,
        )
        view = View(t, view.clients, view.available, view.counts, 3, memory={"distance": distance})
        counts[FedGS(alpha=1.0).select(view, stream(0, "select", t)).clients] += 1
        assert counts.max() - counts.min() <= 1


def test_unreachable_pairs_do_no_harm() -> None:
    distance = points(5)
    distance[0, 1:] = distance[1:, 0] = np.inf
    selection = FedGS(alpha=1.0).select(view_of(distance, [0] * 5, limit=2), stream(0, "select", 0))
    assert selection.objective is not None
    assert np.isfinite(selection.objective)


LABELS = Clients((0, 1, 2), np.array([2, 2, 2]), label_counts=np.array([[2, 0], [1, 1], [0, 2]]))


def test_the_memory_is_the_graph() -> None:
    memory, graph = FedGS().start(LABELS), Graph().of_clients(LABELS)
    assert set(memory) == {"distance", "similarity", "adjacency"}
    for name, array in memory.items():
        np.testing.assert_array_equal(array, getattr(graph, name))
    assert isinstance(FedGS(), Remembers)
    assert isinstance(FedGS(), LearnsFromModels)


def test_of_many_clients_only_the_distances_are_kept() -> None:
    many = Clients(tuple(range(1001)), np.full(1001, 2), features=np.eye(1001))
    assert list(FedGS().start(many)) == ["distance"]


def test_graph_settings_reach_the_graph() -> None:
    clients = Clients((0, 1, 2, 3), np.full(4, 3), features=np.random.default_rng(0).random((4, 3)))
    authors = FedGS(graph=Graph(preset="authors"))
    np.testing.assert_array_equal(
        authors.start(clients)["distance"], Graph(preset="authors").of_clients(clients).distance
    )
    assert not np.array_equal(
        authors.start(clients)["distance"], FedGS().start(clients)["distance"]
    )


def test_clients_without_features_and_labels_are_refused() -> None:
    with pytest.raises(
        GraphError, match="needs client features or labels, and these clients have neither"
    ):
        FedGS().start(Clients((0, 1), np.array([2, 2])))


def test_selecting_without_a_graph_is_refused() -> None:
    bare = View(0, Clients((0, 1), np.array([2, 2])), np.arange(2), np.zeros(2, dtype=np.int64), 1)
    with pytest.raises(
        SelectionError,
        match=r"^'fedgs' needs the distances that start\(clients\) gives in view\.memory",
    ):
        FedGS().select(bare, stream(0, "select", 0))


def test_what_is_wished_for_follows_the_graph() -> None:
    def wishes(**graph: object) -> list[str | None]:
        sampler = FedGS(graph=Graph(**graph))  # type: ignore[arg-type]
        found = (sampler.wish("start"), sampler.wish("round"))
        return [None if wish is None else wish.kind for wish in found]

    assert wishes() == wishes(start="seen") == wishes(similarity="private") == [None, None]
    assert wishes(similarity="update") == ["update", None]
    assert wishes(similarity="functional", start="seen") == [None, "functional"]
    assert wishes(path="g.npz") == [None, None]
    given = Graph(
        similarity="functional", noise_samples=9, noise_examples=8, covariance="scalar", layer="2"
    )
    assert FedGS(graph=given).wish("start") == Wish("functional", 4096, 9, 8, "scalar", "2")
    assert FedGS(graph=Graph(similarity="update", sketch=64)).wish("start") == Wish(
        "update", sketch=64
    )


def test_a_graph_of_local_models_is_that_of_their_cosines() -> None:
    features = np.random.default_rng(0).normal(size=(3, 5))
    norms = np.linalg.norm(features, axis=1)
    cosines = np.maximum(features @ features.T / np.outer(norms, norms), 0)
    np.fill_diagonal(cosines, 1.0)
    memory = FedGS(graph=Graph(similarity="functional")).start_from(LABELS, features)
    np.testing.assert_allclose(
        memory["distance"], Graph().of_similarity((cosines + cosines.T) / 2).distance
    )
    with pytest.raises(
        ConfigError, match=r"^method\.graph\.similarity = 'functional' is made of local models"
    ):
        FedGS(graph=Graph(similarity="functional")).start(LABELS)


def test_the_private_graph_has_the_oracles_edges() -> None:
    counts = np.random.default_rng(1).integers(0, 9, (8, 4)) + np.eye(8, 4, dtype=np.int64)
    clients = Clients(tuple(range(8)), counts.sum(axis=1), label_counts=counts)
    oracle, private = (
        FedGS().start(clients),
        FedGS(graph=Graph(similarity="private")).start(clients),
    )
    # Proportions in fixed point with 29 bits: V is off by less than 1e-6, and none is that near
    # epsilon.
    assert np.abs(oracle["similarity"] - 0.1)[~np.eye(8, dtype=bool)].min() > 1e-6
    np.testing.assert_array_equal(
        np.isfinite(private["adjacency"]), np.isfinite(oracle["adjacency"])
    )
    np.testing.assert_allclose(private["similarity"], oracle["similarity"], atol=1e-6)
    np.testing.assert_allclose(private["distance"], oracle["distance"], atol=1e-4)


def test_the_private_graph_of_features_finds_its_range() -> None:
    clients = Clients(
        tuple(range(5)), np.full(5, 3), features=np.random.default_rng(0).normal(size=(5, 3)) * 10
    )
    private = FedGS(graph=Graph(similarity="private")).start(clients)
    np.testing.assert_allclose(
        private["similarity"], FedGS().start(clients)["similarity"], atol=1e-5
    )
    narrow = FedGS(graph=Graph(similarity="private", value_range=1.0))
    with pytest.raises(DataError, match=r"outside the stated range \[-1, 1\]"):
        narrow.start(clients)


# --- a graph that grows


def outcome(clients: list[int], features: object = None) -> Outcome:
    return Outcome(np.array(clients), np.full(len(clients), 1 / len(clients)), features)


def test_growing_without_features_is_refused() -> None:
    sampler = FedGS(graph=Graph(similarity="update", start="seen"))
    view = View(0, LABELS, np.arange(3), np.zeros(3, dtype=np.int64), 1)
    with pytest.raises(
        SelectionError, match=r"needs the cohort's features in outcome\.features, got none"
    ):
        sampler.observe(sampler.start(LABELS), view, outcome([0]))


# --- a graph from a file


def write(path: Path, **arrays: object) -> str:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return str(path)


def test_a_stored_graph_round_trips(tmp_path: Path) -> None:
    save_graph(tmp_path / "g.npz", Graph().of_clients(LABELS))
    sampler = FedGS(graph=Graph(path=str(tmp_path / "g.npz")))
    for name, array in sampler.start(LABELS).items():
        np.testing.assert_array_equal(array, FedGS().start(LABELS)[name])
    assert build("method", table(sampler)) == sampler
    bare = FedGS(graph=Graph(path=write(tmp_path / "d.npz", distance=1 - np.eye(3))))
    assert bare.start(LABELS)["distance"].tolist() == (1 - np.eye(3)).tolist()
    assert FedGS().content_digest is None
    assert bare.content_digest != sampler.content_digest != None  # noqa: E711


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (
            {"similarity": "private", "start": "seen"},
            "method.graph.start must be 'all' for similarity 'private'",
        ),
        (
            {"path": "g.npz", "start": "seen"},
            "method.graph.start must be 'all' where method.graph.path gives the graph, got 'seen'",
        ),
        (
            {"similarity": "private", "normalize_by_norm": True},
            "method.graph.normalize_by_norm = True needs every client's own",
        ),
        (
            {"similarity": "private", "normalize_over": "all"},
            "method.graph.normalize_over = 'all' needs every client's own",
        ),
        (
            {"similarity": "private", "construction": "complete"},
            "method.graph.construction = 'complete' needs every client's own",
        ),
    ],
)
def test_graphs_that_cannot_be_made_are_refused(graph: dict[str, object], message: str) -> None:
    sampler = build("method", {"name": "fedgs", "graph": graph})
    assert isinstance(sampler, FedGS)
    for act in (lambda: sampler.check(LABELS, 1), lambda: sampler.start(LABELS)):
        with pytest.raises(ConfigError, match="^" + message):
            act()


def test_two_clients_need_a_dealer_for_the_private_graph() -> None:
    two = Clients((0, 1), np.array([2, 2]), label_counts=np.array([[2, 0], [1, 1]]))
    message = (
        r"^method\.graph\.dealer must name a dealer where there are only two clients, got none$"
    )
    with pytest.raises(ConfigError, match=message):
        FedGS(graph=Graph(similarity="private")).check(two, 1)
    named = FedGS(graph=Graph(similarity="private", dealer="notary")).start(two)
    np.testing.assert_array_equal(named["distance"], FedGS().start(two)["distance"])


def test_nested_tables_round_trip() -> None:
    given = {
        "name": "fedgs",
        "alpha": 2,
        "graph": {"epsilon": 0.5},
        "solver": {"effort": "fast", "time_limit": 3},
    }
    sampler = build("method", given)
    assert sampler == FedGS(
        alpha=2.0, graph=Graph(epsilon=0.5), solver=Solver(effort="fast", time_limit=3.0)
    )
    assert build("method", table(sampler)) == sampler


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": -1}, r"method\.alpha should be greater than or equal to 0, got -1"),
        ({"alpha": float("inf")}, r"method\.alpha should be a finite number, got inf"),
        ({"scale": "authors"}, r"method\.scale should be 'paper' or 'cohort', got 'authors'"),
        (
            {"solver": {"time_limit": 0}},
            r"method\.solver\.time_limit should be greater than 0, got 0",
        ),
        (
            {"solver": {"effort": "hard"}},
            r"method\.solver\.effort should be 'fast', 'default' or 'thorough', got 'hard'",
        ),
        (
            {"solver": {"limit": 1}},
            r"method\.solver\.limit is not a setting; known are effort, time_limit; did you mean",
        ),
        (
            {"graph": {"epsilon": -1}},
            r"^method\.graph\.epsilon should be greater than or equal to 0, got -1",
        ),
        (
            {"graph": {"sigma": 1}},
            r"^method\.graph\.sigma is not a setting; known are .*; did you mean 'sigma_squared'\?",
        ),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build("method", {"name": "fedgs", **settings})


def test_a_graph_that_the_system_has_no_memory_for_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("fedgs.sampling.fedgs.graph_of_features", fail)
    message = r"needs about 0\.0 GB of memory for the graph of 3 clients, and the system gave less"
    with pytest.raises(GraphError, match=message):
        FedGS(graph=Graph(similarity="update")).start_from(LABELS, np.eye(3))


def test_more_clients_than_the_memory_limit_allows_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fedgs.sampling.fedgs.memory_limit", lambda: 8 * 6 * 4)
    with pytest.raises(
        ConfigError, match=r"this process may use .* \(up to 2 clients\); use fewer"
    ):
        FedGS().check(LABELS, 1)


def with_deficit(view: View, deficit: list[float]) -> View:
    """The same view with p_k = 1/N and a memory of the weighting "deficit"."""
    return replace(view, weighting_memory={"deficit": np.array(deficit)}, objective="equal")


@given(counts=st.lists(st.integers(0, 3), min_size=5, max_size=8), seed=st.integers(0, 50))
@settings(max_examples=20, deadline=None)
def test_balanced_shares_are_balanced_counts_where_all_weights_were_equal(
    counts: list[int], seed: int
) -> None:
    # R = 3 rounds with a weight of 1/M for each selection; p_k = 1/N.
    distance, count, limit = points(len(counts), seed), len(counts), 2
    view = view_of(distance, counts, limit=limit)
    # R p_k - W_k with R = sum(v)/M, so that the weights of a round sum to 1
    deficit = [(sum(counts) / count - v) / limit for v in counts]
    np.testing.assert_allclose(
        turns_ahead(with_deficit(view, deficit)), np.array(counts) - np.mean(counts), atol=1e-12
    )
    sampler = FedGS(weighting="deficit", balance="share")
    by_share = sampler.select(with_deficit(view, deficit), stream(seed, "select", 0))
    # alpha = 1 turn is N/(m-1) = N in the scale of counts
    by_count = FedGS(alpha=float(count)).select(view, stream(seed, "select", 0))
    assert by_share.objective == pytest.approx(by_count.objective, abs=1e-9)


@given(
    deficit=st.lists(st.floats(-2, 2), min_size=6, max_size=6),
    alpha=st.sampled_from([0.0, 0.5, 5.0]),
    scale=st.sampled_from(["paper", "cohort"]),
    seed=st.integers(0, 50),
)
@settings(max_examples=30, deadline=None)
def test_the_cohort_has_the_best_balance_of_shares_and_diversity(
    deficit: list[float], alpha: float, scale: Scale, seed: int
) -> None:
    # N = 6, M = m = 2, p_k = 1/6: one turn is 1/2, and z_k = -4 deficit_k and a constant.
    distance, available = points(6, seed), [0, 1, 3, 4, 5]
    view = with_deficit(view_of(distance, [0] * 6, limit=2, available=available), deficit)
    sampler = FedGS(alpha=alpha, scale=scale, balance="share", weighting="deficit")
    i, j = sampler.select(view, stream(seed, "select", 0)).clients
    z, pair = -4 * np.array(deficit), 2 * alpha / (2 - 1)
    if scale == "cohort":
        z, pair = z / 5, 2 * alpha / 2
    values = {(a, b): pair * distance[a, b] - z[a] - z[b] for a, b in combinations(available, 2)}
    assert values[int(i), int(j)] == pytest.approx(max(values.values()), abs=1e-9)


def test_balanced_shares_need_the_weighting_that_records_them() -> None:
    clients = Clients(("a", "b"), np.array([1, 1]), label_counts=np.eye(2, dtype=np.int64) + 1)
    with pytest.raises(ConfigError, match="balance = 'share' needs .* 'deficit' .* 'data_size'"):
        FedGS(balance="share").check(clients, 1)
    FedGS(balance="share", weighting="deficit").check(clients, 1)
    assert table(FedGS(balance="share", weighting="deficit"))["balance"] == "share"
