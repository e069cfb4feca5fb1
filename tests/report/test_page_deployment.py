"""The page of deployments: titles, axes, names of sites, events; and how runs, times and empty cohorts become data."""

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
    out = tmp_path_factory.mktemp("deployments")
    folders.write_deployment(out, "aaaa1111")
    folders.write_deployment(out, "bbbb2222", limit=3)
    return out


@pytest.fixture(scope="module")
def opened(deployments: Path, tmp_path_factory: pytest.TempPathFactory):
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


@needs_browser
def test_a_deployment_opens_with_its_own_title_and_loss(opened: Page) -> None:
    assert opened.complaints == []
    assert (
        opened.evaluate("byId('group').selectedOptions[0].textContent")
        == "Flower clients, nodes on line"
    )
    assert opened.evaluate("byId('loss-chart').layout.yaxis.title.text") == "validation loss"
    heads = opened.evaluate(
        "[...document.querySelectorAll('.result thead th')].map((one) => one.textContent)"
    )
    assert "lowest valid. loss" in heads and "lowest test loss" not in heads


@needs_browser
def test_sites_are_named_on_the_axes_and_in_the_graph(opened: Page) -> None:
    assert opened.evaluate("byId('map-chart').layout.yaxis.ticktext") == list(
        folders.SITES
    )  # most data first
    assert opened.evaluate("byId('partition-chart').layout.xaxis.ticktext") == list(folders.SITES)
    assert opened.evaluate(
        "[...document.querySelectorAll('#drawing .name')].map((one) => one.textContent)"
    ) == list(folders.SITES)
    assert "Tromsø" in opened.evaluate(
        "byId('counts-chart').data.flatMap((trace) => trace.text).join()"
    )


@needs_browser
def test_axes_show_whole_rounds_and_no_share_above_all(opened: Page) -> None:
    assert opened.evaluate("byId('counts-chart').layout.xaxis.range") == [-0.03, 1.03]
    for chart, axis in (("map", "x"), ("loss", "x"), ("variance", "x"), ("counts", "y")):
        ticks = opened.evaluate(
            f"[...document.querySelectorAll('#{chart}-chart .{axis}tick text')].map((one) => Number(one.textContent))"
        )
        assert ticks and all(float(tick).is_integer() for tick in ticks), chart


@needs_browser
def test_events_are_listed_as_text(opened: Page) -> None:
    assert opened.evaluate("byId('events').hidden") is False
    note = opened.text("#events-note")
    assert note.startswith(
        "fedgs cohort_limit=2: 1 empty, 1 failed, 1 incomplete, 1 silent; fedgs cohort_limit=3: "
    )
    rows = opened.evaluate(
        "[...document.querySelectorAll('#events-table tbody tr')].map((row) => [...row.children].map((one) => one.textContent))"
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
def test_runs_without_events_have_no_section_of_them(opened: Page, tmp_path: Path) -> None:
    folders.write_run(tmp_path, "md", 0)
    path = tmp_path / "report.html"
    path.write_text(render_page(*read_runs(tmp_path)), encoding="utf-8")
    opened.open(path)
    assert opened.evaluate("byId('events').hidden && byId('events-link').hidden") is True
    assert opened.complaints == []
