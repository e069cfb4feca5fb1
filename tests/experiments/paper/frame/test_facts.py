"""The facts above an experiment's tables."""

import json
import shutil
from pathlib import Path

import pytest
from tests.experiments.paper.helpers import CarriedOut, carry_out

from fedgs.experiments.paper.frame.page import page


def test_the_time_of_the_rounds_is_stated_where_the_command_found_all_runs_finished(
    table2: CarriedOut, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(table2[1], copy)
    runs = sorted(path for path in (copy / "runs").iterdir() if path.is_dir())
    for path in runs:
        (path / "timings.jsonl").write_text(
            "".join(f'{{"round":{t},"train":2.0,"select":0.4}}\n' for t in range(5))
        )
    assert f"the rounds of all runs, added up: {round(len(runs) * 12 / 60)} min\n" in page(copy)[0]


def test_the_time_of_the_rounds_stays_where_timings_are_not_kept(
    table2: CarriedOut, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(table2[1], copy)
    for path in (copy / "runs").glob("*/timings.jsonl"):
        path.unlink()
    manifest = next(copy.glob("table2-*.json"))
    assert json.loads(manifest.read_text())["round_seconds"] > 0
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "round_seconds": 7200}))
    assert "the rounds of all runs, added up: 2 h 00 min\n" in page(copy)[0]
    again = carry_out(table2[0], copy)
    assert again.reused == again.total
    assert json.loads(manifest.read_text())["round_seconds"] == 7200


def test_an_interruption_keeps_the_time_of_the_rounds(
    table2: CarriedOut, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(table2[1], copy)
    shutil.rmtree(next((copy / "runs").glob("*seed*")))
    manifest = next(copy.glob("table2-*.json"))
    before = json.loads(manifest.read_text())["round_seconds"]

    def interrupted(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fedgs.experiments.paper.frame.training.run_all", interrupted)
    with pytest.raises(KeyboardInterrupt):
        carry_out(table2[0], copy)
    assert json.loads(manifest.read_text())["round_seconds"] == before
