"""Manifests keep the form of their files, and runs are cut to the rounds that count."""

import json
from pathlib import Path

import pytest
from tests.experiments.paper.helpers import carry_out, request_of

from fedgs.errors import OutputError
from fedgs.experiments.paper.frame.conditions import Mode, Source
from fedgs.experiments.paper.frame.experiment import StoredRun
from fedgs.experiments.paper.frame.request import ExperimentRequest
from fedgs.experiments.paper.frame.store import (
    computed_name,
    read_manifests,
    read_records,
    shortened,
)
from fedgs.records import Record
from fedgs.report.run_view import Run

# A manifest as the first version wrote it.
STORED = """{
 "asked": {
  "name": "table2",
  "data": [
   {
    "key": "toy",
    "path": "toy.npz"
   }
  ],
  "modes": [
   {
    "name": "LDF",
    "beta": 0.3
   }
  ],
  "methods": [
   "uniform"
  ],
  "rounds": 4,
  "seeds": [
   0,
   1
  ],
  "scale": "cohort",
  "ours": false,
  "overrides": [
   [
    "training.mu",
    0.1
   ]
  ]
 },
 "command": "fedgs reproduce table2",
 "seconds": 1.2,
 "machine": {
  "processor": "x",
  "cores": 2,
  "versions": {
   "fedgs": "0.1.0"
  }
 },
 "places": [
  {
   "data": "toy",
   "mode": "LDF 0.3",
   "row": "uniform",
   "folder": "toy-uniform-0",
   "rounds": 4
  }
 ],
 "computed": {}
}
"""


def test_a_stored_manifest_is_read_and_written_byte_for_byte(tmp_path: Path) -> None:
    name = "table2-toy-training.mu=0.1.json"
    (tmp_path / name).write_text(STORED)
    ((manifest,), problems) = read_manifests(tmp_path)
    assert problems == []
    assert manifest.request == ExperimentRequest(
        "table2",
        (Source("toy", "toy.npz"),),
        (Mode("LDF", 0.3),),
        ("uniform",),
        4,
        (0, 1),
        overrides=(("training.mu", 0.1),),
    )
    assert manifest.runs == [StoredRun("toy", "LDF 0.3", "uniform", "toy-uniform-0", 4)]
    (tmp_path / name).unlink()
    manifest.write(tmp_path)
    assert (tmp_path / name).read_text() == STORED


def test_the_time_of_the_rounds_is_stored_where_it_is_known(tmp_path: Path) -> None:
    tables = {**json.loads(STORED), "round_seconds": 7.5}
    (tmp_path / "table2.json").write_text(json.dumps(tables))
    ((manifest,), _) = read_manifests(tmp_path)
    assert manifest.round_seconds == 7.5
    (tmp_path / "table2.json").unlink()
    manifest.write(tmp_path)
    assert read_manifests(tmp_path)[0] == [manifest]


@pytest.mark.parametrize("key", ["asked", "places", "seconds"])
def test_a_manifest_with_a_part_missing_is_named(key: str, tmp_path: Path) -> None:
    tables = json.loads(STORED)
    del tables[key]
    (tmp_path / "table2.json").write_text(json.dumps(tables))
    assert read_manifests(tmp_path) == (
        [],
        [f"table2.json: not the manifest of an experiment ('{key}')"],
    )


def test_a_folder_that_does_not_exist_has_no_manifests(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="is not a folder"):
        read_manifests(tmp_path / "nowhere")


def test_the_name_of_a_result_depends_on_its_settings_alone() -> None:
    assert computed_name("gamma", {"seeds": (0,), "rounds": None}) == computed_name(
        "gamma", {"rounds": None, "seeds": [0]}
    )
    assert computed_name("gamma", {"seeds": (0,)}) != computed_name("gamma", {"seeds": (1,)})
    assert computed_name("gamma", {"seeds": (0,)}) == "gamma-0864cac85a123315.npz"


@pytest.mark.parametrize("written", range(5))
def test_a_longer_run_has_the_records_of_a_shorter_one(written: int) -> None:
    records = [Record(t, cohort=[t], test_loss=1.0 / (t + 1)) for t in range(4)]
    run = Run({"training": {"rounds": 3}}, [*records[:3], Record(3, test_loss=0.25)][:written])
    shorter = shortened(run, 2)
    expected = [*records[:2], Record(2, test_loss=1.0 / 3)]
    assert list(shorter.records) == expected[:written]
    assert shorter.finished == (written >= 3) and shorter.rounds == 2
    assert shortened(run, 3) is run and shortened(run, 9) is run


def test_a_result_that_is_missing_is_a_problem_of_the_records(
    toy_file: Path, tmp_path: Path
) -> None:
    request = request_of("gamma", toy_file)
    carry_out(request, tmp_path)
    (stored,) = (tmp_path / "computed").iterdir()
    stored.unlink()
    ((manifest,), _) = read_manifests(tmp_path)
    records, problems = read_records(tmp_path, manifest)
    assert dict(records.computed) == {}
    assert len(problems) == 1 and problems[0].startswith(
        f"{stored.name}: computed figures that cannot be read"
    )
