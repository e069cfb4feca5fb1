"""Figures 3 and 7 from arrays that are easy to count."""

from dataclasses import replace

import numpy as np
import pytest
from tests.conftest import make_federation
from tests.experiments.paper.helpers import request_of

from fedgs.arrays import AnyArray
from fedgs.errors import DataError
from fedgs.experiments.paper import fig3_fig7
from fedgs.experiments.paper.frame.experiment import Computed, ExperimentRecords


def records_of(**arrays: AnyArray) -> ExperimentRecords:
    return ExperimentRecords(computed={"cifar10": Computed(arrays, {"data_title": "CIFAR10"})})


def test_joined_pairs_with_a_label_in_common_are_counted() -> None:
    # Clients 0 and 1 share a label and are joined; 1 and 2 are joined without one; 0 and 2 are not.
    adjacency = np.array([[0.0, 1.0, np.inf], [1.0, 0.0, 1.0], [np.inf, 1.0, 0.0]])
    records = records_of(adjacency=adjacency, label_counts=np.array([[3, 0], [2, 0], [0, 4]]))
    rendering = fig3_fig7.render_graph(request_of("fig3", None), records)
    assert rendering.verdict == [
        "CIFAR10, 3 clients: 2 of 3 pairs are joined; 1 of the joined pairs, and 0 of the others, "
        "have a label in common."
    ]


@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        ([[2, 1], [0, 3]], "CIFAR10: 2 clients, all of one size, 1 to 2 labels each."),
        ([[2, 1], [4, 4]], "CIFAR10: 2 clients, from 3 to 8 training examples, 2 labels each."),
    ],
)
def test_sizes_and_labels_of_a_partition(counts: list[list[int]], sentence: str) -> None:
    records = records_of(label_counts=np.array(counts))
    rendering = fig3_fig7.render_partition(request_of("fig7", None), records)
    assert rendering.verdict == [sentence]


def test_images_have_twenty_clients_of_two_labels_unless_set() -> None:
    (computation,) = fig3_fig7.computations_of_graphs(request_of("fig3", None))
    assert computation.config is not None
    assert getattr(computation.config.data, "clients", None) == 20
    request = request_of("fig3", None, overrides=(("data.clients", 30),))
    (computation,) = fig3_fig7.computations_of_graphs(request)
    assert computation.config is not None
    assert getattr(computation.config.data, "clients", None) == 30


def test_a_federation_without_labels_has_no_partition() -> None:
    federation = make_federation((4, 5))
    clients = replace(federation.clients, label_counts=None)
    unlabelled = replace(federation, clients=clients)
    request = request_of("fig7", None)
    with pytest.raises(DataError, match=r"^toy has no labels to draw$"):
        fig3_fig7.compute_partition(
            request, fig3_fig7.computations_of_graphs(request)[0], unlabelled
        )
