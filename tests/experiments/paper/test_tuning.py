"""The grid search on a small federation."""

from pathlib import Path

from tests.experiments.paper.helpers import carry_out, request_of, rows


def test_tuning_names_its_best_point(toy_file: Path, tmp_path: Path) -> None:
    request = request_of("tuning", toy_file, rounds=1, seeds=(0,))
    outcome = carry_out(request, tmp_path)
    table = {
        (row["local_steps"], rate): float(row[f"eta {rate} mean"])
        for row in rows(tmp_path / f"{request.stem}.csv")
        for rate in ("0.01", "0.05", "0.1", "0.3")
    }
    steps, rate = min(table, key=lambda point: table[point])
    assert f"E = {steps}, eta = {rate}" in outcome.rendering.verdict[0]
    assert {one.run.table("method")["name"] for one in outcome.records.runs} == {"uniform"}
