"""Table 1 on a small federation."""

from pathlib import Path

import numpy as np
import pytest
from tests.experiments.paper.helpers import carry_out, request_of, rows

from fedgs.experiments.paper.frame.conditions import Mode
from fedgs.experiments.paper.frame.experiment import Computed, ExperimentRecords
from fedgs.experiments.paper.frame.page import page
from fedgs.experiments.paper.table1_fig8 import autocorrelation, render_fig8, render_table1


def test_rates_and_activity_of_table1(toy_file: Path, tmp_path: Path) -> None:
    request = request_of("table1", toy_file, rounds=400)
    carry_out(request, tmp_path)
    table = {row["mode"]: row for row in rows(tmp_path / f"{request.stem}.csv")}
    assert list(table) == ["IDL", "LN 0.5", "SLN 0.5", "LDF 0.7", "MDF 0.7", "YMF 0.9", "YC 0.9"]
    assert float(table["IDL"]["measured"]) == 1.0 and table["IDL"]["rounds_below_limit"] == "0"
    sizes = np.array([9, 4, 7, 12, 5, 8])
    assert float(table["MDF 0.7"]["rate_mean"]) == pytest.approx(np.mean((sizes / 12) ** 0.7))
    # Seven normal deviates beyond 4 with odds of 1 in 2000 for a fixed seed: a bias of the draws
    # shows.
    assert all(abs(float(row["standard_errors"])) < 4 for row in table.values())


def test_table1_has_the_modes_that_are_requested(toy_file: Path, tmp_path: Path) -> None:
    request = request_of("table1", toy_file, modes=(Mode("LDF", 0.3),), rounds=20)
    outcome = carry_out(request, tmp_path)
    ((mode, *_),) = outcome.rendering.tables[""].rows
    assert mode.text == "LDF 0.3"


def test_a_mode_far_from_its_rates_is_named() -> None:
    arrays = {
        "cohort_limit": np.array(1),
        "IDL/active": np.zeros((2, 50), bool),
        "IDL/rates": np.full((2, 50), 0.5),
        "IDL/expected": np.full((2, 50), 0.5),
    }
    records = ExperimentRecords(
        computed={"synthetic": Computed(arrays, {"data_title": "Synthetic"})}
    )
    rendering = render_table1(request_of("table1", None, modes=(Mode("IDL"),)), records)
    assert rendering.verdict == [
        "Synthetic: more than 3 standard errors from what the rates give: IDL."
    ]


OTHERS = tuple(map(Mode, ("markov", "groups", "sine", "LDF")))


def test_modes_of_others_show_their_autocorrelation(toy_file: Path, tmp_path: Path) -> None:
    request = request_of("table1", toy_file, modes=OTHERS, rounds=2_000)
    outcome = carry_out(request, tmp_path)
    table = {row["mode"]: row for row in rows(tmp_path / f"{request.stem}.csv")}
    assert list(table) == ["markov", "groups", "sine", "LDF 0.7"]
    measured = {mode: float(row["autocorrelation"]) for mode, row in table.items()}
    # Standard error of a chain's: sqrt((1 - .81)/2,000/6) = .004, its bias about -(1 + 2.7)/2,000;
    # six standard errors.
    assert measured["markov"] == pytest.approx(0.9 - 0.002, abs=0.024)
    # A block of 4 in 20 rounds: (3/20 - 1/25)/(1/5 - 1/25) = .6875, but for the ends.
    assert measured["groups"] == pytest.approx(0.6875, abs=0.002)
    # Independent rounds: standard error 1/sqrt(12,000) = .009.
    assert abs(measured["LDF 0.7"]) < 0.055
    assert table["markov"]["standard_errors"] == table["groups"]["standard_errors"] == ""
    assert abs(float(table["sine"]["standard_errors"])) < 4
    assert outcome.rendering.verdict[0].endswith("rates give in all 2 modes without memory.")
    assert "| markov |" in page(tmp_path)[0]


def test_modes_with_memory_alone_have_no_standard_errors(toy_file: Path, tmp_path: Path) -> None:
    outcome = carry_out(request_of("table1", toy_file, modes=OTHERS[:2], rounds=20), tmp_path)
    assert outcome.rendering.verdict == [
        "toy: no standard errors, since rounds of these modes depend on each other."
    ]


def test_the_papers_modes_show_no_autocorrelation(toy_file: Path, tmp_path: Path) -> None:
    request = request_of("table1", toy_file, modes=OTHERS[3:], rounds=20)
    carry_out(request, tmp_path)
    assert "autocorrelation" not in rows(tmp_path / f"{request.stem}.csv")[0]
    figure = render_fig8(request, ExperimentRecords(computed={"toy": active("LDF 0.7")}))
    assert figure.verdict == [
        "Toy, LDF 0.7: 50 % of the clients are available on average, 1 to 1 in a round."
    ]


def test_a_figure_of_modes_of_others_names_their_autocorrelation(toy_file: Path) -> None:
    request = request_of("fig8", toy_file, modes=OTHERS[:1])
    figure = render_fig8(request, ExperimentRecords(computed={"toy": active("markov")}))
    # Two clients alternate for 20 rounds: 19 products of -1/4 over 20 squares of 1/4.
    assert figure.verdict == [
        "Toy, markov: 50 % of the clients are available on average, 1 to 1 in a round, with an "
        "autocorrelation of -.95."
    ]


def active(title: str) -> Computed:
    """Two clients that are available in turn."""
    turns = np.arange(20) % 2 == np.arange(2)[:, None]
    return Computed({f"{title}/active": turns}, {"data_title": "Toy"})


def test_autocorrelation_is_the_mean_over_clients_whose_state_changes() -> None:
    states = np.array([[1, 1, 0, 0], [1, 1, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0]], dtype=bool)
    # (.25 - .25 + .25)/1 and (-.25 - .25 - .25)/1
    assert autocorrelation(states) == pytest.approx((0.25 - 0.75) / 2)
    # (-.25 - .25)/1 and (.25 + .25)/1
    assert autocorrelation(states, 2) == pytest.approx(0.0)
    assert np.isnan(autocorrelation(states[1:2]))
