"""The page of all that a folder holds."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest
from tests.experiments.paper.helpers import FAST, LDF, CarriedOut, carry_out, request_of

from fedgs.experiments.paper.catalogue import NAMES, find
from fedgs.experiments.paper.frame.page import page, write_page
from fedgs.experiments.paper.frame.store import read_manifests


def test_the_page_shows_what_was_run_and_says_what_was_not(
    table2: CarriedOut, tmp_path: Path
) -> None:
    _, out, outcome = table2
    text, problems = page(out)
    assert problems == [] and (text, []) == page(out)
    section = text[text.index("## Table 2") : text.index("## Table 3")]
    for word in (
        "Claim",
        "Data",
        "Model",
        "Hyper-parameters",
        "Hardware",
        "Time",
        "Command",
        "Verdict",
    ):
        assert f"**{word}.**" in section, word
    words = " ".join(section.split())
    assert " ".join(outcome.rendering.tables[""].markdown().split()) in words
    assert (
        "T = 4, M = 2, E = 2, B = 10, eta = 0.1 · 0.998^t, mu = 0 or 0.01, evaluated every 2"
        in words
    )
    assert "Not run: Synthetic(0.5, 0.5), CIFAR10, FashionMNIST." in words, (
        "six clients do not stand for the paper's federation"
    )
    assert "the modes LN, SLN, MDF" in words
    lines = [line for line in text.splitlines() if not line.startswith(("|", "!["))]
    assert max(map(len, lines)) <= 100
    for name in NAMES:
        assert find(name).title in text
    assert text.rstrip().endswith("Not run.") and text.count("| not run |") == len(NAMES) - 1


def test_the_page_names_records_that_cannot_be_read(table2: CarriedOut, tmp_path: Path) -> None:
    _, out, _ = table2
    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    first, second, *_ = sorted((copy / "runs").glob("*-md-*"))
    (first / "rounds.jsonl").write_text("rubbish\n")
    shutil.rmtree(second)
    (copy / "notes.json").write_text("{}")
    text, problems = page(copy)
    assert sorted(problem.split(":")[0] for problem in problems) == sorted(
        [first.name, second.name, "notes.json"]
    )
    assert "2 of 48 runs missing" in text
    assert len(read_manifests(copy)[0]) == 1


def test_a_failed_run_is_left_out_and_said(toy_file: Path, tmp_path: Path) -> None:
    request = request_of(
        "table2", toy_file, modes=LDF, methods=("uniform", "md"), rounds=2, overrides=FAST
    )
    outcome = carry_out(request, tmp_path)
    loaded_md = next(loaded for loaded in outcome.records.runs if loaded.row == "md")
    assert loaded_md.run.path is not None
    (loaded_md.run.path / "failure.json").write_text(
        json.dumps({"round": 1, "client": None, "error": "OSError: gone", "traceback": ""})
    )
    text, _ = page(tmp_path)
    assert "1 of 4 runs failed" in text


def test_figures_and_federations_without_runs_are_on_the_page(
    toy_file: Path, tmp_path: Path
) -> None:
    request = request_of("fig7", toy_file)
    carry_out(request, tmp_path)
    text, problems = page(tmp_path)
    assert problems == []
    assert f"![Figure 7: the partitions of CIFAR10 and FashionMNIST]({request.stem}.png)" in text
    assert "* **Data.** toy, 6 clients (content " in text


def test_the_page_is_written_with_the_tables_and_figures_of_every_part(
    table2: CarriedOut, toy_file: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(table2[1], copy)
    drawn = carry_out(request_of("fig7", toy_file), copy)
    expected = {path.name: path.read_bytes() for path in (*table2[2].files, *drawn.files)}
    for name in expected:
        (copy / name).unlink(missing_ok=True)
    written = write_page(copy)
    assert written.path == copy / "reproduction.md" and written.problems == []
    assert written.path.read_text(encoding="utf-8") == page(copy)[0]
    assert {path.name for path in written.files} == set(expected)
    for path in written.files:
        if path.suffix in (".txt", ".md", ".csv", ".tex"):
            assert path.read_bytes() == expected[path.name], path.name
    assert f"]({drawn.files[-1].stem}.png)" in written.path.read_text(encoding="utf-8")


def test_a_part_with_missing_records_keeps_its_tables(table2: CarriedOut, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(table2[1], copy)
    shutil.rmtree(next((copy / "runs").glob("*-md-*")))
    written = write_page(copy)
    assert written.files == [] and len(written.problems) == 1
    for path in table2[2].files:
        assert (copy / path.name).read_bytes() == path.read_bytes(), path.name


def test_without_matplotlib_the_page_says_that_figures_are_left_out(
    toy_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = carry_out(request_of("fig7", toy_file), tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    written = write_page(tmp_path)
    assert written.problems == [
        "figures are left out: this needs 'matplotlib', which is not installed: "
        "pip install 'fedgs[report]'"
    ]
    tables = {path for path in drawn.files if path.suffix not in (".png", ".pdf")}
    assert set(written.files) == tables and tables
