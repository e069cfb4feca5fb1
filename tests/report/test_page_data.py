from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.report import folders

from fedgs.records import Record
from fedgs.report.labels import labelled
from fedgs.report.page import render_page
from fedgs.report.page_data import page_data
from fedgs.report.reading import read_runs
from fedgs.report.run_view import Run


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folders.write_mixed_study(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="module")
def deployments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folders.write_deployments(tmp_path_factory.mktemp("deployments"))


def states(data: dict[str, Any], run: dict[str, Any], kind: str) -> npt.NDArray[np.bool_]:
    """(rounds, clients) of a map, read back as the page does."""
    import base64

    clients = len(data["federations"][run["federation"]]["names"])
    rounds = -(-run["done"] // run["stride"])
    packed = np.frombuffer(base64.b64decode(data["maps"][run[kind]]), dtype=np.uint8)
    return np.unpackbits(packed)[: rounds * clients].reshape(rounds, clients).astype(bool)


def test_maps_hold_the_available_and_the_selected_clients(study: Path) -> None:
    runs, problems = read_runs(study)
    data = page_data(runs, problems)
    for shown in data["runs"]:
        run = next(run for run in runs if run.name == shown["name"])
        if run.clients is None:
            assert "available" not in shown
            continue
        passed = [record for record in run.records if record.cohort is not None]
        names = run.clients.names
        assert states(data, shown, "available").tolist() == [
            [name in record.available for name in names] for record in passed
        ]
        assert states(data, shown, "selected").tolist() == [
            [name in record.cohort for name in names] for record in passed
        ]


def test_availability_that_methods_share_is_kept_once(tmp_path: Path) -> None:
    runs, _ = read_runs(folders.write_study(tmp_path, methods=folders.MIXED_METHODS, seeds=1))
    data = page_data(runs, [])
    assert len({run["available"] for run in data["runs"]}) == 1
    assert (len(data["federations"]), len(data["maps"])) == (1, 4)


def test_more_than_a_page_can_hold_is_left_out_by_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedgs.report.page_data._MOST_BYTES", 1000)
    runs, _ = read_runs(folders.write_study(tmp_path, methods=folders.MIXED_METHODS, seeds=2))
    data = page_data(runs, [])
    with_map = [(run["label"], run["seed"]) for run in data["runs"] if "available" in run]
    assert with_map == [("fedgs", 0), ("md", 0), ("uniform", 0)]
    assert sum(map(len, data["maps"])) <= 1000


def test_many_clients_are_sampled_by_size_and_rounds_thinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedgs.report.client_groups.MOST_PICKED", 10)
    monkeypatch.setattr("fedgs.report.page_data._MOST_CELLS", 150)
    folders.write_run(tmp_path, "uniform", 0)
    runs, _ = read_runs(tmp_path)
    data = page_data(runs, [])
    (run,) = data["runs"]
    federation = data["federations"][0]
    assert (federation["total"], len(federation["names"]), run["stride"]) == (
        30,
        10,
        3,
    )  # 10 * 40 / 150 rounded up
    assert {min(runs[0].clients.data_sizes), max(runs[0].clients.data_sizes)} <= set(
        federation["sizes"]
    )
    kept = [record for record in runs[0].records if record.cohort is not None][::3]
    names = federation["names"]
    assert states(data, run, "selected").tolist() == [
        [name in record.cohort for name in names] for record in kept
    ]


def test_very_many_clients_are_shown_as_tenths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedgs.report.page_data.MOST_ROWS", 20)
    monkeypatch.setattr("fedgs.report.page_data._FEW_POINTS", 20)
    folders.write_run(tmp_path, "uniform", 0)
    runs, _ = read_runs(tmp_path)
    (run,) = page_data(runs, [])["runs"]
    assert runs[0].clients is not None and "available" not in run
    sizes, names = runs[0].clients.data_sizes, runs[0].clients.names
    groups = [np.sort(part) for part in np.array_split(np.argsort(sizes, kind="stable"), 10)]
    assert run["shares"]["stride"] == 2  # 40 rounds in 20 columns
    kept = [record for record in runs[0].records if record.cohort is not None][::2]
    for kind, members in (("available", "available"), ("selected", "cohort")):
        inside = [[name in getattr(record, members) for name in names] for record in kept]
        shares = [[np.mean([row[k] for k in group]) for row in inside] for group in groups]
        np.testing.assert_allclose(run["shares"][kind], shares, rtol=1e-4)


def test_milliseconds_are_medians_that_the_first_round_does_not_move(deployments: Path) -> None:
    (run, _), _ = read_runs(deployments)
    # select: 3 s, 1 ms, 2 ms, 3 ms: the median is 2.5 ms
    assert page_data([run], [])["runs"][0]["seconds"] == {"select": 2.5, "train": 1000.0}


def test_a_phase_of_some_rounds_counts_for_its_share_of_them(tmp_path: Path) -> None:
    timings = [
        {"round": t, "train": 0.01, **({"evaluate": 0.5} if t % 5 == 0 else {})} for t in range(20)
    ]
    run = Run({"method": {"name": "md"}}, (), timings=timings)
    # 500 ms in 4 of 20 rounds
    assert page_data([run], [])["runs"][0]["seconds"] == {"evaluate": 100.0, "train": 10.0}


def test_of_two_runs_with_one_label_and_seed_the_page_shows_the_latest(tmp_path: Path) -> None:
    for day, version in (("01", "0.1.0"), ("02", "0.2.0")):
        folders.write_run(
            tmp_path,
            "md",
            0,
            run__started=f"2024-05-{day}T10:00:00+00:00",
            run__versions={"fedgs": version},
        )
    runs, _ = read_runs(tmp_path)
    data = page_data(runs, [])
    assert len(runs) == 2 and len(data["runs"]) == 1
    assert "2024-05-02" in data["runs"][0]["config"]
    assert data["groups"][0]["curves"]["test_loss"]["md"]["seeds"] == 1
    left_out = next(run.name for run in runs if "05-01" in run.about["started"])
    assert f"the same label and seed: {left_out} (shown: " in render_page(runs)


def test_a_failed_seed_is_left_out_of_the_curve_as_it_is_of_the_table(tmp_path: Path) -> None:
    folders.write_run(tmp_path, "md", 0)
    failed = folders.write_run(tmp_path, "md", 1)
    failed.write_failure({"round": 3, "client": None, "error": "broken", "traceback": ""})
    only = folders.write_run(tmp_path, "uniform", 0, done=6)
    only.write_failure({"round": 6, "client": None, "error": "broken", "traceback": ""})
    curves = page_data(read_runs(tmp_path)[0], [])["groups"][0]["curves"]["test_loss"]
    assert {label: (one["seeds"], one["failed"]) for label, one in curves.items()} == {
        "md": (1, False),
        "uniform": (1, True),
    }


def test_an_empty_cohort_is_counted_by_its_status(deployments: Path) -> None:
    shown = page_data(read_runs(deployments)[0], [])["runs"][0]
    assert shown["statuses"] == {"empty": 1}
    assert shown["counts"] == [1, 2, 1]
    assert shown["done"] == 4


def test_results_by_client_and_early_stops_are_on_the_page() -> None:
    clients = folders.make_clients(3)
    names = list(clients.names)
    by_client = {"part": "validation", "loss": [0.5, None, 2.0], "accuracy": [1.0, None, 0.25]}
    records = [
        Record(0, available=names, num_available=3, cohort=[names[0]], per_client=by_client),
        Record(1, test_loss=0.5, stopped="patience"),
    ]
    config = {"method": {"name": "md"}, "seed": 0, "training": {"rounds": 9}}
    plain = [Record(0, available=names, num_available=3, cohort=[names[0]]), Record(1)]
    runs = [Run(config, records, clients), Run({**config, "seed": 1}, plain, clients)]
    first, second = page_data(labelled(runs), [])["runs"]  # type: ignore[misc]
    assert first["stopped"] == "patience at round 1" and second["stopped"] == ""
    assert first["by_client"] == {"round": 0, **by_client}
    assert second["by_client"] is None
