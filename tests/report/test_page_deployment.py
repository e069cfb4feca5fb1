"""The page of deployments: titles, axes, names of sites and events."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.report import folders
from tests.report.browser import CHROMIUM, Page, browser

from fedgs.report.page import render_page
from fedgs.report.page_data import page_data
from fedgs.report.reading import read_runs
from fedgs.report.run_view import Run
from fedgs.report.tables import comparison

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")


@pytest.fixture(scope="module")
def deployments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folders.write_deployments(tmp_path_factory.mktemp("deployments"))


@pytest.fixture(scope="module")
def opened(deployments: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    path = deployments / "report.html"
    path.write_text(render_page(*read_runs(deployments)), encoding="utf-8")
    with browser(tmp_path_factory.mktemp("profile")) as tab:
        tab.open(path)
        yield tab


def test_deployments_are_read_with_their_events(deployments: Path) -> None:
    runs, problems = read_runs(deployments)
    assert problems == []
    assert [run.label for run in runs] == ["fedgs cohort_limit=2", "fedgs cohort_limit=3"]
    assert {run.group for run in runs} == {("Flower clients", "nodes on line")}
    assert [event["event"] for event in runs[0].events] == [
        "empty",
        "silent",
        "failed",
        "incomplete",
    ]  # damaged lines are left out


def test_deployments_of_one_label_and_seed_are_told_apart_by_their_run_ids(tmp_path: Path) -> None:
    for run_id in ("aaaa1111", "bbbb2222"):
        folders.write_deployment(tmp_path, run_id)
    runs, _ = read_runs(tmp_path)
    assert [row[0].text for row in comparison(runs).rows] == [
        "fedgs [aaaa1111]",
        "fedgs [bbbb2222]",
    ]
    assert [run["label"] for run in page_data(runs, [])["runs"]] == [
        "fedgs [aaaa1111]",
        "fedgs [bbbb2222]",
    ]


def test_a_deployment_that_meets_more_clients_keeps_its_label() -> None:
    def share(seed: int, limit: int) -> Run:
        about = {"engine": "flower", "cohort_limit": limit, "fingerprint": f"{seed}"}
        return Run(
            {"method": {"name": "md"}, "training": {"proportion": 0.5}, "seed": seed, "run": about},
            (),
        )

    assert [row[0].text for row in comparison([share(0, 2), share(1, 3)]).rows] == ["md"]


@needs_browser
def test_a_deployment_opens_with_its_own_title_and_loss(opened: Page) -> None:
    assert opened.complaints == []
    assert (
        opened.evaluate("byId('group').selectedOptions[0].textContent")
        == "Flower clients, nodes on line"
    )
    assert opened.evaluate("byId('loss-chart').layout.yaxis.title.text") == "validation loss"
    heads = opened.texts(".result thead th")
    assert "lowest valid. loss" in heads and "lowest test loss" not in heads


@needs_browser
def test_sites_are_named_on_the_axes_and_in_the_graph(opened: Page) -> None:
    assert opened.evaluate("byId('map-chart').layout.yaxis.ticktext") == list(
        folders.SITES
    )  # most data first
    assert opened.evaluate("byId('partition-chart').layout.xaxis.ticktext") == list(folders.SITES)
    assert opened.texts("#drawing .name") == list(folders.SITES)
    assert "Tromsø" in opened.evaluate(
        "byId('counts-chart').data.flatMap((trace) => trace.text).join()"
    )


@needs_browser
def test_axes_show_whole_rounds_and_no_share_above_all(opened: Page) -> None:
    assert opened.evaluate("byId('counts-chart').layout.xaxis.range") == [-0.03, 1.03]
    for chart, axis in (("map", "x"), ("loss", "x"), ("variance", "x"), ("counts", "y")):
        ticks = opened.texts(f"#{chart}-chart .{axis}tick text")
        assert ticks and all(float(tick).is_integer() for tick in ticks), chart


@needs_browser
def test_events_are_listed_as_text(opened: Page) -> None:
    assert opened.evaluate("byId('events').hidden") is False
    note = opened.text("#events-note")
    assert note.startswith(
        "fedgs cohort_limit=2: 1 empty, 1 failed, 1 incomplete, 1 silent; fedgs cohort_limit=3: "
    )
    rows = opened.evaluate(
        "[...document.querySelectorAll('#events-table tbody tr')]"
        ".map((row) => [...row.children].map((it) => it.textContent))"
    )
    assert rows[1] == [
        "fedgs cohort_limit=2",
        "2",
        "Oslo General",
        "silent (evaluate)",
        "no reply within 60 s",
    ]
    assert rows[2][4] == "<b>disk full</b>"
    assert rows[3][2] == "Oslo General, Bergen"
    assert len(rows) == 8


@needs_browser
def test_a_round_without_a_cohort_says_so(opened: Page) -> None:
    opened.choose("#round", "1")
    assert opened.text("#round-note") == "Round 1: 3 available (full colour), none selected."
    assert "no solver" in opened.text("#solver-table") and "empty 1" in opened.text("#solver-table")


@needs_browser
def test_results_by_client_have_a_section_where_there_are_any(opened: Page, tmp_path: Path) -> None:
    run = folders.write_run(tmp_path, "md", 0)
    path = tmp_path / "report.html"
    path.write_text(render_page(*read_runs(tmp_path)), encoding="utf-8")
    opened.open(path)
    assert opened.evaluate("byId('by-client').hidden && byId('by-client-link').hidden") is True
    lines = (run.path / "rounds.jsonl").read_text(encoding="utf-8").splitlines()
    count = len(run.clients())
    last = json.loads(lines[-1])
    last["per_client"] = {"part": "test", "loss": [1.0, None, *[0.5] * (count - 2)]}
    lines[-1] = json.dumps(last)
    (run.path / "rounds.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    path.write_text(render_page(*read_runs(tmp_path)), encoding="utf-8")
    opened.open(path)
    opened.wait("document.body.dataset.drawn === 'yes'")
    assert opened.evaluate("byId('by-client').hidden") is False
    assert "test examples of each client" in opened.text("#by-client-note")
    rows = opened.evaluate("document.querySelectorAll('#by-client-table tbody tr').length")
    assert rows == 5
    assert opened.evaluate("byId('client-figure').querySelector('[value=accuracy]').disabled")
    assert opened.complaints == []


@pytest.mark.long
def test_runs_without_events_have_no_section_of_them(opened: Page, tmp_path: Path) -> None:
    folders.write_run(tmp_path, "md", 0)
    path = tmp_path / "report.html"
    path.write_text(render_page(*read_runs(tmp_path)), encoding="utf-8")
    opened.open(path)
    assert opened.evaluate("byId('events').hidden && byId('events-link').hidden") is True
    assert opened.complaints == []
