"""The landmark metric against the graph of all pairs and against plain loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.graph import shortest_paths as slow_paths

from fedgs.errors import GraphError
from fedgs.graph import Graph, LandmarkDistances, feature_products, landmark_distances
from fedgs.graph import landmark_building as building
from fedgs.graph.growth import model_similarity
from fedgs.graph.tree import forest_distances

GRAPHS = (
    Graph(landmarks=6),
    Graph(landmarks=6, normalize_by_norm=True, normalize_over="all"),
    Graph(landmarks=6, preset="authors"),
    Graph(landmarks=6, epsilon=0.4, sigma_squared=0.3),
    Graph(landmarks=6, normalize=False, sigma_squared=0.3),
)


def shares(count: int, seed: int = 0, labels: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(labels, 0.4), count)


def every_row(metric: LandmarkDistances) -> np.ndarray:
    return metric.rows(np.arange(len(metric)))


def as_a_graph(metric: LandmarkDistances) -> np.ndarray:
    """Distances by plain loops on the graph of landmarks and pendant edges, for reference."""
    lengths = np.full((len(metric), len(metric)), np.inf)
    for client in range(len(metric)):
        home = metric.landmarks[metric.nearest[client]]
        lengths[client, home] = lengths[home, client] = metric.pendant[client]
    for place, client in enumerate(metric.landmarks):
        lengths[client, metric.landmarks] = metric.between[place]
    paths = slow_paths(lengths)
    finite = paths[np.isfinite(paths)].max()
    return np.where(np.isfinite(paths), paths, finite if finite > 0 else 1.0)


@st.composite
def metrics(draw: st.DrawFn) -> LandmarkDistances:
    """Landmarks in one or more parts, with clients that may have no edge."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    count, number = draw(st.integers(3, 12)), draw(st.integers(1, 3))
    points = rng.integers(0, 5, number).astype(float)
    between = np.abs(points[:, None] - points[None])
    if draw(st.booleans()):
        part = rng.integers(0, 2, number)
        between[part[:, None] != part[None]] = np.inf
    landmarks = rng.choice(count, number, replace=False)
    nearest = rng.integers(0, number, count)
    pendant = rng.integers(0, 4, count).astype(float)
    if draw(st.booleans()):
        pendant[rng.random(count) < 0.3] = np.inf
    nearest[landmarks], pendant[landmarks] = np.arange(number), 0.0
    return LandmarkDistances(landmarks, nearest, pendant, between)


@given(metrics())
@settings(max_examples=60)
def test_rows_are_shortest_paths_over_landmarks(metric: LandmarkDistances) -> None:
    expected = as_a_graph(metric)
    np.testing.assert_allclose(every_row(metric), expected)
    assert metric.maximum == pytest.approx(expected.max() or 1.0)
    some = np.arange(0, len(metric), 2)
    np.testing.assert_allclose(metric.block(some, some[::-1]), expected[np.ix_(some, some[::-1])])


@given(metrics())
@settings(max_examples=40)
def test_the_tree_dominates_the_distances(metric: LandmarkDistances) -> None:
    along = forest_distances(metric.tree)
    joined = np.isfinite(along)
    assert (every_row(metric)[joined] <= along[joined] + 1e-12).all()
    assert metric.tree.shortfall <= 1e-12


@given(metrics(), st.integers(0, 100))
@settings(max_examples=30)
def test_a_part_keeps_its_distances(metric: LandmarkDistances, seed: int) -> None:
    some = np.random.default_rng(seed).random(len(metric)) < 0.5
    some[metric.landmarks] = True
    clients = np.flatnonzero(some)
    part = metric.restricted(clients)
    np.testing.assert_array_equal(every_row(part), every_row(metric)[np.ix_(clients, clients)])
    assert part.maximum == metric.maximum
    np.testing.assert_array_equal(clients[part.landmarks], metric.landmarks)


@pytest.mark.parametrize("graph", GRAPHS)
def test_as_many_landmarks_as_clients_give_the_graph_of_all_pairs(graph: Graph) -> None:
    features = shares(25)
    few = graph.model_copy(update={"landmarks": 25})
    whole = graph.of_products(feature_products(features)).distance
    np.testing.assert_array_equal(every_row(landmark_distances(features, few)), whole)
    # The way of fewer landmarks gives the same to rounding.
    chosen = building.choose_landmarks(features, 25)
    assert sorted(chosen) == list(range(25))
    every = building._metric  # with similarities of all pairs
    similarity = whole_similarity(graph, features)
    metric = every(graph, np.arange(25), np.arange(25), best=np.zeros(25), between=similarity)
    np.testing.assert_allclose(every_row(metric), whole, rtol=1e-9)


def whole_similarity(graph: Graph, features: np.ndarray) -> np.ndarray:
    return graph.of_products(feature_products(features)).similarity


def test_models_with_a_landmark_each_have_the_graph_of_all_pairs() -> None:
    features = np.random.default_rng(1).normal(size=(20, 5))
    graph = Graph(similarity="functional", rescale=True, landmarks=20)
    whole = graph.of_similarity(model_similarity(features)).distance
    metric = landmark_distances(features, graph, of="models")
    np.testing.assert_array_equal(every_row(metric), whole)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("of", ["clients", "models"])
def test_no_distance_is_below_the_shortest_path(seed: int, of: str) -> None:
    # Without rescaling, both graphs have the same edges, and lengths that are not normalised.
    graph = Graph(normalize_over="none", normalize=False, sigma_squared=0.1, landmarks=12)
    features = shares(60, seed)
    if of == "models":
        whole = graph.of_similarity(model_similarity(features)).distance
        metric = landmark_distances(features, graph, of="models")
    else:
        whole = graph.of_products(feature_products(features)).distance
        metric = landmark_distances(features, graph)
    assert len(metric.landmarks) == 12
    hangs = np.isfinite(metric.pendant)
    assert hangs.sum() > 40
    rows = every_row(metric)[np.ix_(hangs, hangs)]
    assert (rows >= whole[np.ix_(hangs, hangs)] * (1 - 1e-9)).all()
    assert (rows > whole[np.ix_(hangs, hangs)] * 1.01).any()  # fewer paths


def test_relabelled_clients_have_relabelled_distances() -> None:
    features, order = shares(80), np.random.default_rng(3).permutation(80)
    graph = Graph(landmarks=20)
    rows = every_row(landmark_distances(features, graph))
    again = every_row(landmark_distances(features[order], graph))
    np.testing.assert_allclose(again, rows[np.ix_(order, order)], rtol=1e-12)


@pytest.mark.parametrize("graph", GRAPHS)
def test_compiled_and_plain_loops_give_the_same_bits(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = shares(150)
    first = landmark_distances(features, graph)
    monkeypatch.setattr(building, "load_kernels", lambda name: None)
    monkeypatch.setattr(building, "_BLOCK_PRODUCTS", 100)  # blocks of 16 rows
    second = landmark_distances(features, graph)
    for name in ("landmarks", "nearest", "pendant", "between"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


def test_landmarks_by_hand() -> None:
    # Clients 3 and 0 have the largest first and second coordinate. Client 2 is then the farthest
    # from both, at squared distances 25 + 25, and client 1 follows.
    features = np.array([[0.0, 8.0], [1.0, 7.0], [3.0, 3.0], [8.0, 0.0]])
    assert building.choose_landmarks(features, 4).tolist() == [3, 0, 2, 1]


def test_landmarks_end_where_every_feature_has_one() -> None:
    features = np.repeat(np.eye(3), 50, axis=0)
    chosen = building.choose_landmarks(features, 100)
    # The four clients with the largest value of each of three coordinates.
    assert sorted(chosen) == [0, 1, 2, 3, 50, 51, 52, 53, 100, 101, 102, 103]


def test_landmarks_of_a_large_federation_come_from_a_sample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(building, "_SAMPLE", 30)
    chosen = building.choose_landmarks(shares(200), 100)
    assert len(set(chosen)) == len(chosen)
    # 16 hubs at most, and no more further clients than are in the sample.
    assert 30 <= len(chosen) <= 16 + 30


def test_a_client_without_an_edge_is_as_far_as_the_farthest_pair() -> None:
    # Products with the two landmarks, clients 0 and 1: (.5, .5) for client 2, (.1, .1) for 3.
    # Between landmarks 0. Over (0, .5): V = 1 and .2, below epsilon .5; landmarks have no edge
    # either, but client 2 hangs on landmark 0.
    features = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.1, 0.1]])
    metric = landmark_distances(features, Graph(landmarks=2, epsilon=0.5))
    assert metric.landmarks.tolist() == [0, 1]
    assert metric.pendant.tolist() == [0.0, 0.0, 1.0, np.inf]
    assert every_row(metric).tolist() == (np.ones((4, 4)) - np.eye(4)).tolist()


def test_clients_that_are_all_alike_are_equally_far() -> None:
    metric = landmark_distances(np.full((9, 2), 0.5), Graph(landmarks=4))
    # All similarities are 1, so that all edges have one length, which becomes the largest.
    assert metric.maximum == 1.0
    assert set(metric.pendant.tolist()) == {0.0, 0.5}


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"landmarks": np.array([0.5, 1.0])}, "landmarks must be a 1-d array of integers"),
        ({"landmarks": np.array([0, 9])}, "each landmark must be a client"),
        ({"nearest": np.array([1, 0, 0])}, "its own landmark"),
        ({"nearest": np.array([0, 1, 2])}, r"nearest must be in 0\.\.1, got 0\.\.2"),
        ({"nearest": np.array([0, 1])}, "one entry a client"),
        ({"pendant": np.array([0.0, 0.0, -1.0])}, "pendant must be >= 0, got -1"),
        ({"pendant": np.array([0.0, 0.0, np.nan])}, "pendant must be >= 0, got nan"),
        ({"pendant": np.array([0.5, 0.0, 1.0])}, "with pendant 0"),
        ({"between": np.zeros((3, 3))}, r"between must have shape \(2, 2\)"),
        ({"between": np.array([[0.0, 1.0], [2.0, 0.0]])}, "between must be symmetric"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changed: dict[str, np.ndarray], sentence: str) -> None:
    arrays = {
        "landmarks": np.array([0, 1]),
        "nearest": np.array([0, 1, 1]),
        "pendant": np.array([0.0, 0.0, 1.0]),
        "between": np.array([[0.0, 1.0], [1.0, 0.0]]),
    }
    LandmarkDistances(**arrays)
    with pytest.raises(GraphError, match=sentence):
        LandmarkDistances(**(arrays | changed))


def test_features_and_constructions_that_have_no_landmarks_are_refused() -> None:
    with pytest.raises(GraphError, match="construction 'threshold', got 'complete'"):
        landmark_distances(shares(9), Graph(construction="complete"))
    with pytest.raises(GraphError, match="features must be a finite"):
        landmark_distances(np.array([[np.nan]]))


def test_the_rule_of_auto() -> None:
    uses = building.uses_landmarks
    assert not uses(Graph(), 10_000, 10)
    assert uses(Graph(), 10_001, 256)
    assert not uses(Graph(), 10_001, 257)
    assert uses(Graph(similarity="functional"), 20_000)
    assert not uses(Graph(structure="dense"), 10**6)
    assert uses(Graph(structure="landmarks"), 5)
    for other in (
        {"similarity": "private"},
        {"construction": "complete"},
        {"path": "graph.npz"},
    ):
        assert not uses(Graph(**other), 10**6)
