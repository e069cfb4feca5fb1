from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from tests.report.material import run_of

from fedgs.clients import Clients
from fedgs.errors import ConfigError, OutputError
from fedgs.report.figures import client_graph
from fedgs.report.history import participation
from fedgs.report.network import network, network_of_run
from fedgs.report.run_view import Run


def test_the_graph_draws_edges_pies_and_rings(study: list[Run]) -> None:
    run = run_of(study, "fedgs")
    drawn = network_of_run(run)
    history = participation(run)
    axes = client_graph(
        drawn,
        run.clients.label_counts,
        available=history.available[:, 0],
        cohort=history.selected[:, 0],
    ).axes[0]
    (lines,) = [part for part in axes.collections if isinstance(part, LineCollection)]
    assert len(lines.get_segments()) == len(drawn.edges)
    pies = (run.clients.label_counts > 0).sum()
    assert len(axes.patches) == pies + history.selected[:, 0].sum()


def test_the_graph_of_a_run_shows_a_round(study: list[Run]) -> None:
    run = run_of(study, "fedgs")
    history = participation(run)
    pies = int((run.clients.label_counts > 0).sum())
    assert len(client_graph(run).axes[0].patches) == pies
    assert len(client_graph(run, round=3).axes[0].patches) == pies + history.selected[:, 3].sum()
    with pytest.raises(ConfigError, match=r"round must be in 0 to 19 for .*; got 20"):
        client_graph(run, round=20)
    with pytest.raises(OutputError, match="kept no distances between its clients"):
        client_graph(run_of(study, "uniform"))


def test_a_client_without_examples_has_a_pie() -> None:
    drawn = network(np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert len(client_graph(drawn, np.array([[2, 1], [0, 0]])).axes[0].patches) == 3


def test_arrays_of_another_length_are_refused(study: list[Run]) -> None:
    drawn = network_of_run(run_of(study, "fedgs"))
    with pytest.raises(
        ConfigError, match="cohort must have 30 rows, one a client of the graph; got 3"
    ):
        client_graph(drawn, None, cohort=np.ones(3, bool))


def test_a_drawing_is_of_no_round(study: list[Run]) -> None:
    drawn = network_of_run(run_of(study, "fedgs"))
    with pytest.raises(ConfigError, match="client_graph takes a round only with a run; give avail"):
        client_graph(drawn, round=0)


def test_clients_without_known_labels_are_plain_dots(study: list[Run]) -> None:
    run = run_of(study, "fedgs")
    of_drawing = client_graph(network_of_run(run))
    assert len(of_drawing.axes[0].patches) == len(run.clients)
    assert of_drawing.legends == []
    unlabelled = replace(run, clients=Clients(run.clients.names, run.clients.data_sizes))
    assert len(client_graph(unlabelled).axes[0].patches) == len(run.clients)


@pytest.mark.parametrize(("labels", "legends"), [(20, 1), (21, 0)])
def test_more_than_twenty_labels_have_no_legend(labels: int, legends: int) -> None:
    drawn = network(np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert len(client_graph(drawn, np.ones((2, labels), int)).legends) == legends
