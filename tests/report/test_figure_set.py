"""All figures of a folder: which are written, and what is said about those that are not."""

from pathlib import Path

import numpy as np
import pytest
from tests.report import folders

from fedgs.errors import OutputError
from fedgs.records import Record
from fedgs.report.figure_set import write_figures
from fedgs.report.reading import read_runs
from fedgs.report.run_view import Run


def stems(paths: list[Path]) -> list[str]:
    names = [path.stem for path in paths if path.suffix == ".pdf"]
    assert names == [path.stem for path in paths if path.suffix == ".png"]
    assert all(path.stat().st_size > 1000 for path in paths)
    return names


def test_a_study_has_every_figure(tmp_path: Path) -> None:
    out = folders.write_study(tmp_path / "runs", methods=("uniform", "fedgs"), seeds=2, rounds=6)
    paths, missing = write_figures(read_runs(out)[0], tmp_path / "figures")
    assert missing == []
    assert stems(paths) == [
        "loss", "counts", "participation-fedgs", "participation-uniform", "partition", "graph",
    ]  # fmt: skip


@pytest.mark.long
def test_several_modes_and_federations_have_files_of_their_own(tmp_path: Path) -> None:
    for mode in ("LDF", "MDF"):
        folders.write_run(tmp_path, "fedgs", 0, rounds=4, availability__name=mode)
    other = folders.make_clients(12, seed=1)
    title = "Toy / 12"
    folders.write_run(tmp_path, "fedgs", 0, clients=other, rounds=4, run__data_title=title)
    names = stems(write_figures(read_runs(tmp_path)[0], tmp_path / "figures")[0])
    assert len(names) == len(set(names)) == 2 + 3 + 2 + 2
    assert "partition-Toy_12" in names and "graph-Toy_12" in names
    assert "participation-fedgs-Toy_12,_LDF_0.7" in names


def test_equal_titles_of_different_clients_are_numbered(tmp_path: Path) -> None:
    for seed in (0, 1):  # one fingerprint, so that the titles stay equal
        folders.write_run(
            tmp_path, "md", seed, clients=folders.make_clients(8, seed=seed), rounds=4
        )
    names = stems(write_figures(read_runs(tmp_path)[0], tmp_path / "figures")[0])
    title = "partition-Synthetic_0.5,_0.5_,_30_clients"
    assert [name for name in names if name.startswith("partition")] == [f"{title}-1", f"{title}-2"]


def test_a_run_without_clients_has_its_loss_alone(tmp_path: Path) -> None:
    config = {"method": {"name": "md"}, "training": {"rounds": 1}}
    run = Run(
        config, [Record(0, cohort=[1], valid_loss=0.5), Record(1, valid_loss=0.4)], label="md"
    )
    paths, missing = write_figures([run], tmp_path)
    assert stems(paths) == ["loss"]
    assert missing == [
        "no figure 'counts': no run has a whole round and readable clients",
        "no figure 'participation': no run has a whole round and readable clients",
        "no figure 'partition': the labels of no run's clients are known",
        "no figure 'graph': no run kept distances between clients, as those of fedgs do",
    ]


def test_records_that_allow_no_figure_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="^the records allow no figure: no figure 'loss': no run"):
        write_figures([Run({"method": {"name": "md"}}, (), label="md")], tmp_path / "figures")
    assert list(tmp_path.iterdir()) == []


def test_a_graph_without_a_memory_is_told(tmp_path: Path) -> None:
    folders.write_run(tmp_path, "fedgs", 0, rounds=4, memory={"distance": np.full((3, 3), np.inf)})
    _, missing = write_figures(read_runs(tmp_path)[0], tmp_path / "figures")
    assert missing == [
        "no figure 'graph': no run kept distances between clients, as those of fedgs do"
    ]
