"""Table 4 on a small federation."""

from pathlib import Path

from tests.experiments.paper.helpers import FAST, LDF, carry_out, request_of, rows


def test_table4_shares_the_runs_at_alpha_zero(toy_file: Path, tmp_path: Path) -> None:
    request = request_of("table4", toy_file, modes=LDF, rounds=2, seeds=(0,), overrides=FAST)
    outcome = carry_out(request, tmp_path)
    assert outcome.total == 13, "five alphas and three graphs, one of them without a graph"
    graphs = {one.row: one.run.table("method")["graph"]["similarity"] for one in outcome.records.runs}
    assert (graphs["functional-0"], graphs["functional-1"], graphs["update-5"], graphs["oracle-2"]) == (
        "oracle",
        "functional",
        "update",
        "oracle",
    )
    (row,) = rows(tmp_path / f"{request.stem}.csv")
    alphas = {entry["graph"]: entry for entry in rows(tmp_path / f"{request.stem}-alphas.csv")}
    for word in ("oracle", "functional", "cosine"):
        means = {alpha: float(alphas[word][f"alpha {alpha} mean"]) for alpha in ("0", "0.5", "1", "2", "5")}
        assert float(row[f"{word}_mean"]) == min(means.values()) == means[row[f"{word}_alpha"]]
