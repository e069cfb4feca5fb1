"""Cells and tables that several experiments have."""

from dataclasses import replace

from tests.experiments.paper.helpers import run_with

from fedgs.experiments.paper.frame.tables import runs_table


def test_every_run_is_listed_with_its_figure_and_its_folder() -> None:
    finished = run_with("md", "IDL", seed=1, loss=1.5)
    failed = replace(
        finished, run=replace(finished.run, failure={"round": 1, "error": "OSError: gone"})
    )
    begun = replace(finished, run=replace(finished.run, records=finished.run.records[:1]))
    lines = [
        [cell.text for cell in row] for row in runs_table("Runs", [finished, failed, begun]).rows
    ]
    assert lines == [
        ["synthetic", "IDL", "md", "1", "1", "1.5", "finished", "run"],
        ["synthetic", "IDL", "md", "1", "1", "–", "failed", "run"],
        ["synthetic", "IDL", "md", "1", "1", "1.5", "unfinished", "run"],
    ]
