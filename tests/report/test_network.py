from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from tests.report import folders
from tests.report.material import run_of

from fedgs.graph.settings import Graph
from fedgs.report.network import network, network_of_run
from fedgs.report.reading import read_runs
from fedgs.report.run_view import Run


@pytest.mark.parametrize("count", [1, 2, 3, 60])
def test_clients_are_drawn_inside_the_square_apart_and_always_alike(count: int) -> None:
    points = np.random.default_rng(1).random((count, 3)).round(1)
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    drawn = network(distance)
    assert np.isfinite(drawn.positions).all()
    assert drawn.positions.min() >= 0
    assert drawn.positions.max() <= 1
    assert len({tuple(position) for position in drawn.positions.round(6).tolist()}) == count
    np.testing.assert_array_equal(drawn.positions, network(distance).positions)


def test_edges_of_a_stored_adjacency_are_drawn_the_shortest_first() -> None:
    adjacency = np.array([[0, 3.0, 1.0], [3.0, 0, np.inf], [1.0, np.inf, 0]])
    distance = np.array([[0, 1.0, 0.4], [1.0, 0, 1.0], [0.4, 1.0, 0]])
    assert network(distance, adjacency).edges.tolist() == [[0, 2], [0, 1]]
    assert network(distance, adjacency, most_edges=1).caption == "the 1 shortest of 2 edges"


def test_edges_are_rebuilt_from_the_clients_if_only_distances_were_stored(
    tmp_path: Path,
) -> None:
    clients = folders.make_clients(12)
    graph = Graph(epsilon=0.3).of_clients(clients)
    folder = folders.write_run(
        tmp_path,
        "fedgs",
        0,
        clients=clients,
        memory={"distance": graph.distance},
        method__graph={"epsilon": 0.3},
    )
    (run,), _ = read_runs(folder.path)
    drawn = network_of_run(run)
    assert drawn.caption == f"{len(drawn.edges)} edges"
    assert {tuple(edge) for edge in drawn.edges.tolist()} == {
        tuple(e) for e in np.argwhere(np.triu(np.isfinite(graph.adjacency), 1))
    }


def test_a_run_without_distances_has_no_graph(study: list[Run]) -> None:
    assert network_of_run(run_of(study, "uniform")) is None


def test_similar_clients_are_drawn_near_each_other() -> None:
    kind = np.arange(40) % 2
    distance = np.where(kind[:, None] == kind[None, :], 0.1, 1.0)
    np.fill_diagonal(distance, 0.0)
    positions = network(distance).positions
    gaps = np.linalg.norm(positions[:, None] - positions[None], axis=2)
    same = (kind[:, None] == kind[None, :]) & ~np.eye(40, dtype=bool)
    assert gaps[kind[:, None] != kind[None, :]].min() > np.median(gaps[same])


@pytest.mark.parametrize(
    "distance",
    [np.zeros((3, 3)), np.zeros(12), np.full((12, 12), np.nan)],
    ids=["other clients", "no matrix", "not finite"],
)
def test_distances_that_are_not_those_of_the_clients_give_no_graph(
    distance: npt.NDArray[np.float64], tmp_path: Path
) -> None:
    clients = folders.make_clients(12)
    folder = folders.write_run(tmp_path, "fedgs", 0, clients=clients, memory={"distance": distance})
    (run,), _ = read_runs(folder.path)
    assert network_of_run(run) is None


@pytest.mark.parametrize(
    "settings",
    [{"path": "graph.npz"}, {"similarity": "functional"}, {"epsilon": "large"}, {"epsilon": 0.9}],
    ids=repr,
)
def test_clients_are_joined_to_their_nearest_if_the_settings_do_not_give_the_distances(
    settings: dict[str, object], tmp_path: Path
) -> None:
    clients = folders.make_clients(12)
    memory = {"distance": Graph(epsilon=0.3).of_clients(clients).distance}
    folder = folders.write_run(
        tmp_path, "fedgs", 0, clients=clients, memory=memory, method__graph=settings
    )
    (run,), _ = read_runs(folder.path)
    assert network_of_run(run).caption == "each client is joined to its 3 nearest"
