"""Figures 4 and 5 on a small federation."""

from pathlib import Path

from tests.experiments.paper.helpers import LDF, carry_out, request_of, rows


def test_counts_and_curves_come_from_the_same_runs(toy_file: Path, tmp_path: Path) -> None:
    counts = carry_out(request_of("fig4", toy_file, modes=LDF), tmp_path)
    curves = carry_out(request_of("fig5", toy_file, modes=LDF), tmp_path)
    assert counts.reused == 0 and (curves.reused, curves.total) == (10, 10)
    assert {path.suffix for path in counts.files} == {".txt", ".md", ".csv", ".tex", ".pdf", ".png"}
    table = {row["method"]: row for row in rows(next(tmp_path.glob("fig4-*=2.csv")))}
    selected = {loaded.row: loaded.run for loaded in counts.records.runs}["uniform"].records
    assert (
        float(table["uniform"]["fewest_mean"])
        <= sum(len(record.cohort or ()) for record in selected) / 6
    )
    assert float(table["fedgs 1"]["most_mean"]) <= float(table["uniform"]["most_mean"])
