"""Where a client graph comes from.

The sources are a file, the clients' vectors, the secure scalar product, local models, or the
cohorts of the rounds.
"""

import logging
from functools import lru_cache
from typing import Literal

import numpy as np

from fedgs.arrays import FloatMatrix
from fedgs.clients import Clients
from fedgs.errors import ConfigError
from fedgs.graph import ClientGraph, Graph, client_features
from fedgs.graph.files import stored_graph
from fedgs.graph.growth import embedded, model_similarity
from fedgs.sampling.base import Wish
from fedgs.secure import PrivateProducts, private_similarity

__all__ = [
    "GraphSource",
    "graph_before_round_0",
    "graph_of_features",
    "graph_source",
    "graph_wish",
    "private_graph",
    "private_products",
]

_log = logging.getLogger("fedgs")

GraphSource = Literal["file", "clients", "secure_product", "local_models", "cohorts"]


def graph_source(graph: Graph) -> GraphSource:
    """Where the graph comes from, by its settings.

    * "file": `path` gives the graph.
    * "cohorts": the graph grows with the clients that are selected (`start = "seen"`).
    * "local_models": features of all clients' local models ("update" and "functional").
    * "secure_product": products of the clients' vectors by the secure scalar product ("private").
    * "clients": the clients' features or label proportions ("oracle").

    >>> graph_source(Graph()), graph_source(Graph(similarity="update"))
    ('clients', 'local_models')
    >>> graph_source(Graph(path="graph.npz")), graph_source(Graph(start="seen"))
    ('file', 'cohorts')
    """
    if graph.path is not None:
        return "file"
    if graph.start == "seen":
        return "cohorts"
    if graph.similarity == "private":
        return "secure_product"
    return "clients" if graph.similarity == "oracle" else "local_models"


def graph_wish(graph: Graph) -> Wish | None:
    """The features of local models that a graph is made of; None: it is made of something else.

    >>> graph_wish(Graph(similarity="update", sketch=64)).sketch
    64
    """
    if graph.path is not None:
        return None
    if graph.similarity == "update":
        return Wish("update", sketch=graph.sketch)
    if graph.similarity == "functional":
        noise = {"noise_samples": graph.noise_samples, "noise_examples": graph.noise_examples}
        return Wish("functional", covariance=graph.covariance, layer=graph.layer, **noise)
    return None


def graph_before_round_0(
    graph: Graph, clients: Clients, *, features: FloatMatrix | None = None
) -> ClientGraph | None:
    """The client graph before round 0, or None if it grows with the cohorts.

    Args:
        graph: the settings.
        clients: all N clients.
        features: (N, d) features of local models; the graph is made from them if they are given.

    Raises:
        ConfigError: local models are the source and `features` is None, or `graph.path` is not a
            graph of these clients.
        GraphError: the clients have neither features nor labels, or a feature is not finite.

    >>> clients = Clients((0, 1), np.array([2, 2]), label_counts=np.array([[2, 0], [0, 2]]))
    >>> graph_before_round_0(Graph(start="seen"), clients) is None
    True
    """
    if features is not None:
        return graph_of_features(graph, features)
    source = graph_source(graph)
    if source == "cohorts":
        return None
    if graph.path is not None:  # source "file"
        return stored_graph(graph.path, len(clients))
    if source == "secure_product":
        return private_graph(graph, clients)
    if source == "clients":
        return graph.of_clients(clients)
    raise ConfigError(
        f"method.graph.similarity = {graph.similarity!r} is made of local models: the memory comes "
        "from start_from(features)"
    )


def graph_of_features(graph: Graph, features: FloatMatrix) -> ClientGraph:
    """The graph of (N, d) features of local models, for "update" and "functional"."""
    return graph.of_similarity(model_similarity(features))


def private_products(graph: Graph, clients: Clients) -> PrivateProducts:
    """The oracle's products u_i·u_j by the secure scalar product, with cost and failures.

    The result is cached: all runs on these clients with the same settings of the protocol share it.

    The default of `value_range` is 1 for label proportions. For features it is the smallest power
    of two that no entry exceeds. A deployment has to agree on it beforehand, since it reveals
    something about the largest entry.
    """
    return _products(clients, graph.protocol, graph.value_range, graph.dealer)


@lru_cache(maxsize=4)
def _products(
    clients: Clients,
    protocol: Literal["ring", "paper"],
    value_range: float | None,
    dealer: str | None,
) -> PrivateProducts:
    vectors = client_features(clients)
    if protocol == "paper":
        return private_similarity(vectors, protocol="paper", dealer=dealer)
    if value_range is None:
        value_range = 1.0
        largest = float(np.abs(vectors).max(initial=0.0))
        if clients.features is not None and largest > 0:
            value_range = float(2.0 ** np.ceil(np.log2(largest)))
    return private_similarity(vectors, value_range=value_range, dealer=dealer)


def private_graph(
    graph: Graph, clients: Clients, result: PrivateProducts | None = None
) -> ClientGraph:
    """The graph of `private_products`.

    If a client drops out, its pairs are unknown, and a warning names it.

    Args:
        graph: the settings.
        clients: all N clients.
        result: the products; None: they are computed.
    """
    result = private_products(graph, clients) if result is None else result
    dropped = sorted({failure.client for failure in result.failures if failure.client is not None})
    if not dropped:
        return graph.of_products(result.products)
    for client in dropped:
        _log.warning(
            "client %r went away during the secure scalar product; its distances are unknown",
            clients.names[client],
        )
    rest = np.setdiff1d(np.arange(len(clients)), dropped)
    return embedded(graph.of_products(result.products[np.ix_(rest, rest)]), rest, len(clients))
