import pytest
from tests.report.material import cell, course, run

from fedgs.errors import ConfigError
from fedgs.report.run_view import Run
from fedgs.report.tables import comparison
from fedgs.report.targets import Target, rounds_to

TITLE = "rounds to test loss .500"


def test_a_run_reaches_a_target_at_the_first_of_two_evaluations() -> None:
    assert rounds_to(course(0.9, 0.4, 0.6, 0.5, 0.3), Target(0.5)) == 3
    assert rounds_to(course(0.9, 0.4, 0.6, 0.5), Target(0.5)) is None
    accuracies = [0.1, 0.8, 0.9, 0.7]
    climbing = course(1, 1, 1, 1, accuracies=accuracies)
    assert rounds_to(climbing, Target(0.8, "test_accuracy")) == 1


def shown(*runs: Run) -> list[str]:
    table = comparison(runs, target=Target(0.5))
    return [cell(table, label, TITLE).text for label in ("md", "uniform")]


def test_seeds_that_do_not_reach_the_target_count_as_later_than_every_round() -> None:
    early = course(0.9, 0.4, 0.4, 0.4, seed=0)  # round 1
    late = course(0.9, 0.9, 0.4, 0.4, seed=1)  # round 2
    never = course(0.9, 0.9, 0.9, 0.4, seed=2)
    other = course(0.4, 0.4, 0.4, 0.4, method="uniform")  # round 0
    # The median of 1, 2 and infinity is 2, of 1 and 2 it is 1.5, of 1 and infinity unknown.
    assert shown(early, late, never, other) == ["2 (2/3)", "0 (1/1)"]
    assert shown(early, late, other)[0] == "1.5 (2/2)"
    assert shown(early, never, other)[0] == "> 3 (1/2)"
    table = comparison([early, late, never, other], target=Target(0.5))
    assert cell(table, "md", TITLE).values == (0.5, 2.0, 2, 3)
    assert cell(table, "md", TITLE).mark == "" and cell(table, "uniform", TITLE).mark == "best"
    table = comparison([early, never, other], target=Target(0.5))
    assert cell(table, "md", TITLE).values == (0.5, None, 1, 2)


def test_failed_runs_and_means_over_modes_have_no_rounds_to_a_target() -> None:
    failed = run("md", 0, 0.1, failure={"round": 1, "error": "no"})
    assert shown(failed, course(0.9, 0.4, method="uniform")) == ["–", "> 1 (0/1)"]
    modes = [run("md", 0, 0.1, group="LDF"), run("md", 0, 0.1, group="MDF")]
    table = comparison(modes, target=Target(10.0))
    assert [row[-1].text for row in table.rows] == ["0 (1/1)", "0 (1/1)", "–"]


def test_a_target_without_a_figure_or_a_number_is_refused() -> None:
    with pytest.raises(ConfigError, match="the figure of a target must be .* got 'loss'"):
        Target(0.5, "loss")
    with pytest.raises(ConfigError, match="a target must be a finite number, got nan"):
        Target(float("nan"))
