import math

import numpy as np
import pytest
from scipy import stats
from tests.report.material import cell, course, deployment, first_column, run, shown

from fedgs.errors import OutputError
from fedgs.records import Record
from fedgs.report.run_view import Run
from fedgs.report.tables import ALL_FIGURES, comparison


def test_rows_are_sorted_by_mean_test_loss_with_mean_and_spread(three_seeds: list[Run]) -> None:
    table = comparison(three_seeds)
    assert first_column(table) == ["fedgs", "md", "uniform"]
    # (.32 + .335 + .335) / 3 = .33; deviations -.01, .005, .005: variance 1.5e-4 / 2, sd .00866
    assert cell(table, "fedgs", "lowest test loss").text == ".330 ± .009"
    assert cell(table, "fedgs", "lowest test loss").values == pytest.approx(
        (0.33, math.sqrt(1.5e-4 / 2), 3)
    )


def test_difference_is_paired_by_seed_with_a_t_interval(three_seeds: list[Run]) -> None:
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


def test_best_and_second_best_are_marked_by_mean(three_seeds: list[Run]) -> None:
    table = comparison(three_seeds, figures=ALL_FIGURES)
    assert [row[1].mark for row in table.rows] == ["best", "second", ""]
    assert cell(table, "fedgs", "best accuracy").mark == "best"
    assert cell(table, "md", "best accuracy").mark == "second"
    assert cell(table, "fedgs", "count variance").mark == ""


def test_only_common_seeds_are_compared() -> None:
    runs = [
        run("uniform", 0, 0.5),
        run("uniform", 1, 0.9),
        run("fedgs", 1, 0.8),
        run("fedgs", 2, 0.1),
    ]
    shown = cell(comparison(runs), "fedgs", "vs uniform [95 %]")
    assert shown.values == ("uniform", pytest.approx(-0.1), None, None, 1)


def test_groups_are_separate_blocks_and_a_missing_reference_is_said() -> None:
    table = comparison([run("uniform", 0, 0.4, group="LDF"), run("md", 0, 0.4, group="MDF")])
    assert [block.title for block in table.blocks] == ["toy, LDF", "toy, MDF"]
    assert "No run of uniform here: nothing to compare with." in table.blocks[1].notes


def test_an_unknown_reference_is_refused_with_the_known_ones(three_seeds: list[Run]) -> None:
    with pytest.raises(
        OutputError,
        match="against must be one of the methods 'fedgs', 'md', 'uniform'; got 'fedavg'",
    ):
        comparison(three_seeds, against="fedavg")


def test_without_uniform_there_is_no_difference_column() -> None:
    assert shown(comparison([run("md", 0, 0.3)])) == [
        "method",
        "lowest test loss",
        "last test loss",
        "count variance",
    ]


def test_a_run_without_evaluated_rounds_has_a_row_without_figures() -> None:
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


def test_the_same_records_in_any_order_give_the_same_text(three_seeds: list[Run]) -> None:
    there, back = comparison(three_seeds), comparison(reversed(three_seeds))
    for form in ("text", "markdown", "csv", "latex"):
        assert getattr(there, form)() == getattr(back, form)()


def test_the_last_loss_stands_beside_the_lowest() -> None:
    table = comparison([course(2.3, 0.4, 0.5), course(2.3, 0.2, 0.3, seed=1)])
    assert cell(table, "md", "lowest test loss").values[:1] == (pytest.approx(0.3),)
    assert cell(table, "md", "last test loss").values[:1] == (pytest.approx(0.4),)


def test_without_a_test_loss_methods_are_ranked_by_the_validation_loss() -> None:
    runs = [deployment("uniform", 2.0, 0.9, 0.95), deployment("fedgs", 2.0, 0.8, 0.85)]
    table = comparison(runs)
    assert first_column(table) == ["fedgs", "uniform"]
    assert shown(table)[1:4] == ["lowest valid. loss", "vs uniform [95 %]", "last valid. loss"]
    assert cell(table, "fedgs", "vs uniform [95 %]").text == "-.100"
    assert cell(table, "fedgs", "last valid. loss").text == ".850"
    assert table.title == "Methods by lowest validation loss, deployment, nodes on line"
    assert "ranked and compared by the validation loss" in " ".join(table.blocks[0].notes)


def test_a_deployment_beside_simulated_runs_keeps_its_own_figures() -> None:
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


def test_validation_losses_beside_test_losses_are_not_the_headline(three_seeds: list[Run]) -> None:
    with_valid = [run(method, 0, loss, valid=0.1) for method, loss in (("md", 0.4), ("fedgs", 0.3))]
    table = comparison(with_valid, figures=ALL_FIGURES)
    assert table.title.startswith("Methods by lowest test loss")
    assert "lowest valid. loss" not in shown(table)


def test_deployments_with_other_limits_are_two_rows() -> None:
    table = comparison(
        [deployment("fedgs", 2.0, 0.8, limit=2), deployment("fedgs", 2.0, 0.7, limit=3)]
    )
    assert first_column(table) == ["fedgs cohort_limit=3", "fedgs cohort_limit=2"]


def test_two_deployments_of_one_kind_are_two_rows() -> None:
    table = comparison(
        [
            deployment("fedgs", 2.0, 0.8, name="first"),
            deployment("fedgs", 2.0, 0.7, 0.6, name="second"),
        ]
    )
    assert first_column(table) == ["fedgs [second]", "fedgs [first]"]


def test_runs_under_one_label_of_ones_own_are_told_apart_by_their_settings() -> None:
    one, other = (
        course(2.0, 0.5, label="ours", training={"rounds": 1, "learning_rate": rate})
        for rate in (0.1, 0.2)
    )
    assert sorted(first_column(comparison([one, other]))) == [
        "ours learning_rate=0.1",
        "ours learning_rate=0.2",
    ]


def test_an_empty_cohort_is_a_round_like_any_other() -> None:
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


def test_a_reference_may_be_named_by_the_beginning_of_its_label() -> None:
    runs = [course(2.0, 0.5), course(2.0, 0.4, label="ours large"), course(2.0, 0.3, label="ours")]
    assert "vs ours large [95 %]" in shown(comparison(runs[:2], against="ours"))
    assert "vs ours [95 %]" in shown(comparison(runs, against="ours"))


def test_weights_are_shown_where_a_method_has_sums_other_than_1() -> None:
    def weighted(method: str, seed: int, *weights: list[float]) -> Run:
        made = run(method, seed, 0.3)
        records = [Record(t, cohort=["a", "b"], weights=w) for t, w in enumerate(weights)]
        return Run(made.config, [*records, Record(len(weights), test_loss=0.3)])

    normalised = [weighted("md", 0, [0.5, 0.5])]
    columns = ["largest weight", "lowest weight sum", "highest weight sum"]
    assert not set(columns) & set(shown(comparison(normalised, figures=ALL_FIGURES)))
    others = [weighted("all", 0, [1.5, 0.5], [0.1]), weighted("all", 1, [2.5, 0.5], [0.3])]
    table = comparison([*normalised, *others], figures=ALL_FIGURES)
    assert shown(table)[-3:] == columns
    assert [cell(table, "all", column).text for column in columns] == ["2.000", ".200", "2.500"]
    assert [cell(table, "md", column).text for column in columns] == ["–", "–", "–"]
    assert not set(columns) & set(shown(comparison(others)))  # the short table
    header = table.csv().splitlines()[0].split(",")
    assert "largest_weight_mean" in header and "lowest_weight_sum_mean" in header
