import re
from typing import Any

import numpy as np
import pytest

from fedgs.clients import Clients
from fedgs.errors import ConfigError, GraphError
from fedgs.graph import Graph, complete_edges, edge_weights, feature_products, shortest_paths
from fedgs.graph.distance import graph_distance


def label_clients(shares: np.ndarray, size: int = 10) -> Clients:
    counts = np.round(shares * size).astype(np.int64)
    return Clients(tuple(range(len(shares))), counts.sum(axis=1), label_counts=counts)


THREE = np.array([[1.0, 0.0, 0.0], [0.6, 0.4, 0.0], [0.0, 0.5, 0.5]])


def test_presets_state_every_value() -> None:
    assert Graph().model_dump(
        include={
            "normalize_by_norm",
            "normalize_over",
            "epsilon",
            "sigma_squared",
            "power",
            "covariance",
        }
    ) == {
        "normalize_by_norm": False,
        "normalize_over": "off_diagonal",
        "epsilon": 0.1,
        "sigma_squared": 0.01,
        "power": 1,
        "covariance": "full",
    }
    authors = Graph(preset="authors", epsilon=0.2)
    assert (authors.normalize_by_norm, authors.epsilon, authors.sigma_squared, authors.power) == (
        True,
        0.2,
        0.1,
        2,
    )
    assert Graph(**authors.model_dump()) == authors


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sigma_squared": 0.0}, r"graph.sigma_squared.* greater than 0, got 0.0"),
        ({"epsilon": -1.0}, r"graph.epsilon.* greater than or equal to 0, got -1.0"),
        ({"power": 3}, r"graph.power.* 1 or 2, got 3"),
        ({"presett": "paper"}, r"graph.presett is not a setting; .*did you mean 'preset'"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Graph(**settings)


def test_paper_graph_by_hand() -> None:
    # Products: 01 .6, 02 0, 12 .2; min-max over pairs: 1, 0, 1/3. Edges (>= .1): 01 and 12 (the
    # weakest, so length 1).
    graph = Graph().of_clients(label_clients(THREE))
    near = np.exp(-(1 - 1 / 3) / 0.01)
    np.testing.assert_allclose(
        graph.similarity, [[1, 1, 0], [1, 1, 1 / 3], [0, 1 / 3, 1]], atol=1e-15
    )
    np.testing.assert_allclose(
        graph.adjacency, [[0, near, np.inf], [near, 0, 1], [np.inf, 1, 0]], rtol=1e-9
    )
    np.testing.assert_allclose(
        graph.distance,
        np.array([[0, near, 1 + near], [near, 0, 1], [1 + near, 1, 0]]) / (1 + near),
        rtol=1e-9,
    )


def test_authors_graph_by_hand() -> None:
    graph = Graph(preset="authors").of_clients(label_clients(THREE))
    cosine = feature_products(THREE / np.linalg.norm(THREE, axis=1, keepdims=True))
    lengths = np.where(cosine >= 0.01, np.exp(-(cosine**2) / 0.1), np.inf)
    np.fill_diagonal(lengths, 0.0)
    np.testing.assert_allclose(graph.distance, graph_distance(shortest_paths(lengths)), rtol=1e-9)


def test_without_normalisation_distances_are_the_papers_own() -> None:
    graph = Graph(normalize=False, sigma_squared=0.5).of_clients(label_clients(THREE))
    # Two edges, exp(-1/.5) and exp(-(1/3)/.5), in a row.
    assert graph.distance[0, 2] == pytest.approx(np.exp(-2) + np.exp(-2 / 3))
    assert graph.adjacency[0, 1] == pytest.approx(np.exp(-2))


def test_tiny_sigma_keeps_edges_apart() -> None:
    # exp(-V/sigma²) itself would be 0 for every edge here; relative to the weakest edge it is not.
    similarity = np.array([[1.0, 0.9999, 0.9998], [0.9999, 1.0, 0.99985], [0.9998, 0.99985, 1.0]])
    weights = edge_weights(similarity, epsilon=0.1, sigma_squared=1e-4)
    assert 0 < weights[0, 1] < weights[1, 2] < weights[0, 2] == 1.0


def test_threshold_above_everything_has_no_edges() -> None:
    graph = Graph(epsilon=2.0).of_clients(label_clients(THREE))
    assert np.isinf(graph.adjacency[0, 1])
    assert graph.distance.tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 0]]


def test_identical_clients_are_all_equally_far() -> None:
    graph = Graph().of_clients(label_clients(np.tile([[0.5, 0.5]], (4, 1))))
    assert np.array_equal(graph.distance, 1.0 - np.eye(4))


def test_one_client() -> None:
    assert Graph().of_clients(label_clients(np.array([[1.0, 0.0]]))).distance.tolist() == [[0.0]]


def test_relabelled_clients_give_the_relabelled_graph() -> None:
    features = np.random.default_rng(0).dirichlet(np.ones(5), 20)
    order = np.random.default_rng(1).permutation(20)
    graph, other = (
        Graph().of_products(feature_products(features)),
        Graph().of_products(feature_products(features[order])),
    )
    np.testing.assert_allclose(other.distance, graph.distance[np.ix_(order, order)], rtol=1e-9)


def test_squared_distances_are_not_their_own_shortest_paths() -> None:
    # Three points on an arc: 0, 30 and 60 degrees. ‖e_0 - e_2‖² = 1, but by the middle 2·(2 - 2 cos
    # 30°) = .536.
    angles = np.deg2rad([0, 30, 60])
    products = feature_products(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    assert complete_edges(products)[0, 2] == pytest.approx(1.0)
    direct = Graph(construction="complete_direct", normalize=False).of_products(products)
    paths = Graph(construction="complete", normalize=False).of_products(products)
    assert direct.distance[0, 2] == pytest.approx(1.0)
    assert paths.distance[0, 2] == pytest.approx(2 * (2 - 2 * np.cos(np.deg2rad(30))))


def test_private_products_need_no_diagonal() -> None:
    products = feature_products(THREE)
    known = Graph().of_products(products).distance
    np.fill_diagonal(products, np.nan)
    assert np.array_equal(Graph().of_products(products).distance, known)
    with pytest.raises(GraphError, match="normalize_over = 'all' needs every client's own product"):
        Graph(normalize_over="all").of_products(products)


def test_similarities_are_rescaled_only_when_asked() -> None:
    similarity = np.array([[1.0, 0.4, 0.8], [0.4, 1.0, 0.6], [0.8, 0.6, 1.0]])
    assert np.array_equal(
        Graph(similarity="update").of_similarity(similarity).similarity, similarity
    )
    assert (
        Graph(similarity="update", rescale=True).of_similarity(similarity).similarity[0, 1] == 0.0
    )


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.zeros((2, 3)), r"similarities must be a square matrix, got shape \(2, 3\)"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), "similarities between clients must be finite"),
        (np.array([[1.0, 0.1], [0.2, 1.0]]), "similarities must be symmetric"),
    ],
)
def test_unusable_similarities_are_refused(matrix: np.ndarray, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        Graph(similarity="update").of_similarity(matrix)


# A value that is not the default, for every setting that may be without effect.
OTHER: dict[str, Any] = {
    "normalize_by_norm": True,
    "normalize_over": "none",
    "rescale": True,
    "epsilon": 0.3,
    "sigma_squared": 0.2,
    "power": 2,
    "noise_samples": 10,
    "noise_examples": 10,
    "covariance": "scalar",
    "layer": "head",
    "sketch": 64,
    "protocol": "paper",
    "value_range": 4.0,
    "dealer": "notary",
    "refresh": 0.25,
}
OF_THRESHOLDS = {
    "normalize_by_norm",
    "normalize_over",
    "rescale",
    "epsilon",
    "sigma_squared",
    "power",
}
OF_SIMILARITY = {
    "oracle": {"normalize_by_norm", "normalize_over"},
    "private": {"normalize_by_norm", "normalize_over", "protocol", "value_range", "dealer"},
    "update": {"rescale", "sketch", "refresh"},
    "functional": {"rescale", "noise_samples", "noise_examples", "covariance", "layer", "refresh"},
}


@pytest.mark.parametrize("start", ["all", "seen"])
@pytest.mark.parametrize("construction", ["threshold", "complete", "complete_direct"])
@pytest.mark.parametrize("similarity", OF_SIMILARITY)
def test_a_setting_is_accepted_where_it_changes_something_and_refused_elsewhere(
    similarity: str, construction: str, start: str
) -> None:
    effective = OF_SIMILARITY[similarity] | {"epsilon", "sigma_squared", "power"}
    effective -= OF_THRESHOLDS if construction != "threshold" else set()
    effective -= {"refresh"} if start == "all" else set()
    chosen: dict[str, Any] = {
        "similarity": similarity,
        "construction": construction,
        "start": start,
    }
    accepted = set()
    for key, value in OTHER.items():
        try:
            assert getattr(Graph(**chosen, **{key: value}), key) == value
            accepted.add(key)
        except ConfigError as error:
            beside = r"(similarity|construction|start) '\w+'; it belongs to '\w+'( or '\w+')*"
            assert re.fullmatch(rf"method\.graph\.{key} has no effect with {beside}", str(error))  # noqa: PT017
    assert accepted == effective


@pytest.mark.parametrize("construction", ["threshold", "complete", "complete_direct"])
@pytest.mark.parametrize("similarity", OF_SIMILARITY)
def test_what_is_refused_changes_no_distance(similarity: str, construction: str) -> None:
    chosen: dict[str, Any] = {"similarity": similarity, "construction": construction}
    plain = Graph(**chosen)
    features = np.random.default_rng(0).random((6, 4))
    cosines = features @ features.T / np.outer(*[np.linalg.norm(features, axis=1)] * 2)

    def distance(graph: Graph) -> np.ndarray:
        if similarity in ("oracle", "private"):
            return graph.of_products(feature_products(features)).distance
        return graph.of_similarity((cosines + cosines.T) / 2).distance

    refused = Graph.without_effect({**chosen, **OTHER})
    assert refused
    for key, value in OTHER.items():
        same = np.array_equal(distance(plain.model_copy(update={key: value})), distance(plain))
        if key in refused:
            assert same
        elif key in OF_THRESHOLDS:
            assert not same, key


def test_a_path_leaves_nothing_to_be_set() -> None:
    for key, value in {
        **OTHER,
        "similarity": "update",
        "construction": "complete",
        "normalize": False,
        "preset": "authors",
    }.items():
        with pytest.raises(
            ConfigError,
            match=rf"method.graph.{key} has no effect where method.graph.path gives the graph",
        ):
            Graph(path="g.npz", **{key: value})
    # The sampler's check refuses this start.
    assert Graph(path="g.npz", similarity="oracle", epsilon=0.1, start="seen").path == "g.npz"


def test_values_that_apply_anyway_are_accepted() -> None:
    for graph in (
        Graph(),
        Graph(preset="authors"),
        Graph(preset="authors", construction="complete"),
        Graph(path="g.npz"),
    ):
        assert Graph(**graph.model_dump()) == graph
    assert (
        Graph(similarity="oracle", noise_samples=256, refresh=0.5, layer=None).noise_samples == 256
    )
    assert Graph(preset="authors", covariance="scalar").covariance == "scalar"
    with pytest.raises(
        ConfigError, match="method.graph.covariance has no effect with similarity 'oracle'"
    ):
        Graph(preset="authors", covariance="full")
