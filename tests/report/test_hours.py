"""Figures of time by hand: hours to a target, equal hours, curves, columns, and the page's axis."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.report.browser import CHROMIUM, browser
from tests.report.material import cell, shown

from fedgs.errors import ConfigError, OutputError
from fedgs.records import Record
from fedgs.report.figure_set import write_figures
from fedgs.report.figures import loss_curves
from fedgs.report.hours import at_hour, hours_to, time_curve, time_figures
from fedgs.report.labels import labelled
from fedgs.report.page import render_page
from fedgs.report.page_data import page_data
from fedgs.report.run_view import Run
from fedgs.report.tables import comparison
from fedgs.report.targets import Target


def timed(
    losses: Sequence[float | None], hours: Sequence[float], *, method: str = "md", seed: int = 0
) -> Run:
    """A run whose rounds begin at these hours; a of two clients answers in every round."""
    records = []
    for t, (loss, hour) in enumerate(zip(losses, hours, strict=True)):
        if t == len(losses) - 1:
            records.append(Record(t, test_loss=loss, clock=3600 * hour))
            continue
        seconds = 3600 * (hours[t + 1] - hour)
        records.append(
            Record(
                t,
                cohort=["a", "b"],
                weights=[1.0, 0.0],
                test_loss=loss,
                clock=3600 * hour,
                seconds=seconds,
                fates=["answered", "gone" if t else "late"],
                worked=[seconds / 2, seconds],
                traffic=500_000_000,
                ended="target",
            )
        )
    config = {
        "method": {"name": method},
        "training": {"rounds": len(losses) - 1},
        "seed": seed,
        "run": {"num_clients": 2},
    }
    return Run(config, records)


FAST = timed([0.9, 0.6, 0.4, 0.3], [0, 1, 2, 3])
SLOW = timed([0.9, 0.5, 0.35, 0.3], [0, 2, 4, 6], method="uniform")


def test_hours_to_a_target_are_the_clock_of_the_first_of_two_evaluations() -> None:
    assert hours_to(FAST, Target(0.5)) == 2.0
    assert hours_to(SLOW, Target(0.5)) == 2.0
    assert hours_to(FAST, Target(0.35)) is None  # one evaluation alone
    gaps = timed([0.9, None, 0.4, None, 0.4, 0.9], [0, 1, 2, 3, 4, 5])
    assert hours_to(gaps, Target(0.5)) == 2.0


def test_what_the_rounds_of_a_run_needed() -> None:
    figures = time_figures(FAST)
    assert (figures.seconds, figures.answered, figures.hours) == (3600, 0.5, 3.0)
    assert figures.lost_work == pytest.approx(2 / 3)
    assert figures.gigabytes == 1.5
    empty = [Record(0, cohort=[], fates=[], worked=[], clock=0.0, seconds=0.0, traffic=0)]
    nothing = time_figures(Run({}, empty))
    assert (nothing.seconds, nothing.answered, nothing.lost_work) == (None, None, None)


def test_the_figure_at_an_hour_is_that_of_the_last_evaluated_model() -> None:
    assert [at_hour(FAST, "test_loss", hour) for hour in (0, 0.9, 1, 2.5, 3)] == [
        0.9, 0.9, 0.6, 0.4, 0.3,
    ]  # fmt: skip
    assert at_hour(FAST, "test_loss", 3.1) is None and at_hour(FAST, "valid_loss", 1) is None


def test_a_curve_over_hours_has_the_mean_of_the_seeds_as_far_as_all_go() -> None:
    other = timed([0.7, 0.5, 0.1], [0, 1.5, 2.5], seed=1)
    drawn = time_curve([FAST, other])
    assert drawn.rounds.tolist() == [0, 1, 1.5, 2, 2.5]
    pairs = [(0.9, 0.7), (0.6, 0.7), (0.6, 0.5), (0.4, 0.5), (0.4, 0.1)]
    np.testing.assert_allclose(drawn.mean, np.mean(pairs, axis=1))
    np.testing.assert_allclose(drawn.spread, np.std(pairs, axis=1, ddof=1))
    assert drawn.seeds == 2 and len(time_curve([Run({}, [])]).rounds) == 0


def seeds(method: str, *ends: float, start: float = 0.0) -> list[Run]:
    """Runs that reach .5 at these hours after `start`; inf: not at all."""
    runs = []
    for seed, end in enumerate(ends):
        reached = 0.4 if end < 100 else 0.8
        hours = [0.0, min(end, 90.0) + start, 95.0, 100.0]
        runs.append(timed([0.9, reached, reached, reached], hours, method=method, seed=seed))
    return runs


HOURS, GAP = "hours to test loss .500", "hours vs uniform [95 %]"


def test_a_table_has_censored_medians_and_differences_where_all_reach_the_target() -> None:
    inf = float("inf")
    runs = [*seeds("md", 3, 5, inf), *seeds("uniform", 4, 7, 8), *seeds("fedgs", 1, 4, 6)]
    table = comparison(runs, target=Target(0.5))
    assert cell(table, "md", HOURS).text == "5 (2/3)"
    assert cell(table, "md", GAP).text == "–"
    assert cell(table, "uniform", HOURS).text == "7 (3/3)"
    assert cell(table, "fedgs", HOURS).text == "4 (3/3)" and cell(table, "fedgs", HOURS).mark
    # -3, -3 and -2: mean -8/3, sd .577, t(2) 4.303: half 1.434.
    assert cell(table, "fedgs", GAP).values[1:] == pytest.approx((-8 / 3, -4.101, -1.232, 3), 1e-3)
    late = comparison([*seeds("md", 3, inf), *seeds("uniform", 4, 7)], target=Target(0.5))
    assert cell(late, "md", HOURS).text == "> 100 (1/2)"
    assert cell(late, "md", HOURS).values == (0.5, None, 1, 2)
    at_once = timed([0.4, 0.4], [0, 1])  # it reaches the target at hour 0, and ends at hour 1
    late = comparison(
        [at_once, *seeds("md", inf, inf)[1:], *seeds("uniform", 4)], target=Target(0.5)
    )
    assert cell(late, "md", HOURS).text == "> 100 (1/2)"


def test_without_a_target_the_table_takes_one_that_all_methods_reach() -> None:
    table = comparison([FAST, SLOW], at_hours=[1, 2.5, 5])
    assert "hours to test loss .300" in shown(table)
    assert cell(table, "md", "a round").text == "3600 s"
    assert cell(table, "uniform", "a round").text == "7200 s"
    assert cell(table, "md", "answered").text == ".500"
    assert cell(table, "md", "lost work").text == ".667"
    assert cell(table, "md", "GB").text == "1.5"
    assert cell(table, "md", "test loss at 2.5 h").text == ".400"
    assert cell(table, "uniform", "test loss at 2.5 h").text == ".500"
    assert cell(table, "md", "test loss at 5 h").text == "–"  # it has ended
    assert "hours_to_target_median" in table.csv().splitlines()[0]


def test_rounds_without_answers_do_not_count_as_sums_of_weights() -> None:
    aborted = Record(0, cohort=["a"], weights=[0.0], fates=["late"], worked=[1.0], clock=0.0)
    good = Record(1, cohort=["a"], weights=[1.0], fates=["answered"], worked=[1.0], clock=1.0)
    run = Run({"method": {"name": "md"}}, [aborted, good, Record(2, test_loss=0.1, clock=2.0)])
    assert "largest weight" not in shown(comparison([run]))


def test_runs_without_a_clock_have_no_such_columns() -> None:
    records = [Record(0, cohort=["a"], test_loss=0.9), Record(1, test_loss=0.5)]
    table = comparison([Run({"method": {"name": "md"}}, records)], at_hours=[1])
    assert not [title for title in shown(table) if "hour" in title or title == "GB"]


def test_loss_by_hours_is_drawn_for_runs_with_a_clock(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    runs = labelled([FAST, SLOW])
    (axes,) = loss_curves(runs, over="hours").axes
    assert axes.get_xlabel() == "hours"
    assert [line.get_xdata().tolist() for line in axes.lines] == [[0, 1, 2, 3], [0, 2, 4, 6]]
    paths, _ = write_figures(runs, tmp_path)
    assert "loss-by-hours.png" in {path.name for path in paths}
    with pytest.raises(OutputError, match="no run has a clock and a test loss to draw"):
        loss_curves(Run({}, [Record(0, test_loss=0.5)]), over="hours")
    with pytest.raises(ConfigError, match="over must be 'rounds' or 'hours'; got 'days'"):
        loss_curves(runs, over="days")  # type: ignore[arg-type]


def test_the_page_has_curves_by_hours_where_runs_have_a_clock() -> None:
    (group,) = page_data(labelled([FAST, SLOW]), [])["groups"]  # type: ignore[misc]
    assert group["by_hours"]["test_loss"]["md"]["rounds"] == [0, 1, 2, 3]
    assert group["curves"]["test_loss"]["uniform"]["rounds"] == [0, 1, 2, 3]
    assert group["by_hours"]["test_loss"]["uniform"]["rounds"] == [0, 2, 4, 6]


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_the_axis_of_the_page_switches_between_rounds_and_hours(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    path = tmp_path / "report.html"
    path.write_text(render_page([FAST, SLOW]), encoding="utf-8")
    with browser(tmp_path / "profile") as page:
        page.open(path)
        page.wait("document.body.dataset.drawn === 'yes'")

        def axis() -> tuple[Any, Any]:
            title = page.evaluate("byId('loss-chart').layout.xaxis.title.text")
            return title, page.evaluate("byId('loss-chart').data.at(-1).x")

        assert axis() == ("round", [0, 1, 2, 3])
        page.choose("#over", "hours")
        assert axis() == ("hours", [0, 2, 4, 6])
        page.choose("#over", "rounds")
        assert axis() == ("round", [0, 1, 2, 3])
        assert page.complaints == []
