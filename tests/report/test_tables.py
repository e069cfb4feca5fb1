import csv
import io
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedgs.errors import OutputError
from fedgs.records import Record
from fedgs.report.run_view import Run
from fedgs.report.tables import ALL_FIGURES, comparison, number, paired_difference, signed


def run(method, seed, loss, *, rounds=1, done=True, failure=None, valid=None, group="LDF"):
    """A run of one round and its last record, with the loss in the last."""
    records = [Record(0, cohort=["a"], test_loss=9.0, test_accuracy=0.1)]
    if done:
        records.append(Record(1, test_loss=loss, test_accuracy=1 - loss, valid_loss=valid))
    config = {
        "method": {"name": method},
        "availability": {"name": group, "seed": seed},
        "training": {"rounds": rounds},
        "seed": seed,
        "run": {"data_title": "toy", "num_clients": 2},
    }
    return Run(config, records, failure=failure)


def first_column(table):
    return [row[0].text for row in table.rows]


def cell(table, label, column):
    position = [c.title for c in table.columns].index(column)
    return next(row for row in table.rows if row[0].text == label)[position]


@pytest.fixture
def three_seeds():
    losses = {
        "uniform": (0.35, 0.36, 0.37),
        "fedgs": (0.32, 0.335, 0.335),
        "md": (0.36, 0.34, 0.36),
    }
    return [
        run(method, seed, loss) for method, row in losses.items() for seed, loss in enumerate(row)
    ]


def test_rows_are_sorted_by_mean_test_loss_with_mean_and_spread(three_seeds):
    table = comparison(three_seeds)
    assert first_column(table) == ["fedgs", "md", "uniform"]
    # (.32 + .335 + .335) / 3 = .33; deviations -.01, .005, .005: variance 1.5e-4 / 2, sd .00866
    assert cell(table, "fedgs", "lowest test loss").text == ".330 ± .009"
    assert cell(table, "fedgs", "lowest test loss").values == pytest.approx(
        (0.33, math.sqrt(1.5e-4 / 2), 3)
    )


def test_difference_is_paired_by_seed_with_a_t_interval(three_seeds):
    shown = cell(comparison(three_seeds), "fedgs", "vs uniform [95 %]")
    gaps = np.array([0.32 - 0.35, 0.335 - 0.36, 0.335 - 0.37])
    low, high = stats.t.interval(0.95, 2, loc=gaps.mean(), scale=gaps.std(ddof=1) / math.sqrt(3))
    assert shown.values == (
        "uniform",
        pytest.approx(-0.03),
        pytest.approx(low),
        pytest.approx(high),
        3,
    )
    assert shown.text == "-.030 [-.042, -.018]"


def test_best_and_second_best_are_marked_by_mean(three_seeds):
    table = comparison(three_seeds, figures=ALL_FIGURES)
    assert [row[1].mark for row in table.rows] == ["best", "second", ""]
    assert cell(table, "fedgs", "best accuracy").mark == "best"
    assert cell(table, "md", "best accuracy").mark == "second"
    assert cell(table, "fedgs", "count variance").mark == ""


def test_equal_means_share_the_mark_and_are_named():
    table = comparison([run("md", 0, 0.3), run("fedgs", 0, 0.3), run("uniform", 0, 0.4)])
    assert [row[1].mark for row in table.rows] == ["best", "best", ""]
    assert (
        table.blocks[0].notes[0]
        == "fedgs and md have the same lowest mean. One seed: no spread and no interval."
    )


def test_a_difference_whose_interval_holds_zero_is_named_as_such(three_seeds):
    note = comparison(three_seeds).blocks[0].notes[0]
    # md - fedgs: .04, .005, .025; mean .0233, sd .0176, half width 4.303 * .0176 / sqrt 3 = .0436:
    # holds 0 uniform - fedgs: .03, .025, .035; mean .03, sd .005, half width .0124: does not
    assert note == (
        "fedgs has the lowest mean; the 95 % interval of its difference to md includes 0. "
        "Three seeds: read the intervals, not the third digit."
    )


def test_one_seed_has_no_spread_no_interval_and_says_so():
    table = comparison([run("fedgs", 0, 0.3), run("uniform", 0, 0.4)])
    assert cell(table, "fedgs", "lowest test loss").text == ".300"
    assert cell(table, "fedgs", "vs uniform [95 %]").text == "-.100"
    assert table.blocks[0].notes == ("fedgs is lowest. One seed: no spread and no interval.",)


def test_only_common_seeds_are_compared():
    runs = [
        run("uniform", 0, 0.5),
        run("uniform", 1, 0.9),
        run("fedgs", 1, 0.8),
        run("fedgs", 2, 0.1),
    ]
    shown = cell(comparison(runs), "fedgs", "vs uniform [95 %]")
    assert shown.values == ("uniform", pytest.approx(-0.1), None, None, 1)


def test_a_method_with_fewer_seeds_is_named(three_seeds):
    notes = comparison(three_seeds[:-1]).blocks[0].notes
    assert "Fewer than 3 seeds: md (2)." in notes


def test_a_method_without_any_figure_beside_single_seeds_is_named():
    failed = run("md", 0, 0.1, failure={"round": 0, "client": None, "error": "broken"})
    notes = comparison([run("fedgs", 0, 0.3), run("uniform", 0, 0.4), failed]).blocks[0].notes
    assert "Without a figure yet: md." in notes


def test_failed_runs_are_left_out_and_named(three_seeds):
    failed = run(
        "md", 3, 0.001, failure={"round": 7, "client": None, "error": "the update is not finite"}
    )
    table = comparison([*three_seeds, failed])
    assert cell(table, "md", "lowest test loss").values[2] == 3
    assert (
        "Failed and left out: md seed 3 in round 7: the update is not finite"
        in table.blocks[0].notes
    )


def test_unfinished_runs_count_and_are_named():
    table = comparison([run("fedgs", 0, 0.3, done=False), run("uniform", 0, 0.4)])
    assert cell(table, "fedgs", "lowest test loss").text == "9.000"
    assert table.blocks[0].notes[0].startswith("uniform is lowest so far.")
    assert "Unfinished: fedgs seed 0 (1 of 1 round)." in table.blocks[0].notes


def test_different_numbers_of_rounds_are_said():
    notes = (
        comparison([run("fedgs", 0, 0.3, rounds=1), run("md", 0, 0.3, rounds=50)]).blocks[0].notes
    )
    assert (
        "Runs have different numbers of rounds (1, 50): their figures are not comparable." in notes
    )


def test_groups_are_separate_blocks_and_a_missing_reference_is_said():
    table = comparison([run("uniform", 0, 0.4, group="LDF"), run("md", 0, 0.4, group="MDF")])
    assert [block.title for block in table.blocks] == ["toy, LDF", "toy, MDF"]
    assert "No run of uniform here: nothing to compare with." in table.blocks[1].notes


def test_an_unknown_reference_is_refused_with_the_known_ones(three_seeds):
    with pytest.raises(
        OutputError,
        match="against must be one of the methods 'fedgs', 'md', 'uniform'; got 'fedavg'",
    ):
        comparison(three_seeds, against="fedavg")


def shown(table):
    return [column.title for column in table.columns if column.shown]


def test_without_uniform_there_is_no_difference_column():
    assert shown(comparison([run("md", 0, 0.3)])) == [
        "method",
        "lowest test loss",
        "last test loss",
        "count variance",
    ]


def test_a_run_without_evaluated_rounds_has_a_row_without_figures():
    empty = Run(
        {
            "method": {"name": "md"},
            "training": {"rounds": 5},
            "run": {"data_title": "toy", "num_clients": 2},
        },
        (),
    )
    table = comparison([empty])
    assert [entry.text for entry in table.rows[0][:2]] == ["md", "–"]
    assert "Unfinished: md seed 0 (0 of 5 rounds)." in table.blocks[0].notes


def test_the_same_records_in_any_order_give_the_same_text(three_seeds):
    there, back = comparison(three_seeds), comparison(reversed(three_seeds))
    for form in ("text", "markdown", "csv", "latex"):
        assert getattr(there, form)() == getattr(back, form)()


def test_csv_holds_every_figure_at_full_precision(three_seeds):
    rows = list(csv.DictReader(io.StringIO(comparison(three_seeds).csv())))
    assert [row["method"] for row in rows] == ["fedgs", "md", "uniform"]
    assert float(rows[0]["test_loss_mean"]) == np.mean([0.32, 0.335, 0.335])
    assert float(rows[0]["final_accuracy_mean"]) == pytest.approx(0.67)
    assert rows[2]["difference_low"] == ""


def test_latex_escapes_and_marks(three_seeds):
    text = comparison([*three_seeds, run("power_of_choice", 0, 0.5)]).latex()
    assert r"power\_of\_choice" in text
    assert r"fedgs & \textbf{.330 $\pm$ .009} & $-$.030 [$-$.042, $-$.018]" in text
    assert r"md & \underline{.353 $\pm$ .012}" in text


def test_markdown_marks_and_says_what_marks_mean(three_seeds):
    text = comparison(three_seeds).markdown()
    assert "| fedgs | **.330 ± .009** | -.030 [-.042, -.018] |" in text
    assert "Bold: best, italics: second best of the column." in text


def test_text_keeps_digits_of_a_column_below_each_other(three_seeds):
    lines = str(comparison(three_seeds)).splitlines()
    assert {line.index("±") for line in lines if "±" in line} == {lines[1].index("±")}
    assert lines[1].startswith("fedgs ")
    assert ".330 ± .009*" in lines[1]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=2, max_size=6))
def test_paired_difference_changes_sign_when_the_methods_are_exchanged(pairs):
    first, second = dict(enumerate(a for a, _ in pairs)), dict(enumerate(b for _, b in pairs))
    there, back = paired_difference(first, second), paired_difference(second, first)
    assert there.mean == pytest.approx(-back.mean)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert there.low <= there.mean <= there.high


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0004, ".000"), (-0.0004, ".000"), (-0.5, "-.500"), (10.0, "10.000"), (0.9996, "1.000")],
)
def test_numbers_have_no_zero_before_the_point(value, text):
    assert number(value, 3) == text
    assert signed(value) == (text if value < 0 or text == ".000" else f"+{text}")


def course(*losses, method="md", seed=0, figure="test_loss", accuracies=None, **config):
    """A run that was evaluated in every round."""
    accuracies = accuracies or [None] * len(losses)
    records = [
        Record(
            t,
            cohort=["a"] if t < len(losses) - 1 else None,
            **{figure: loss},
            test_accuracy=accuracy,
        )
        for t, (loss, accuracy) in enumerate(zip(losses, accuracies, strict=True))
    ]
    tables = {
        "method": {"name": method},
        "training": {"rounds": len(losses) - 1},
        "seed": seed,
        **config,
    }
    return Run({**tables, "run": {"num_clients": 2, **config.get("run", {})}}, records)


def notes(*runs):
    return " ".join(note for block in comparison(runs).blocks for note in block.notes)


def test_the_last_loss_stands_beside_the_lowest():
    table = comparison([course(2.3, 0.4, 0.5), course(2.3, 0.2, 0.3, seed=1)])
    assert cell(table, "md", "lowest test loss").values[:1] == (pytest.approx(0.3),)
    assert cell(table, "md", "last test loss").values[:1] == (pytest.approx(0.4),)


def test_a_lowest_loss_of_the_untrained_model_is_said():
    untrained, trained = course(2.3, 1e9, 1e9), course(2.3, 1.0, 0.9, method="uniform")
    said = notes(untrained, trained, course(2.3, 2.2, 2.2, seed=1))
    assert "The lowest test loss is that of round 0, before any training: md (1 of 2 runs)." in said
    assert "far above" not in said
    assert "round 0" not in notes(trained)
    assert "round 0" not in notes(course(2.3))  # nothing else was evaluated yet


@pytest.mark.parametrize(
    ("losses", "risen"),
    [
        ((2.3, 0.4, 0.6), False),  # 1.5 times the lowest, and nearer to it than to round 0
        ((2.3, 0.4, 0.61), True),
        ((2.3, 1.9, 2.09), False),
        ((2.3, 1.9, 2.11), True),  # more than half of the way back to 2.3
        ((2.3, 0.4, float("inf")), True),
        ((2.3, 0.4, float("nan")), True),
        ((2.3, 0.4, 0.4), False),
        ((2.3, 0.001, 0.01), False),  # ten times the lowest, and both nearly 0
    ],
)
def test_a_last_loss_far_above_the_lowest_is_said(losses, risen):
    assert ("The last test loss is far above the lowest: md." in notes(course(*losses))) is risen


@pytest.mark.parametrize(
    ("losses", "accuracies", "guess"),
    [
        ((2.4, 2.31), None, True),  # ln 10 = 2.3026
        ((2.4, 2.285), None, True),  # within one per cent
        ((2.4, 2.27), None, False),
        ((2.4, 2.0), [0.1, 0.1], True),  # always the same label
        ((2.4, 2.0), [0.1, 0.2], False),
        ((2.4,), None, False),  # not trained yet
    ],
)
def test_a_model_that_guesses_is_said(losses, accuracies, guess):
    said = notes(course(*losses, accuracies=accuracies, run={"num_labels": 10}))
    assert ("No better than a guess among 10 labels (loss 2.303): md." in said) is guess


def test_where_the_number_of_labels_is_not_known_no_guess_is_said():
    assert "guess" not in notes(course(9.0, 8.0))


def deployment(method, *losses, limit=2, seed=0, name=None, started=None):
    """A run as a deployment writes it, without a test set."""
    about = {"engine": "flower"} if started is None else {"engine": "flower", "started": started}
    config = {
        "data": {"name": "deployment"},
        "availability": {"name": "deployment"},
        "method": {"name": method},
        "training": {"cohort_limit": limit},
        "seed": seed,
        "run": about,
    }
    records = [Record(t, cohort=["a-0"], valid_loss=loss) for t, loss in enumerate(losses)]
    return Run(config, records, path=None if name is None else Path("out") / name)


def test_without_a_test_loss_methods_are_ranked_by_the_validation_loss():
    runs = [deployment("uniform", 2.0, 0.9, 0.95), deployment("fedgs", 2.0, 0.8, 0.85)]
    table = comparison(runs)
    assert first_column(table) == ["fedgs", "uniform"]
    assert shown(table)[1:4] == ["lowest valid. loss", "vs uniform [95 %]", "last valid. loss"]
    assert cell(table, "fedgs", "vs uniform [95 %]").text == "-.100"
    assert cell(table, "fedgs", "last valid. loss").text == ".850"
    assert table.title == "Methods by lowest validation loss, deployment, nodes on line"
    assert "ranked and compared by the validation loss" in " ".join(table.blocks[0].notes)


def test_a_deployment_beside_simulated_runs_keeps_its_own_figures():
    table = comparison([deployment("uniform", 2.0, 0.9), course(2.0, 0.5)])
    assert len(table.blocks) == 2
    losses = [
        "lowest test loss",
        "vs uniform [95 %]",
        "last test loss",
        "lowest valid. loss",
        "last valid. loss",
    ]
    assert shown(table)[1:6] == losses
    assert cell(table, "uniform", "lowest valid. loss").text == ".900"
    assert cell(table, "uniform", "lowest test loss").text == "–"


def test_validation_losses_beside_test_losses_are_not_the_headline(three_seeds):
    with_valid = [run(method, 0, loss, valid=0.1) for method, loss in (("md", 0.4), ("fedgs", 0.3))]
    table = comparison(with_valid, figures=ALL_FIGURES)
    assert table.title.startswith("Methods by lowest test loss")
    assert "lowest valid. loss" not in shown(table)


def test_deployments_with_other_limits_are_two_rows():
    table = comparison(
        [deployment("fedgs", 2.0, 0.8, limit=2), deployment("fedgs", 2.0, 0.7, limit=3)]
    )
    assert first_column(table) == ["fedgs cohort_limit=3", "fedgs cohort_limit=2"]


def twin(name, started, loss=0.3, method="md", **changes):
    made = run(method, 0, loss, **changes)
    about = {**made.about, "started": started, "fingerprint": name}
    return Run(
        {**made.config, "run": about}, made.records, failure=made.failure, path=Path("out") / name
    )


@pytest.mark.parametrize("turned", [False, True])
def test_of_runs_with_one_label_and_seed_the_latest_is_shown_and_the_others_are_named(turned):
    runs = [
        twin("old", "2024-05-01T10:00:00+00:00", 0.3),
        twin("new", "2024-05-02T10:00:00+00:00", 0.4),
    ]
    table = comparison(reversed(runs) if turned else runs)
    assert cell(table, "md", "lowest test loss").values == (0.4, None, 1)
    said = "md: 1 run is left out, since a run that was started later has the same label and seed: old (shown: new)."
    assert said in table.blocks[0].notes


def test_a_failed_run_does_not_replace_one_that_did_not_fail():
    failure = {"round": 3, "client": None, "error": "broken"}
    runs = [
        twin("old", "2024-05-01", 0.3),
        twin("new", "2024-05-02", failure=failure),
        twin("newer", "2024-05-03", failure=failure),
    ]
    table = comparison(runs)
    assert cell(table, "md", "lowest test loss").values == (0.3, None, 1)
    said = (
        "md: 2 runs are left out, since another run has the same label and seed: "
        "new, failed (shown: old), newer, failed (shown: old)."
    )
    assert said in table.blocks[0].notes


def test_two_deployments_of_one_kind_are_two_rows():
    table = comparison(
        [
            deployment("fedgs", 2.0, 0.8, name="first"),
            deployment("fedgs", 2.0, 0.7, 0.6, name="second"),
        ]
    )
    assert first_column(table) == ["fedgs [second]", "fedgs [first]"]


def test_runs_under_one_label_of_ones_own_are_told_apart_by_their_settings():
    one, other = (
        course(2.0, 0.5, label="ours", training={"rounds": 1, "learning_rate": rate})
        for rate in (0.1, 0.2)
    )
    assert sorted(first_column(comparison([one, other]))) == [
        "ours learning_rate=0.1",
        "ours learning_rate=0.2",
    ]


def test_an_empty_cohort_is_a_round_like_any_other():
    records = [
        Record(0, available=["a", "b"], cohort=["a"], test_loss=2.0),
        Record(1, available=["a", "b"], cohort=[], weights=[], selection_status="empty"),
        Record(2, test_loss=1.0),
    ]
    table = comparison(
        [
            Run(
                {"method": {"name": "md"}, "training": {"rounds": 2}, "run": {"num_clients": 2}},
                records,
            )
        ]
    )
    assert cell(table, "md", "count variance").text == "0.5"  # counts 1 and 0
    assert "Unfinished" not in " ".join(table.blocks[0].notes)
