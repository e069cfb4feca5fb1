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


def rate(method: str, value: float, loss: float, seed: int = 0, **training: object) -> Run:
    settings = {"rounds": 1, "learning_rate": value, **training}
    return course(2.0, loss, method=method, seed=seed, training=settings)


def test_in_a_grid_each_method_is_compared_to_the_reference_with_its_own_settings() -> None:
    losses = {
        ("uniform", 0.1): 0.5,
        ("fedgs", 0.1): 0.4,
        ("uniform", 0.2): 0.9,
        ("fedgs", 0.2): 0.6,
    }
    runs = [rate(method, value, loss) for (method, value), loss in losses.items()]
    table = comparison([*runs, rate("md", 0.2, 0.7, mu=0.01)])  # fedprox: mu is of the method
    column = "vs uniform [95 %]"
    assert cell(table, "fedgs learning_rate=0.1", column).text == "-.100"
    assert cell(table, "fedgs learning_rate=0.2", column).text == "-.300"
    assert cell(table, "fedgs learning_rate=0.2", column).values[0] == "uniform learning_rate=0.2"
    assert cell(table, "fedprox", column).text == "-.200"
    assert cell(table, "uniform learning_rate=0.2", column).text == "–"
    assert "nothing to compare" not in " ".join(table.blocks[0].notes)


def test_a_reference_of_several_settings_can_be_named_by_its_beginning() -> None:
    runs = [rate(method, value, value) for method in ("md", "fedgs") for value in (0.1, 0.2)]
    table = comparison(runs, against="md")
    assert cell(table, "fedgs learning_rate=0.1", "vs md [95 %]").text == ".000"


def test_several_references_under_equal_conditions_are_no_reference() -> None:
    uniform = [
        course(2.0, 0.5, config_method={"name": "uniform", "weighting": weighting})
        for weighting in ("data_size", "equal")
    ]
    runs = [Run({**r.config, "method": r.config["config_method"]}, r.records) for r in uniform]
    assert not [title for title in shown(comparison([*runs, course(2.0, 0.4)])) if "vs" in title]


def test_a_reference_that_is_alone_has_no_column_of_dashes() -> None:
    table = comparison([run("uniform", 0, 0.3), run("uniform", 1, 0.4)])
    assert shown(table) == ["method", "lowest test loss", "last test loss", "count variance"]
    assert "difference_mean" not in table.csv()


def test_modes_of_one_data_set_have_a_block_of_means_over_the_modes() -> None:
    losses = {
        "uniform": {"IDL": (0.4, 0.6), "LDF": (0.8, 0.9)},
        "fedgs": {"IDL": (0.2, 0.5), "LDF": (0.4, 0.9)},
    }
    runs = [
        run(method, seed, loss, group=mode)
        for method, by_mode in losses.items()
        for mode, row in by_mode.items()
        for seed, loss in enumerate(row)
    ]
    table = comparison([*runs, run("md", 0, 0.1, group="IDL")])
    *_, over = table.blocks
    assert over.title == "toy, mean over 2 modes"
    assert [row[0].text for row in over.rows] == ["fedgs", "uniform"]  # md has one mode alone
    # fedgs: seed 0 (.2 + .4)/2 = .3, seed 1 (.5 + .9)/2 = .7; uniform .6 and .75
    assert over.rows[0][1].values == pytest.approx((0.5, np.std([0.3, 0.7], ddof=1), 2))
    assert over.rows[1][1].values[0] == pytest.approx(0.675)
    gap = over.rows[0][2].values
    assert gap[:2] == ("uniform", pytest.approx(-0.175)) and gap[4] == 2
    assert "Each figure is the mean over IDL and LDF." in over.notes


def test_a_seed_that_a_mode_lacks_is_not_in_the_mean_over_the_modes() -> None:
    runs = [run("md", seed, 0.4, group=mode) for mode, seed in (("IDL", 0), ("IDL", 1), ("LDF", 1))]
    assert comparison(runs).blocks[-1].rows[0][1].values == (pytest.approx(0.4), None, 1)


def test_data_sets_are_not_averaged_with_each_other() -> None:
    one, other = run("md", 0, 0.3), run("md", 0, 0.3)
    named = Run({**other.config, "run": {**other.about, "data_title": "other"}}, other.records)
    assert len(comparison([one, named]).blocks) == 2


def setting(alpha: float, loss: float, valid: float | None) -> Run:
    made = run("fedgs", 0, loss, valid=valid)
    return Run({**made.config, "method": {"name": "fedgs", "alpha": alpha}}, made.records)


def test_settings_of_one_method_are_ranked_by_the_validation_loss() -> None:
    table = comparison([setting(0.5, 0.3, 0.6), setting(2.0, 0.4, 0.5)])
    assert first_column(table) == ["fedgs alpha=2", "fedgs alpha=0.5"]
    assert shown(table)[1:4] == ["lowest valid. loss", "at best valid.", "lowest test loss"]
    assert cell(table, "fedgs alpha=2", "at best valid.").text == ".400"
    assert table.title.startswith("Methods by lowest validation loss")
    notes = " ".join(table.blocks[0].notes)
    assert notes.startswith("fedgs alpha=2 is lowest.")
    assert "settings of one method: methods are ranked and compared by the validation loss" in notes
    assert "at best valid.: test loss of the model with the lowest validation loss." in str(table)


def test_settings_without_validation_losses_are_ranked_by_the_test_loss() -> None:
    for valid in (None, 0.5):
        table = comparison([setting(0.5, 0.3, None), setting(2.0, 0.4, valid)])
        assert first_column(table) == ["fedgs alpha=0.5", "fedgs alpha=2"]


def test_different_methods_are_ranked_by_the_test_loss() -> None:
    table = comparison([run("md", 0, 0.3, valid=0.6), run("fedgs", 0, 0.4, valid=0.5)])
    assert first_column(table) == ["md", "fedgs"]
