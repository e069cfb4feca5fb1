"""Every table and figure of the paper on a small federation: what is made, reused, traced, and refused."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedgs.data import export
from fedgs.data.federation import Federation
from fedgs.errors import ConfigError, OutputError
from fedgs.experiments.paper.catalogue import NAMES, find
from fedgs.experiments.paper.frame.page import page
from fedgs.experiments.paper.frame.request import ExperimentRequest, Mode, Source, parse_data, parse_modes, parse_seeds
from fedgs.experiments.paper.frame.run import Outcome, checked, reproduce
from fedgs.experiments.paper.frame.store import read_manifests
from fedgs.experiments.paper.table2 import table2_rows

PARTS = ("table2", "table4", "fig4", "fig5", "tuning")  # those that train
FAST = (("training.proportion", 0.4), ("training.local_steps", 2), ("evaluation.every", 2))


@pytest.fixture(scope="module")
def toy_file(toy_federation: Federation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(toy_federation, tmp_path_factory.mktemp("data") / "toy.npz")


def ask(name: str, file: Path | None, **options: Any) -> ExperimentRequest:
    values: dict[str, Any] = {"seeds": (0, 1), "overrides": FAST, **options}
    if name == "tuning":
        values["overrides"] = tuple((key, value) for key, value in FAST if key != "training.local_steps")
    if name not in PARTS:
        values["overrides"] = options.get("overrides", ())
        values["seeds"] = (0,)
    if "rounds" in find(name).takes:
        values.setdefault("rounds", 4)
    return checked(ExperimentRequest(name, () if file is None else parse_data([str(file)]), **values))


def carry_out(request: ExperimentRequest, out: Path) -> Outcome:
    return reproduce(request, out=out, workers=1, command=f"fedgs reproduce {request.name}")


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


LDF = (Mode("LDF"),)


@pytest.fixture(scope="module")
def table2(toy_file: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[ExperimentRequest, Path, Outcome]:
    """Table 2 with IDL and LDF, all rows and ours, two seeds."""
    out = tmp_path_factory.mktemp("paper")
    request = ask("table2", toy_file, modes=(Mode("IDL"), *LDF), ours=True, overrides=FAST)
    return request, out, carry_out(request, out)


def test_table2_has_ten_rows_and_two_of_ours(table2: tuple[ExperimentRequest, Path, Outcome]) -> None:
    request, out, _ = table2
    table = rows(out / f"{request.stem}.csv")
    assert [row["method"] for row in table] == [
        "uniform", "md", "power_of_choice", "fedprox .01", "fedgs 0", "fedgs 0.5", "fedgs 1", "fedgs 2", "fedgs 5",
        "fedgs 1, paper scale", "uniform, inverse p.", "fedgs 1, inverse p.",
    ]  # fmt: skip
    assert {row["LDF 0.7 seeds"] for row in table} == {"2"}
    assert {row["LDF 0.7 paper"] for row in table} == {""}, "six clients are not the paper's federation"


def test_each_row_is_run_with_its_own_settings(table2: tuple[ExperimentRequest, Path, Outcome]) -> None:
    _, _, outcome = table2
    methods = {one.row: (one.run.table("method"), one.run.table("training")) for one in outcome.records.runs}
    assert methods["power_of_choice"][0]["loss_on"] == "validation"
    assert methods["fedprox"][0]["name"] == "md" and methods["fedprox"][1]["mu"] == 0.01 and methods["md"][1]["mu"] == 0
    assert {row: (m["alpha"], m["scale"]) for row, (m, _) in methods.items() if m["name"] == "fedgs"} == {
        "fedgs-0": (0, "cohort"), "fedgs-0.5": (0.5, "cohort"), "fedgs-1": (1, "cohort"), "fedgs-2": (2, "cohort"),
        "fedgs-5": (5, "cohort"), "fedgs-paper": (1, "paper"), "fedgs-inverse": (1, "paper"),
    }  # fmt: skip
    assert [row for row, (m, _) in methods.items() if m["weighting"] == "inverse_participation"] == [
        "uniform-inverse",
        "fedgs-inverse",
    ]
    assert {m["graph"]["preset"] for m, _ in methods.values() if m["name"] == "fedgs"} == {"paper"}


def test_every_number_can_be_traced_to_a_record(table2: tuple[ExperimentRequest, Path, Outcome]) -> None:
    request, out, _ = table2
    traced: dict[tuple[str, str], list[float]] = {}
    for row in rows(out / f"{request.stem}-runs.csv"):
        lines = (out / "runs" / row["folder"] / "rounds.jsonl").read_text().splitlines()
        stored = [loss for line in lines if (loss := json.loads(line)["test_loss"]) is not None]
        assert float(row["test_loss"]) == min(stored) and row["standing"] == "finished" and row["rounds"] == "4"
        traced.setdefault((row["row"], row["mode"]), []).append(min(stored))
    keys = [row.key for row in table2_rows(request)]
    for key, row in zip(keys, rows(out / f"{request.stem}.csv"), strict=True):
        for mode in ("IDL", "LDF 0.7"):
            assert float(row[f"{mode} mean"]) == pytest.approx(np.mean(traced[key, mode]), abs=1e-12)


def test_degradation_is_the_ratio_to_ideal(table2: tuple[ExperimentRequest, Path, Outcome]) -> None:
    request, out, _ = table2
    for losses, degraded in zip(rows(out / f"{request.stem}.csv"), rows(out / f"{request.stem}-degradation.csv"), strict=True):
        ratio = float(losses["LDF 0.7 mean"]) / float(losses["IDL mean"]) - 1
        assert float(degraded["LDF 0.7"]) == pytest.approx(ratio) == pytest.approx(float(degraded["worst"]))


def test_a_table_made_twice_is_the_same_file_and_trains_nothing(table2: tuple[ExperimentRequest, Path, Outcome]) -> None:
    request, out, first = table2
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    again = carry_out(request, out)
    assert (again.reused, again.total) == (48, 48) == (again.total, first.total)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_deleting_one_run_carries_out_that_run_only(table2: tuple[ExperimentRequest, Path, Outcome], tmp_path: Path) -> None:
    request, out, _ = table2
    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    gone = sorted((copy / "runs").glob("*-md-*"))[0]
    lines = (gone / "rounds.jsonl").read_bytes()
    shutil.rmtree(gone)
    again = carry_out(request, copy)
    assert (again.reused, again.total) == (47, 48)
    assert (gone / "rounds.jsonl").read_bytes() == lines
    assert (copy / f"{request.stem}.csv").read_bytes() == (out / f"{request.stem}.csv").read_bytes()


def test_fewer_rounds_are_read_from_longer_runs(
    table2: tuple[ExperimentRequest, Path, Outcome], toy_file: Path, tmp_path: Path
) -> None:
    _, out, _ = table2
    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    request = ask("table2", toy_file, modes=LDF, methods=("uniform",), rounds=2, overrides=FAST)
    shorter = carry_out(request, copy)
    assert (shorter.reused, shorter.total) == (2, 2)
    fresh = carry_out(request, tmp_path / "fresh")
    assert [one.test_loss for one in shorter.records.runs] == [one.test_loss for one in fresh.records.runs]
    assert {one.run.rounds_done for one in shorter.records.runs} == {2}


def test_the_other_scale_and_chosen_rows(toy_file: Path, tmp_path: Path) -> None:
    request = ask("table2", toy_file, modes=LDF, methods=("fedgs-1", "fedgs-cohort"), scale="paper", rounds=1, overrides=FAST)
    outcome = carry_out(request, tmp_path)
    assert {one.row: one.run.table("method")["scale"] for one in outcome.records.runs} == {
        "fedgs-1": "paper",
        "fedgs-cohort": "cohort",
    }


def test_the_paper_stands_beside_a_file_of_thirty_clients(tmp_path: Path) -> None:
    from tests.conftest import make_federation

    file = export(make_federation(tuple(4 + k % 3 for k in range(30))), tmp_path / "thirty.npz")
    request = ask(
        "table2",
        file,
        modes=(Mode("IDL"), Mode("MDF"), Mode("LN", 0.3)),
        methods=("uniform", "fedgs-1"),
        rounds=2,
        overrides=FAST,
    )
    outcome = carry_out(request, tmp_path / "out")
    table = rows(tmp_path / "out" / f"{request.stem}.csv")
    assert [(row["IDL paper"], row["MDF 0.7 paper"], row["LN 0.3 paper"]) for row in table] == [
        ("0.302", "0.362", ""),
        ("0.328", "0.311", ""),
    ]
    assert "(.302)" in outcome.rendering.tables[""].text()
    assert "- The runs have 2 rounds, the paper's 1000: levels cannot be compared." in outcome.rendering.verdict
    assert any("levels can be compared if it is the paper's own federation" in line for line in outcome.rendering.verdict)


def test_table4_shares_the_runs_at_alpha_zero(toy_file: Path, tmp_path: Path) -> None:
    request = ask("table4", toy_file, modes=LDF, rounds=2, seeds=(0,), overrides=FAST)
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


def test_counts_and_curves_come_from_the_same_runs(toy_file: Path, tmp_path: Path) -> None:
    counts = carry_out(ask("fig4", toy_file, modes=LDF), tmp_path)
    curves = carry_out(ask("fig5", toy_file, modes=LDF), tmp_path)
    assert counts.reused == 0 and (curves.reused, curves.total) == (10, 10)
    assert {path.suffix for path in counts.files} == {".txt", ".md", ".csv", ".tex", ".pdf", ".png"}
    table = {row["method"]: row for row in rows(next(tmp_path.glob("fig4-*=2.csv")))}
    selected = {one.row: one.run for one in counts.records.runs}["uniform"].records
    assert float(table["uniform"]["fewest_mean"]) <= sum(len(record.cohort or ()) for record in selected) / 6
    assert float(table["fedgs 1"]["most_mean"]) <= float(table["uniform"]["most_mean"])


def test_tuning_names_its_best_point(toy_file: Path, tmp_path: Path) -> None:
    request = ask("tuning", toy_file, rounds=1, seeds=(0,))
    outcome = carry_out(request, tmp_path)
    table = {
        (row["local_steps"], rate): float(row[f"eta {rate} mean"])
        for row in rows(tmp_path / f"{request.stem}.csv")
        for rate in ("0.01", "0.05", "0.1", "0.3")
    }
    steps, rate = min(table, key=lambda point: table[point])
    assert f"E = {steps}, eta = {rate}" in outcome.rendering.verdict[0]
    assert {one.run.table("method")["name"] for one in outcome.records.runs} == {"uniform"}


@pytest.mark.parametrize("name", ["table1", "fig8", "fig3", "fig7", "gamma", "table3"])
def test_computed_parts_are_kept_and_made_twice_the_same(name: str, toy_file: Path, tmp_path: Path) -> None:
    request = ask(name, toy_file, **({"overrides": (("training.local_steps", 1),)} if name == "table3" else {}))
    outcome = carry_out(request, tmp_path)
    assert outcome.rendering.verdict and outcome.problems == []
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert carry_out(request, tmp_path).reused == 1
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_damaged_computed_figures_are_computed_anew(toy_file: Path, tmp_path: Path) -> None:
    request = ask("gamma", toy_file)
    first = carry_out(request, tmp_path)
    (kept,) = (tmp_path / "computed").iterdir()
    kept.write_bytes(b"PK rubbish")
    again = carry_out(request, tmp_path)
    assert again.reused == 0 and again.rendering.verdict == first.rendering.verdict


def test_rates_and_activity_of_table1(toy_file: Path, tmp_path: Path) -> None:
    request = ask("table1", toy_file, rounds=400)
    carry_out(request, tmp_path)
    table = {row["mode"]: row for row in rows(tmp_path / f"{request.stem}.csv")}
    assert list(table) == ["IDL", "LN 0.5", "SLN 0.5", "LDF 0.7", "MDF 0.7", "YMF 0.9", "YC 0.9"]
    assert float(table["IDL"]["measured"]) == 1.0 and table["IDL"]["rounds_below_limit"] == "0"
    sizes = np.array([9, 4, 7, 12, 5, 8])
    assert float(table["MDF 0.7"]["rate_mean"]) == pytest.approx(np.mean((sizes / 12) ** 0.7))
    # Seven normal deviates beyond 4 with odds of 1 in 2000 for a fixed seed: a bias of the draws shows.
    assert all(abs(float(row["standard_errors"])) < 4 for row in table.values())


def test_bad_requests_are_one_sentence(toy_file: Path, tmp_path: Path) -> None:
    cases: list[tuple[Any, str]] = [
        (lambda: find("table5"), r"NAME must be one of table1, .*; got 'table5'; did you mean 'table"),
        (lambda: find("fig6"), "illustrations"),
        (lambda: parse_modes(["LFD"]), r"--modes must be of IDL, .*; got 'LFD'; did you mean 'LDF'\?"),
        (lambda: parse_modes(["IDL0.5"]), "IDL has no beta"),
        (lambda: parse_data(["cifar"]), r"--data must be .*; got 'cifar'; did you mean 'cifar10'\?"),
        (lambda: parse_data(["nowhere.npz"]), "there is no file 'nowhere.npz'"),
        (lambda: parse_data([str(toy_file), str(toy_file)]), "twice"),
        (lambda: parse_seeds("none"), "--seeds must be how many"),
        (lambda: parse_seeds("0"), "--seeds must be how many"),
        (
            lambda: checked(ExperimentRequest("gamma"), ["modes"]),
            "--modes means nothing for gamma; it takes --data, --seeds, --set",
        ),
        (lambda: checked(ExperimentRequest("theorem1"), ["seeds"]), "must be one seed for theorem1"),
        (lambda: checked(ExperimentRequest("table2", scale="big")), "--scale must be cohort or paper; got 'big'"),
        (
            lambda: carry_out(ask("table2", toy_file, methods=("nobody",)), tmp_path),
            "--methods must be of uniform, .*; got 'nobody'",
        ),
        (
            lambda: carry_out(ask("table2", toy_file, overrides=(("method", "md"),)), tmp_path),
            "--set method would change what table2",
        ),
        (lambda: carry_out(ask("table2", toy_file, overrides=(("method.alhpa", 1),)), tmp_path), "method.alhpa is not a setting"),
        (lambda: carry_out(ask("table2", toy_file, overrides=(("seed", [0, 1]),)), tmp_path), "--set seed"),
        (lambda: carry_out(ask("table2", toy_file, overrides=(("training.mu", [0, 1]),)), tmp_path), "must be one value"),
        (lambda: carry_out(ask("gamma", toy_file, overrides=(("training.mu", 1),)), tmp_path), "means nothing for gamma"),
        (lambda: carry_out(ask("table4", toy_file, modes=(Mode("LDF", 3.0),)), tmp_path), "availability.beta must be in"),
    ]
    for call, message in cases:
        with pytest.raises(ConfigError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_the_document_tells_the_rounds_own_time_where_the_command_found_all_runs_finished(
    table2: tuple[ExperimentRequest, Path, Outcome], tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(table2[1], copy)
    runs = sorted(path for path in (copy / "runs").iterdir() if path.is_dir())
    for path in runs:
        (path / "timings.jsonl").write_text("".join(f'{{"round":{t},"train":2.0,"select":0.4}}\n' for t in range(5)))
    assert f"the rounds of all runs, added up: {round(len(runs) * 12 / 60)} min\n" in page(copy)[0]


def test_folders_that_hold_something_else_are_not_touched(toy_file: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(OutputError, match="holds something else"):
        carry_out(ask("gamma", toy_file), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    run = tmp_path / "runs-of-fedgs-run" / "a-run"
    run.mkdir(parents=True)
    (run / "config.toml").write_text("")
    with pytest.raises(OutputError, match="holds runs of fedgs run"):
        carry_out(ask("gamma", toy_file), run.parent)


def test_the_document_shows_what_was_run_and_says_what_was_not(
    table2: tuple[ExperimentRequest, Path, Outcome], tmp_path: Path
) -> None:
    _, out, outcome = table2
    text, problems = page(out)
    assert problems == [] and (text, []) == page(out)
    section = text[text.index("## Table 2") : text.index("## Table 3")]
    for word in ("Claim", "Data", "Model", "Hyper-parameters", "Hardware", "Time", "Command", "Verdict"):
        assert f"**{word}.**" in section, word
    assert "T = 4, M = 2, E = 2, B = 10, eta = 0.1 · 0.998^t, mu = 0 or 0.01, evaluated every 2" in section
    assert outcome.rendering.tables[""].markdown().strip() in section
    assert "Not run: Synthetic(0.5, 0.5), CIFAR10, FashionMNIST." in section, (
        "six clients do not stand for the paper's federation"
    )
    assert "the modes LN, SLN, MDF" in section
    for name in NAMES:
        assert find(name).title in text
    assert text.rstrip().endswith("Not run.") and text.count("| not run |") == len(NAMES) - 1


def test_the_document_names_records_that_cannot_be_read(table2: tuple[ExperimentRequest, Path, Outcome], tmp_path: Path) -> None:
    _, out, _ = table2
    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    first, second, *_ = sorted((copy / "runs").glob("*-md-*"))
    (first / "rounds.jsonl").write_text("rubbish\n")
    shutil.rmtree(second)
    (copy / "notes.json").write_text("{}")
    text, problems = page(copy)
    assert sorted(problem.split(":")[0] for problem in problems) == sorted([first.name, second.name, "notes.json"])
    assert "2 of 48 runs not there" in text
    assert len(read_manifests(copy)[0]) == 1


def test_a_failed_run_is_left_out_and_said(toy_file: Path, tmp_path: Path) -> None:
    request = ask("table2", toy_file, modes=LDF, methods=("uniform", "md"), rounds=2, overrides=FAST)
    outcome = carry_out(request, tmp_path)
    place = next(one for one in outcome.records.runs if one.row == "md")
    assert place.run.path is not None
    (place.run.path / "failure.json").write_text(
        json.dumps({"round": 1, "client": None, "error": "OSError: gone", "traceback": ""})
    )
    text, _ = page(tmp_path)
    assert "1 of 4 runs failed" in text


def test_sources_know_which_figures_belong_beside_them() -> None:
    assert Source("cifar10").paper_block(7) == "cifar10"
    assert Source("mine", "mine.npz").paper_block(30) == "synthetic" and Source("mine", "mine.npz").paper_block(31) is None
