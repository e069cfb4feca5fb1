import html
import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.report import folders
from tests.report.browser import CHROMIUM, Page, browser

import fedgs
from fedgs.clients import Clients
from fedgs.errors import MissingExtraError
from fedgs.records import Record
from fedgs.report.page import render_page
from fedgs.report.reading import read_runs
from fedgs.report.run_view import Run

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folders.write_mixed_study(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="module")
def report(study: Path) -> Path:
    path = study / "report.html"
    path.write_text(render_page(*read_runs(study)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture(scope="module")
def loaded(page: Page, report: Path) -> Page:
    page.open(report)
    return page


@pytest.fixture
def opened(loaded: Page) -> Page:
    """The report as it stands after opening."""
    loaded.complaints.clear()
    loaded.resize(1200)
    loaded.scheme("light")
    loaded.choose("#group", "0")
    loaded.choose("#seed", "0")
    loaded.choose("#map-method", "fedgs")
    loaded.wait("document.body.dataset.drawn === 'yes'")
    return loaded


def embedded(text: str) -> dict[str, Any]:
    return json.loads(
        re.search(
            r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL
        ).group(1)
    )


def test_the_same_records_give_the_same_page(study: Path) -> None:
    assert render_page(*read_runs(study)) == render_page(*read_runs(study))


def test_the_page_refers_to_nothing_outside(report: Path) -> None:
    text = report.read_text(encoding="utf-8")
    own = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', own) == []
    assert "default-src 'none'" in own


def test_names_are_shown_as_text_never_as_markup() -> None:
    evil = "</script><script>alert(1)</script><!--data-->"
    records = [Record(0, available=[evil], cohort=[evil], test_loss=1.0), Record(1, test_loss=0.5)]
    config = {
        "method": {"name": "md"},
        "label": evil,
        "run": {"data_title": evil, "num_clients": 1},
        "training": {"rounds": 1},
    }
    run = Run(config, records, Clients((evil,), np.array([3])))
    text = render_page([run], [evil], title=evil)
    assert "alert(1)</script>" not in text
    assert embedded(text)["problems"] == [evil]
    assert html.escape(evil) in text


def test_a_large_study_stays_small() -> None:
    clients = folders.make_clients(1000)
    records = folders.records(clients, "uniform", 0, rounds=1000, limit=100)
    text = render_page([Run(folders.config("uniform", 0, training__rounds=1000), records, clients)])
    (run,) = embedded(text)["runs"]
    maps = embedded(text)["maps"]
    assert run["stride"] == 1
    assert len(run["variance"]) <= 250
    # Plotly is 4.8 MB; a run of this size adds two bits a client and round, as base64, and less
    # than 100 kB beside
    assert len(json.dumps(run)) + sum(map(len, maps)) < 2 * 1000 * 1000 / 8 * 4 / 3 + 100_000
    assert len(text.encode()) < 6e6


def test_without_plotly_the_page_says_what_to_install(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(
        MissingExtraError, match=r"'plotly', which is not installed: pip install 'fedgs\[report\]'"
    ):
        render_page(*read_runs(study))


@needs_browser
def test_opens_without_complaints_or_network(loaded: Page) -> None:
    assert loaded.complaints == []
    assert [url for url in loaded.requests if not url.startswith(("file:", "data:", "blob:"))] == []


@needs_browser
@pytest.mark.parametrize("width", [1400, 400, 360])
def test_nothing_makes_the_page_scroll_sideways(opened: Page, width: int) -> None:
    opened.resize(width)
    for group in ("1", "0"):
        opened.choose("#group", group)
        opened.wait("document.body.dataset.drawn === 'yes'")
        chart = "byId('loss-chart').querySelector('.main-svg').getBoundingClientRect()"
        opened.wait(f"{chart}.width <= {width}")
        assert opened.evaluate("document.documentElement.scrollWidth") <= width
        rights = opened.evaluate(
            "[...document.querySelectorAll('main > section')]"
            ".map((part) => part.getBoundingClientRect().right)"
        )
        assert max(rights) <= width
    assert opened.complaints == []


@needs_browser
def test_every_method_and_seed_can_be_shown(opened: Page) -> None:
    for seed in ("0", "1"):
        opened.choose("#seed", seed)
        for label in ("fedprox", "power_of_choice", "md"):
            opened.choose("#map-method", label)
            has_map = label != "power_of_choice"
            assert opened.evaluate("byId('map-chart').hidden") is not has_map
            assert opened.evaluate("byId('network-method').value") == label
    assert opened.complaints == []


@needs_browser
def test_the_slider_shows_the_available_and_selected_clients_of_a_round(
    opened: Page, study: Path
) -> None:
    run = next(
        run
        for run in read_runs(study)[0]
        if (run.label, run.seed, run.group[1]) == ("fedgs", 0, "LDF 0.7")
    )
    opened.evaluate("byId('round').focus()")
    for t in (1, 2, 3):
        opened.press("ArrowRight", 39)
        record = run.records[t]
        opened.wait(f"byId('round').value === '{t}'")
        chosen = f"{len(record.cohort)} selected (ring): {', '.join(record.cohort)}."
        assert (
            opened.text("#round-note")
            == f"Round {t}: {record.num_available} available (full colour), {chosen}"
        )
        chosen = opened.evaluate(
            "[...document.querySelectorAll('#drawing .chosen')]"
            ".map((it) => Number(it.dataset.client))"
        )
        assert [run.clients.names[k] for k in chosen] == list(record.cohort)
        assert (
            opened.evaluate("document.querySelectorAll('#drawing .there').length")
            == record.num_available
        )


@needs_browser
def test_a_client_can_be_chosen_or_pointed_at(opened: Page, study: Path) -> None:
    run = next(
        run
        for run in read_runs(study)[0]
        if (run.label, run.seed, run.group[1]) == ("fedgs", 0, "LDF 0.7")
    )
    times = sum("c007" in record.cohort for record in run.records if record.cohort)
    opened.choose("#client", "7")
    note = opened.text("#client-note")
    assert note.startswith(f"Client c007: {run.clients.data_sizes[7]} training examples (label ")
    assert f"selected in {times} " in note
    box = "document.querySelector('[data-client=\"4\"] .pie').getBoundingClientRect()"
    for _ in range(50):  # charts above are still being drawn, which moves the drawing
        opened.evaluate("byId('drawing').scrollIntoView({behavior: 'instant'})")
        middle = opened.evaluate(f"[{box}.x + {box}.width / 2, {box}.y + {box}.height / 2]")
        opened.call("Input.dispatchMouseEvent", type="mouseMoved", x=middle[0], y=middle[1])
        if opened.text("#client-note").startswith("Client c004:"):
            break
        time.sleep(0.1)
    assert opened.text("#client-note").startswith("Client c004:")
    assert opened.evaluate("byId('client').value") == "4"


@needs_browser
def test_playing_moves_the_round_and_stops(opened: Page) -> None:
    opened.evaluate("byId('play').click()")
    opened.wait("Number(byId('round').value) > 1")
    opened.evaluate("byId('play').click()")
    assert opened.text("#play") == "Play"
    before = opened.text("#round-note")
    assert (
        opened.evaluate(
            "new Promise((done) => setTimeout(() => done(byId('round-note').textContent), 600))"
        )
        == before
    )


@needs_browser
def test_toggles_change_what_is_drawn(opened: Page) -> None:
    def names(chart: str) -> list[str]:
        return opened.evaluate(
            f"[...new Set(byId('{chart}').data.map((trace) => trace.name))].sort()"
        )

    assert "md" in names("loss-chart")
    rows = opened.evaluate("document.querySelectorAll('#solver-table tbody tr').length")
    opened.choose("#methods input[value=md]", False)
    for chart in ("loss-chart", "counts-chart", "variance-chart"):
        assert "md" not in names(chart)
    assert opened.evaluate("document.querySelectorAll('#solver-table tbody tr').length") == rows - 1
    opened.choose("#methods input[value=md]", True)
    assert "md" in names("loss-chart")
    opened.choose("#metric", "test_accuracy")
    assert opened.evaluate("byId('loss-chart').layout.yaxis.title.text") == "test accuracy"
    opened.choose("#logarithmic", True)
    assert opened.evaluate("byId('loss-chart').layout.yaxis.type") == "log"
    opened.choose("#shares", True)
    assert opened.evaluate("byId('partition-chart').layout.yaxis.title.text") == "share"
    before = opened.text("#map-note")
    opened.choose("#map-show", "selected")
    assert opened.text("#map-note") != before


@needs_browser
def test_the_table_of_methods_fits_a_wide_window(opened: Page) -> None:
    assert opened.evaluate(
        "[...document.querySelectorAll('.result .wide')]"
        ".every((it) => it.scrollWidth <= it.clientWidth)"
    )


def contrast(first: Sequence[float], second: Sequence[float]) -> float:
    """The contrast of two colours by WCAG 2: from 1 to 21."""

    def luminance(rgb: Sequence[float]) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
                  for c in (value / 255 for value in rgb)]  # fmt: skip
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def colour(page: Page, expression: str) -> list[int]:
    """The numbers of red, green and blue of a CSS colour."""
    text = page.evaluate(
        "((made) => { made.style.color = " + expression + "; document.body.append(made);"
        "const text = getComputedStyle(made).color; made.remove(); return text; })"
        "(document.createElement('i'))"
    )
    return [int(value) for value in re.findall(r"\d+", text)[:3]]


CHARTS = ("loss-chart", "map-chart", "counts-chart", "partition-chart", "variance-chart")


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_lines_have_contrast_in_light_and_dark(opened: Page, scheme: str) -> None:
    opened.scheme(scheme)
    for chart in CHARTS:
        opened.wait(f"byId('{chart}').layout.paper_bgcolor === shade('page')")
    page = colour(opened, "getComputedStyle(document.body).backgroundColor")
    assert (sum(page) < 200) is (scheme == "dark")
    for selector in ("h1", "#summary", ".about", ".legend", "nav a", "td", "select", "#map-note"):
        text = colour(opened, f"getComputedStyle(document.querySelector('{selector}')).color")
        assert contrast(page, text) >= 4.5, selector
    lines = opened.evaluate("byId('variance-chart').data.map((trace) => trace.line.color)")
    assert len(set(lines)) == len(lines) >= 4
    for line in lines:
        least = 3.5 if scheme == "dark" else 2.0
        assert contrast(page, colour(opened, f"'{line}'")) >= least, line
    swatches = opened.evaluate(
        "[...document.querySelectorAll('#methods .swatch')].map((it) => it.style.background)"
    )
    assert [colour(opened, f"'{one}'") for one in swatches] == [
        colour(opened, f"colourOf('{label}')")
        for label in opened.texts("#methods label")
        for label in [label.strip()]
    ]
    assert opened.complaints == []


@needs_browser
def test_a_table_that_is_cut_off_says_so(opened: Page) -> None:
    shown = (
        "[...document.querySelectorAll('.hint')].filter((it) => it.offsetParent !== null).length"
    )
    # The solver's table has a long failure; at 400 pixels those of the group and all modes are cut.
    for width, cut in ((1400, 1), (400, 3), (1400, 1)):
        opened.resize(width)
        opened.wait(f"{shown} === {cut}")


@needs_browser
def test_the_count_variance_has_a_logarithmic_axis(opened: Page) -> None:
    kind = "byId('variance-chart').layout.yaxis.type"
    assert opened.evaluate(kind) == "linear"
    opened.choose("#variance-logarithmic", True)
    assert opened.evaluate(kind) == "log"
    opened.choose("#variance-logarithmic", False)
    assert opened.evaluate(kind) == "linear"


@needs_browser
def test_the_means_over_the_modes_are_shown_with_every_mode(opened: Page) -> None:
    for group in ("0", "1"):
        opened.choose("#group", group)
        opened.wait("document.body.dataset.drawn === 'yes'")
        titles = opened.texts(".result:not([hidden]) h3")
        assert titles[1:] == ["Synthetic(0.5, 0.5), 30 clients, mean over 2 modes"]


def test_the_head_names_folder_dates_and_versions(study: Path) -> None:
    runs, problems = read_runs(study)
    at = datetime(2025, 3, 2, 10, 30, tzinfo=UTC)
    text = render_page(runs, problems, written=at)
    assert (
        f"Folder {study.name}; runs started 2024-05-01; runs by fedgs 0.1.0; "
        f"page written 2025-03-02 10:30 UTC by fedgs {fedgs.__version__}." in text
    )
    assert f"Page written by fedgs {fedgs.__version__}." in render_page([Run({"method": "md"}, ())])


@needs_browser
def test_another_mode_shows_its_own_table_and_runs(opened: Page) -> None:
    opened.choose("#group", "1")
    opened.wait("document.body.dataset.drawn === 'yes'")
    titles = opened.texts(".result:not([hidden]) h3")
    assert titles[0] == "Synthetic(0.5, 0.5), 30 clients, MDF 0.7"
    assert "17 of 40" in opened.text("#solver-table")
    assert 'name = "MDF"' in opened.text("#config")


@needs_browser
def test_problems_and_failures_are_shown_as_text(opened: Page) -> None:
    assert opened.evaluate("byId('problems').hidden") is False
    assert "<i>holiday: not a run's folder" in opened.text("#problems")
    assert "failed in round 3, client c004: ValueError: <b>no</b>" in opened.text("#solver-table")
    assert opened.text("#summary").startswith(
        "11 runs: 8 finished, 2 unfinished, 1 failed; 5 methods, 2 pairs"
    )


@needs_browser
def test_everything_can_be_reached_by_keyboard(opened: Page) -> None:
    opened.evaluate("document.body.focus()")
    reached = []
    for _ in range(60):
        opened.press("Tab", 9)
        reached.append(
            opened.evaluate(
                "(({id, value, tagName}) => id || value || tagName)(document.activeElement)"
            )
        )
    controls = opened.evaluate(
        "[...document.querySelectorAll('select, button, input:not(#methods input), pre')]"
        ".filter((it) => it.offsetParent !== null).map((it) => it.id)"
    )
    assert set(controls) <= set(reached)
    assert set(folders.MIXED_METHODS) <= set(reached)


@pytest.mark.long
@needs_browser
def test_small_beginnings_open_too(page: Page, tmp_path: Path) -> None:
    def begun(mode: object, records: Sequence[Record], clients: Clients | None) -> Run:
        return Run(
            {"method": {"name": "md"}, "availability": mode, "training": {"rounds": 4}},
            records,
            clients,
        )

    one_round = [Record(0, available=[0], cohort=[0])]
    runs = [
        begun("a: nothing yet", (), Clients(("a",), np.array([3]))),
        begun("b: no clients", one_round, None),
        begun("c: no labels, nothing evaluated", one_round, Clients((0, 1), np.array([3, 4]))),
    ]
    path = tmp_path / "report.html"
    path.write_text(render_page(runs), encoding="utf-8")
    page.complaints.clear()
    page.open(path, width=360)
    for group in ("0", "1", "2"):
        page.choose("#group", group)
        page.wait("document.body.dataset.drawn === 'yes'")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.text("#round-note") == "Round 0: 1 available (full colour), 1 selected (ring): 0."
    assert page.complaints == []


@needs_browser
def test_of_equal_lines_each_is_visible(page: Page, tmp_path: Path) -> None:
    def made(method: str) -> Run:
        records = [Record(t, cohort=[], test_loss=1 / (t + 1)) for t in range(3)]
        return Run({"method": {"name": method}, "training": {"rounds": 2}}, records)

    path = tmp_path / "report.html"
    path.write_text(render_page([made(name) for name in ("md", "uniform", "fedgs")]))
    page.open(path)
    widths = page.evaluate("byId('loss-chart').data.map((trace) => trace.line.width)")
    assert widths == sorted(widths, reverse=True) and len(set(widths)) == 3


@pytest.mark.long
@needs_browser
def test_very_many_clients_are_drawn_as_tenths(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedgs.report.page_data.MOST_ROWS", 20)
    folders.write_run(tmp_path, "uniform", 0)
    path = tmp_path / "report.html"
    path.write_text(render_page(*read_runs(tmp_path)), encoding="utf-8")
    page.complaints.clear()
    page.open(path)
    assert page.complaints == []
    text = page.evaluate("document.body.textContent")
    assert "a row is a tenth of the clients by data size" in text
    assert "Each dot is the mean of a tenth of the clients by data size." in text
    assert "shown as tenths, and their graph is not drawn" in text
    assert page.evaluate("byId('map-chart').data[0].z.length") == 10
