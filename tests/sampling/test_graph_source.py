"""Where a client graph comes from, decided once for sampler, command line and deployment."""

from typing import Any

import numpy as np
import pytest

from fedgs import Clients
from fedgs.errors import ConfigError
from fedgs.graph import Graph, client_features, feature_products
from fedgs.graph.files import save_graph
from fedgs.sampling import FedGS
from fedgs.sampling.graph_source import graph_before_round_0, graph_source, private_graph
from fedgs.secure import Cost, PartyFailure, PrivateProducts

LABELS = Clients((0, 1, 2), np.array([2, 2, 2]), label_counts=np.array([[2, 0], [1, 1], [0, 2]]))


@pytest.mark.parametrize(
    ("settings", "source"),
    [
        ({}, "clients"),
        ({"similarity": "private"}, "secure_product"),
        ({"similarity": "update"}, "local_models"),
        ({"similarity": "functional"}, "local_models"),
        ({"start": "seen"}, "cohorts"),
        ({"similarity": "update", "start": "seen"}, "cohorts"),
        ({"similarity": "functional", "start": "seen"}, "cohorts"),
        ({"path": "g.npz"}, "file"),
    ],
)
def test_the_sampler_asks_for_what_the_source_needs(settings: dict[str, Any], source: str) -> None:
    graph = Graph(**settings)
    assert graph_source(graph) == source
    models = graph.similarity in ("update", "functional")
    assert (FedGS(graph=graph).wish("start") is not None) == (source == "local_models")
    assert (FedGS(graph=graph).wish("round") is not None) == (source == "cohorts" and models)


@pytest.mark.parametrize("similarity", ["oracle", "private"])
def test_the_sampler_starts_with_the_graph_of_its_source(similarity: Any) -> None:
    graph = Graph(similarity=similarity)
    made = graph_before_round_0(graph, LABELS)
    assert made is not None
    np.testing.assert_array_equal(FedGS(graph=graph).start(LABELS)["distance"], made.distance)


def test_a_file_is_read(tmp_path: Any) -> None:
    save_graph(tmp_path / "g.npz", Graph().of_clients(LABELS))
    made = graph_before_round_0(Graph(path=str(tmp_path / "g.npz")), LABELS)
    assert made is not None
    np.testing.assert_array_equal(made.distance, Graph().of_clients(LABELS).distance)


def test_a_graph_of_local_models_needs_their_features() -> None:
    graph = Graph(similarity="update")
    with pytest.raises(
        ConfigError, match=r"^method\.graph\.similarity = 'update' is made of local models"
    ):
        graph_before_round_0(graph, LABELS)
    features = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    made = graph_before_round_0(graph, LABELS, features=features)
    assert made is not None
    np.testing.assert_array_equal(
        made.distance, FedGS(graph=graph).start_from(LABELS, features)["distance"]
    )


def test_a_graph_that_grows_has_nothing_before_round_0() -> None:
    assert graph_before_round_0(Graph(start="seen"), LABELS) is None


def test_a_client_that_goes_away_is_named_and_the_rest_is_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    products = feature_products(client_features(LABELS))
    products[1] = products[:, 1] = np.nan
    result = PrivateProducts(products, Cost(), (PartyFailure(1, "v_1", OSError("gone")),), None)
    whole = private_graph(Graph(similarity="private"), LABELS, result)
    assert "client 1 went away during the secure scalar product" in caplog.text
    assert np.isfinite(whole.distance).all()
    assert whole.distance[0, 1] == whole.distance[1, 2] == whole.distance.max()
