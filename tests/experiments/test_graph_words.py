"""A client graph in words, with figures that are counted by hand."""

import numpy as np
import pytest

from fedgs.arrays import FloatMatrix
from fedgs.clients import Clients
from fedgs.experiments.graph_words import (
    edges_in_words,
    effect_in_words,
    nearness_in_words,
    recovery_table,
)
from fedgs.graph import ClientGraph
from fedgs.sampling import FedGS


def path_of_four() -> FloatMatrix:
    """Distances of the path 0 - 1 - 2 - 3, divided by the largest, 3."""
    places = np.arange(4.0)
    return np.abs(places[:, None] - places) / 3


def graph_of(distance: FloatMatrix, *edges: tuple[int, int]) -> ClientGraph:
    adjacency = np.where(np.eye(len(distance), dtype=bool), 0.0, np.inf)
    for i, j in edges:
        adjacency[i, j] = adjacency[j, i] = 1.0
    return ClientGraph(np.isfinite(adjacency).astype(float), adjacency, distance)


def clients_of(labels: list[list[int]] | None, count: int = 4) -> Clients:
    names = tuple(f"c{number}" for number in range(count))
    counts = None if labels is None else np.array(labels)
    return Clients(names, np.full(count, 4), label_counts=counts)


def test_edges_are_counted() -> None:
    graph = graph_of(path_of_four(), (0, 1), (1, 2))
    assert edges_in_words(graph) == "2 of 6 pairs of clients (33 %), 2 connected parts"
    assert edges_in_words(graph_of(np.zeros((1, 1)))) == "0 of 0 pairs of clients, 1 connected part"


@pytest.mark.parametrize(
    ("method", "limit", "effect"),
    [
        (FedGS(), 2, "they decide only between equally balanced cohorts, since alpha = 1 is below"),
        (FedGS(alpha=4.0), 2, "they can outweigh balance, since alpha = 4 is at least 4"),  # 4/1
        (FedGS(alpha=2.0), 3, "they can outweigh balance, since alpha = 2 is at least 2"),  # 4/2
        (FedGS(alpha=0.5, scale="cohort"), 2, "weighed against balance by alpha = 0.5"),
        (FedGS(), 4, "none on the cohorts: a cohort can hold all clients"),
        (FedGS(), 1, "none on the cohorts: cohorts of one client have no pairs"),
        (FedGS(alpha=0.0), 2, "none on the cohorts: method.alpha is 0"),
    ],
)
def test_the_effect_depends_on_the_method(method: FedGS, limit: int, effect: str) -> None:
    said = effect_in_words(graph_of(path_of_four()), method, limit)
    assert effect in said
    # Of six distances three are 1/3, two 2/3 and one 1.
    assert said.startswith("distances from 0.333 to 1, median 0.5; ") != said.startswith("none")


def test_equal_distances_cannot_change_a_cohort() -> None:
    said = effect_in_words(graph_of(np.ones((4, 4)) - np.eye(4)), FedGS(alpha=9.0), 2)
    assert said == (
        "none on the cohorts: all pairs have the same distance, so all cohorts are equally diverse"
    )


def test_the_edges_are_compared_with_the_oracles_and_with_all_pairs() -> None:
    # The oracle joins 0 and 1, which have one label each, and 2 and 3: two of six pairs.
    clients = clients_of([[4, 0], [4, 0], [0, 4], [0, 4]])
    said = nearness_in_words(graph_of(path_of_four(), (0, 1), (1, 2)), clients)
    # One of two is found, one of two is right. All pairs: precision 1/3, recall 1, F1 1/2.
    assert said == (
        "50 % of its edges are in the graph, 50 % of the graph's in it: "
        "F1 0.500, and 0.500 for all pairs joined"
    )


def test_the_table_has_a_base_line_and_a_legend() -> None:
    clients = clients_of([[4, 0], [4, 0], [0, 4], [0, 4]])
    lines = recovery_table(graph_of(path_of_four(), (0, 1), (1, 2)), clients)
    (base,) = [line for line in lines if line.startswith("all pairs (base line)")]
    # With all pairs of equal and different clients rescaled, the oracle's edges are the same.
    assert base.split()[4:] == ["100.0%", *["0.500", "(0.333,", "1.000)"] * 3]
    for word in ("density", "precision", "recall", "off_diagonal", "histogram"):
        assert any(f"{word}" in line for line in lines[-6:]), word


def test_without_labels_and_for_a_single_client_there_is_nothing_to_compare() -> None:
    said = nearness_in_words(graph_of(path_of_four()), clients_of(None))
    assert said == "none to compare with, since the clients have neither features nor labels"
    assert recovery_table(graph_of(path_of_four()), clients_of(None)) == []
    assert recovery_table(graph_of(np.zeros((1, 1))), clients_of([[2, 2]], count=1)) == []
