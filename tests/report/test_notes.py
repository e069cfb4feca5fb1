from tests.report.material import cell, run

from fedgs.report.run_view import Run
from fedgs.report.tables import comparison


def test_equal_means_share_the_mark_and_are_named() -> None:
    table = comparison([run("md", 0, 0.3), run("fedgs", 0, 0.3), run("uniform", 0, 0.4)])
    assert [row[1].mark for row in table.rows] == ["best", "best", ""]
    assert (
        table.blocks[0].notes[0]
        == "fedgs and md have the same lowest mean. One seed: no spread and no interval."
    )


def test_a_difference_whose_interval_holds_zero_is_named_as_such(three_seeds: list[Run]) -> None:
    note = comparison(three_seeds).blocks[0].notes[0]
    # md - fedgs: .04, .005, .025; mean .0233, sd .0176, half width 4.303 * .0176 / sqrt 3 = .0436:
    # holds 0 uniform - fedgs: .03, .025, .035; mean .03, sd .005, half width .0124: does not
    assert note == (
        "fedgs has the lowest mean; the 95 % interval of its difference to md includes 0. "
        "Three seeds: read the intervals, not the third digit."
    )


def test_one_seed_has_no_spread_no_interval_and_says_so() -> None:
    table = comparison([run("fedgs", 0, 0.3), run("uniform", 0, 0.4)])
    assert cell(table, "fedgs", "lowest test loss").text == ".300"
    assert cell(table, "fedgs", "vs uniform [95 %]").text == "-.100"
    assert table.blocks[0].notes == ("fedgs is lowest. One seed: no spread and no interval.",)


def test_a_single_method_has_no_intervals_to_read(three_seeds: list[Run]) -> None:
    notes = comparison(three_seeds[3:6]).blocks[0].notes
    assert notes[0] == "Three seeds: ± is the standard deviation over them."


def test_a_method_with_fewer_seeds_is_named(three_seeds: list[Run]) -> None:
    notes = comparison(three_seeds[:-1]).blocks[0].notes
    assert "Fewer than 3 seeds: md (2)." in notes


def test_a_method_without_any_figure_beside_single_seeds_is_named() -> None:
    failed = run("md", 0, 0.1, failure={"round": 0, "client": None, "error": "broken"})
    notes = comparison([run("fedgs", 0, 0.3), run("uniform", 0, 0.4), failed]).blocks[0].notes
    assert "Without a figure yet: md." in notes


def test_failed_runs_are_left_out_and_named(three_seeds: list[Run]) -> None:
    failed = run(
        "md", 3, 0.001, failure={"round": 7, "client": None, "error": "the update is not finite"}
    )
    table = comparison([*three_seeds, failed])
    assert cell(table, "md", "lowest test loss").values[2] == 3
    assert (
        "Failed and left out: md seed 3 in round 7: the update is not finite"
        in table.blocks[0].notes
    )


def test_unfinished_runs_count_and_are_named() -> None:
    table = comparison([run("fedgs", 0, 0.3, done=False), run("uniform", 0, 0.4)])
    assert cell(table, "fedgs", "lowest test loss").text == "9.000"
    assert table.blocks[0].notes[0].startswith("uniform is lowest so far.")
    assert "Unfinished: fedgs seed 0 (1 of 1 round)." in table.blocks[0].notes


def test_different_numbers_of_rounds_are_said() -> None:
    notes = (
        comparison([run("fedgs", 0, 0.3, rounds=1), run("md", 0, 0.3, rounds=50)]).blocks[0].notes
    )
    assert (
        "Runs have different numbers of rounds (1, 50): their figures are not comparable." in notes
    )
