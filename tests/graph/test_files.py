"""Client graphs in files: what is written is read, and what does not fit is refused."""

from pathlib import Path

import numpy as np
import pytest

from fedgs import Clients
from fedgs.errors import ConfigError, UserError
from fedgs.graph import Graph
from fedgs.graph.files import digest_of, save_graph, stored_graph

LABELS = Clients((0, 1, 2), np.array([2, 2, 2]), label_counts=np.array([[2, 0], [1, 1], [0, 2]]))


def write(path: Path, **arrays: object) -> str:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return str(path)


def test_a_graph_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = Graph().of_clients(LABELS)
    save_graph(tmp_path / "g.npz", made)
    read = stored_graph(str(tmp_path / "g.npz"), 3)
    for name in ("similarity", "adjacency", "distance"):
        np.testing.assert_array_equal(getattr(read, name), getattr(made, name))


def test_distances_alone_are_a_graph_without_edges(tmp_path: Path) -> None:
    read = stored_graph(write(tmp_path / "g.npz", distance=1 - np.eye(3)), 3)
    np.testing.assert_array_equal(read.distance, 1 - np.eye(3))
    np.testing.assert_array_equal(read.similarity, np.eye(3))
    np.testing.assert_array_equal(np.isfinite(read.adjacency), np.eye(3, dtype=bool))


def test_the_digest_is_that_of_the_distances(tmp_path: Path) -> None:
    one = write(tmp_path / "a.npz", distance=1 - np.eye(3))
    same = write(tmp_path / "b.npz", distance=1 - np.eye(3), similarity=np.eye(3))
    other = write(tmp_path / "c.npz", distance=2 - 2 * np.eye(3))
    assert digest_of(one) == digest_of(same) != digest_of(other)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"similarity": np.eye(3)}, "must hold an array `distance`, got similarity"),
        (
            {"distance": np.zeros((2, 2))},
            r"distance must have shape \(3, 3\), a row a client, got \(2, 2\)",
        ),
        (
            {"distance": 1 - np.eye(3), "adjacency": np.ones((3, 3))},
            "adjacency must be 0 on the diagonal",
        ),
        ({"distance": np.triu(np.ones((3, 3)), 1)}, "distance must be symmetric"),
        ({"distance": np.eye(3) - 1}, "distance must be >= 0"),
        ({"distance": np.where(np.eye(3) > 0, 0, np.inf)}, "distance must be finite, got inf"),
        (
            {"distance": 1 - np.eye(3), "similarity": np.full((3, 3), np.nan)},
            "similarity must be finite and symmetric",
        ),
        ({"distance": np.full((3, 3), "a")}, "is not a readable .npz"),
    ],
)
def test_a_stored_graph_that_does_not_fit_is_refused(
    arrays: dict[str, object], message: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "g.npz", **arrays)
    with pytest.raises(UserError, match=rf"^method\.graph\.path '.*g\.npz'.*{message}"):
        stored_graph(path, 3)


def test_a_file_that_is_no_graph_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError,
        match=r"^method\.graph\.path must be a file, got 'nowhere\.npz', which does not exist$",
    ):
        stored_graph("nowhere.npz", 3)
    (tmp_path / "g.npz").write_text("no zip")
    with pytest.raises(ConfigError, match="is not a readable .npz"):
        stored_graph(str(tmp_path / "g.npz"), 3)
    np.save(tmp_path / "one.npy", np.zeros(3))
    with pytest.raises(ConfigError, match="is not a readable .npz"):
        stored_graph(str(tmp_path / "one.npy"), 3)
    with pytest.raises(ConfigError, match=r"^--out must end in \.npz, got"):
        save_graph(tmp_path / "g.csv", Graph().of_clients(LABELS))
