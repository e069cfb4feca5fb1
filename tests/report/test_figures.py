from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from tests.report import folders
from tests.report.material import run_of

from fedgs.clients import Clients
from fedgs.errors import ConfigError, OutputError
from fedgs.records import Record
from fedgs.report.figures import (
    active_states,
    client_graph,
    loss_curves,
    participation_map,
    partition,
    rates_map,
    sampling_counts,
    save_figure,
)
from fedgs.report.history import participation
from fedgs.report.reading import read_runs
from fedgs.report.run_view import Run


def test_loss_curves_show_the_mean_over_seeds(study: list[Run]) -> None:
    axes = loss_curves(study).axes[0]
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert set(lines) == set(folders.LEVEL)
    of_round_five = [run.records[5].test_loss for run in study if run.label == "md"]
    assert lines["md"].get_xydata()[1] == pytest.approx([5, np.mean(of_round_five)])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("round", "test loss")


def test_sampling_counts_are_sorted_and_add_up(study: list[Run]) -> None:
    steps = {
        patch.get_label(): patch.get_data().values
        for patch in sampling_counts(study).axes[0].patches
    }
    history = [participation(run) for run in study if run.label == "fedgs"]
    assert steps["fedgs"].sum() == pytest.approx(np.mean([h.selected.sum() for h in history]))
    assert (np.diff(steps["fedgs"]) <= 0).all()


def test_the_map_shows_unavailable_available_and_selected_clients(study: list[Run]) -> None:
    run = run_of(study, "fedgs")
    shown = participation_map(run).axes[0].get_images()[0].get_array()
    history = participation(run)
    assert shown.shape == (30, 20)
    assert (shown == 2).sum() == history.selected.sum()
    assert (shown >= 1).sum() == history.available.sum()


def test_a_map_needs_the_clients() -> None:
    with pytest.raises(OutputError, match=r"has no readable clients\.npz"):
        participation_map(Run({"method": "md"}, ()))


def test_partition_bars_have_the_sizes_of_the_clients() -> None:
    counts = np.array([[3, 0], [1, 7]])
    bars = partition(counts).axes[0].patches
    assert sorted(bar.get_width() for bar in bars) == [0, 1, 3, 7]
    assert max(bar.get_x() + bar.get_width() for bar in bars) == 8


def test_rates_and_states_have_units_and_panels() -> None:
    figure = rates_map(np.linspace(0, 1, 12).reshape(3, 4))
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "client",
        "probability of being available",
    ]
    panels = active_states([(name, np.ones((3, 4), dtype=bool)) for name in ("IDL", "LDF", "MDF")])
    assert [axes.get_title() for axes in panels.axes if axes.get_visible()] == ["IDL", "LDF", "MDF"]


def grouped(tmp_path: Path, **options: Any) -> list[Run]:
    """Two methods, two seeds, under two modes."""
    for mode in ("LDF", "MDF"):
        folders.write_study(
            tmp_path,
            methods=("uniform", "fedgs"),
            seeds=2,
            rounds=20,
            availability__name=mode,
            **options,
        )
    return read_runs(tmp_path)[0]


@pytest.mark.parametrize("make", [loss_curves, sampling_counts])
def test_runs_of_several_modes_get_a_panel_each_and_one_legend(
    make: Callable[..., Figure], tmp_path: Path
) -> None:
    runs = grouped(tmp_path)
    figure = make(runs)
    assert [axes.get_title() for axes in figure.axes] == ["LDF 0.7", "MDF 0.7"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["fedgs", "uniform"]
    assert len(make([run for run in runs if run.group[1] == "LDF 0.7"]).axes) == 1


def test_a_panel_is_the_mean_of_its_own_mode(tmp_path: Path) -> None:
    runs = grouped(tmp_path)
    for axes, mode in zip(loss_curves(runs).axes, ("LDF 0.7", "MDF 0.7"), strict=True):
        own = [
            run.records[5].test_loss for run in runs if (run.label, run.group[1]) == ("fedgs", mode)
        ]
        line = next(line for line in axes.get_lines() if line.get_label() == "fedgs")
        assert line.get_xydata()[1] == pytest.approx([5, np.mean(own)])


def test_many_groups_stand_in_two_columns() -> None:
    runs = [
        Run(
            {"method": "md", "availability": {"name": f"mode{n}"}},
            [Record(0, test_loss=2.0), Record(1, test_loss=1.0)],
        )
        for n in range(5)
    ]
    figure = loss_curves(runs)
    assert [axes.get_title() for axes in figure.axes if axes.get_visible()] == [
        f"mode{n}" for n in range(5)
    ]
    assert len({round(axes.get_position().x0, 3) for axes in figure.axes}) == 2


def evaluated(method: str, losses: Sequence[float], **options: Any) -> Run:
    records = [Record(t, test_loss=loss) for t, loss in enumerate(losses)]
    return Run({"method": {"name": method}, "seed": options.pop("seed", 0)}, records, **options)


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


BROKEN = {"round": 1, "client": None, "error": "broken"}


def test_a_failed_method_is_marked_and_one_without_a_value_is_not_in_the_legend() -> None:
    runs = [
        evaluated("uniform", [2.0, 1.9]),
        evaluated("md", [1.9], failure=BROKEN),
        evaluated("fedgs", [], failure=BROKEN),
    ]
    figure = loss_curves(runs)
    assert legend(figure) == ["md (failed)", "uniform"]
    (point,) = [line for line in figure.axes[0].get_lines() if line.get_label() == "md (failed)"]
    assert point.get_marker() not in ("", "None")  # one point alone has no line


def test_a_failed_method_outside_the_range_is_not_in_the_legend_and_does_not_widen_it() -> None:
    good = evaluated("uniform", [9.0, 1.0, 0.9, 0.8, 0.7])
    figure = loss_curves([good, evaluated("md", [9.0], failure=BROKEN)])
    assert legend(figure) == ["uniform"]
    assert figure.axes[0].get_ylim() == loss_curves(good).axes[0].get_ylim()


def test_failed_runs_alone_are_drawn() -> None:
    assert legend(loss_curves(evaluated("md", [9.0, 8.0], failure=BROKEN))) == ["md (failed)"]


def test_a_failed_seed_is_left_out_of_the_mean() -> None:
    figure = loss_curves(
        [evaluated("md", [2.0, 1.0]), evaluated("md", [9.0], seed=1, failure=BROKEN)]
    )
    assert legend(figure) == ["md"]
    assert figure.axes[0].get_lines()[0].get_ydata().tolist() == [2.0, 1.0]


def test_bands_are_whole_behind_the_steep_beginning() -> None:
    runs = [
        evaluated("md", [9.0, 1.0, 1.0, 1.0 + gap], seed=seed)
        for seed, gap in enumerate((0.0, 4.0))
    ]
    axes = loss_curves(runs).axes[0]
    low, high = axes.get_ylim()
    # the last mean is 3, its standard deviation 4 / sqrt 2 = 2.83: the band is .17 to 5.83
    assert low < 3 - 4 / np.sqrt(2) and high > 3 + 4 / np.sqrt(2)
    assert high < 9


def test_two_runs_of_one_label_and_seed_are_no_two_seeds(caplog: pytest.LogCaptureFixture) -> None:
    runs = [
        Run(
            {**evaluated("md", []).config, "run": {"started": day, "fingerprint": day}},
            evaluated("md", losses).records,
        )
        for day, losses in (("2024-05-01", [2.0, 1.0]), ("2024-05-02", [2.0, 0.5]))
    ]
    assert loss_curves(runs).axes[0].get_lines()[0].get_ydata().tolist() == [2.0, 0.5]
    assert "md: 1 run is left out" in caplog.text


ONE_RUN = [participation_map, partition, client_graph, rates_map]


RUNS = [loss_curves, sampling_counts, active_states]


@pytest.mark.parametrize("make", [*ONE_RUN, *RUNS], ids=lambda make: make.__name__)
def test_every_function_takes_a_run_of_a_folder(
    make: Callable[..., Figure], study: list[Run], tmp_path: Path
) -> None:
    run = run_of(study, "fedgs")
    for given in (run, [run], (run,)):
        paths = save_figure(make(given), str(tmp_path / make.__name__))
        assert [path.suffix for path in paths] == [".pdf", ".png"]


@pytest.mark.parametrize("make", RUNS, ids=lambda make: make.__name__)
def test_functions_of_runs_take_all_of_a_folder_and_the_results_of_compare(
    make: Callable[..., Figure], study: list[Run]
) -> None:
    from fedgs.experiments.study import Results

    assert make(study).axes
    assert make(iter(study)).axes
    assert make(Results(study)).axes


@pytest.mark.parametrize(
    "given", [None, 3, "fedgs-runs", [None], ([], []), {"a": 1}, np.zeros(3), []], ids=repr
)
@pytest.mark.parametrize("make", [*ONE_RUN, *RUNS], ids=lambda make: make.__name__)
def test_other_arguments_are_refused_with_what_is_expected(
    make: Callable[..., Figure], given: object
) -> None:
    with pytest.raises(ConfigError, match=f"^{make.__name__} takes "):
        make(given)


@pytest.mark.parametrize(
    "make", [participation_map, client_graph, rates_map], ids=lambda make: make.__name__
)
def test_a_function_of_one_run_says_so_when_it_is_given_several(
    make: Callable[..., Figure], study: list[Run]
) -> None:
    with pytest.raises(
        ConfigError, match=rf"^{make.__name__} takes one run, such as runs\[0\]; got 10 runs"
    ):
        make(study)


@pytest.mark.parametrize("make", [*ONE_RUN, *RUNS], ids=lambda make: make.__name__)
def test_the_pair_that_read_runs_returns_is_refused(
    make: Callable[..., Figure], study: list[Run]
) -> None:
    with pytest.raises(ConfigError, match=f"^{make.__name__} takes "):
        make((study, []))


def test_partition_takes_clients_and_runs_that_share_them(study: list[Run]) -> None:
    clients = study[0].clients
    wanted = [bar.get_width() for bar in partition(clients.label_counts).axes[0].patches]
    for given in (clients, study, clients.label_counts.tolist()):
        assert [bar.get_width() for bar in partition(given).axes[0].patches] == wanted
    with pytest.raises(ConfigError, match="label_names must be 10 names, one a label; got 1"):
        partition(clients, label_names=["cat"])


def test_partition_refuses_runs_of_different_clients(tmp_path: Path, study: list[Run]) -> None:
    folders.write_run(tmp_path, "md", 0, clients=folders.make_clients(4))
    (other,) = read_runs(tmp_path)[0]
    with pytest.raises(
        ConfigError, match=r"these 2 runs have different clients: give one run, such as runs\[0\]"
    ):
        partition([study[0], other])


def test_rates_of_a_run_are_those_of_its_mode(study: list[Run]) -> None:
    run = run_of(study, "fedgs")
    shown = rates_map(run).axes[0].get_images()[0].get_array()
    sizes = run.clients.data_sizes
    # less data first: p_k = (min n / n_k) ** beta in every round
    assert np.allclose(shown, np.tile(((sizes.min() / sizes) ** 0.7)[:, None], (1, 20)))


def test_rates_of_a_mode_that_is_not_known_here_are_refused(study: list[Run]) -> None:
    run = run_of(study, "fedgs")
    strange = Run({**run.config, "availability": {"name": "deployment"}}, run.records, run.clients)
    with pytest.raises(
        OutputError,
        match=r"^rates_map: the rates of \w+ cannot be computed: availability\.name must be one of",
    ):
        rates_map(strange)


def test_panels_need_a_column(study: list[Run]) -> None:
    with pytest.raises(ConfigError, match="columns must be an integer of at least 1; got 0"):
        active_states(study, columns=0)


def test_rates_out_of_range_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"rates in \[0, 1\].*got 2"):
        rates_map(np.full((3, 3), 2.0))


def test_a_figure_that_no_run_has_is_refused_with_an_available_one() -> None:
    runs = [Run({"method": "md"}, [Record(0, valid_loss=1.0), Record(1, valid_loss=0.5)])]
    with pytest.raises(
        OutputError, match="no run has a test loss to draw; there is figure='valid_loss'"
    ):
        loss_curves(runs)
    assert loss_curves(runs, figure="valid_loss").axes[0].get_ylabel() == "validation loss"
    with pytest.raises(
        ConfigError,
        match="figure must be one of 'test_loss', 'valid_loss', 'test_accuracy'; got 'loss'",
    ):
        loss_curves(runs, figure="loss")


def test_an_empty_cohort_is_drawn_as_available_only() -> None:
    clients = folders.make_clients(3)
    names = list(clients.names)
    records = [
        Record(0, available=names, cohort=[], selection_status="empty"),
        Record(1, available=names, cohort=names[:1]),
        Record(2),
    ]
    shown = (
        participation_map(Run({"method": "md"}, records, clients))
        .axes[0]
        .get_images()[0]
        .get_array()
    )
    assert sorted(shown[:, 0].tolist()) == [1, 1, 1]
    assert sorted(shown[:, 1].tolist()) == [1, 1, 2]


def test_ticks_are_whole_clients_and_rounds(tmp_path: Path) -> None:
    clients = folders.make_clients(3)
    records = [Record(t, available=list(clients.names), cohort=[]) for t in range(2)]
    axes = participation_map(Run({"method": "md"}, records, clients)).axes[0]
    for axis in (axes.xaxis, axes.yaxis):
        assert all(float(tick).is_integer() for tick in axis.get_ticklocs())


def test_runs_without_clients_have_no_counts() -> None:
    with pytest.raises(OutputError, match=r"no run has a readable clients\.npz, so no counts"):
        sampling_counts(evaluated("md", [1.0]))


def test_a_run_that_has_only_begun_has_no_map() -> None:
    begun = Run({"method": "md"}, (), folders.make_clients(3))
    with pytest.raises(OutputError, match="has no round yet that could be drawn"):
        participation_map(begun)


@pytest.mark.parametrize(("labels", "legends"), [(20, 1), (21, 0)])
def test_partitions_of_more_than_twenty_labels_have_no_legend(labels: int, legends: int) -> None:
    assert len(partition(np.ones((2, labels), int)).legends) == legends


def test_active_clients_are_sorted_and_no_place_of_the_grid_is_empty() -> None:
    rng = np.random.default_rng(0)
    activity = rng.random((20, 30)) < rng.random((20, 1))
    for count in (1, 2, 3, 5, 7):
        figure = active_states([(str(number), activity) for number in range(count)])
        for axes in figure.axes:
            shown = axes.get_images()[0].get_array().sum(axis=1)
            assert (np.diff(shown) <= 0).all()
            assert sorted(shown) == sorted(activity.sum(axis=1))
        figure.draw_without_rendering()
        right = max(axes.get_position().x1 for axes in figure.axes)
        assert figure.axes[-1].get_position().x1 == pytest.approx(right)


def test_axes_of_a_small_panel_have_several_whole_ticks() -> None:
    figure = active_states([(str(number), np.ones((100, 200), dtype=bool)) for number in range(8)])
    figure.draw_without_rendering()
    for axes in figure.axes:
        for axis, most in ((axes.xaxis, 199.5), (axes.yaxis, 99.5)):
            ticks = [tick for tick in axis.get_ticklocs() if -0.5 <= tick <= most]
            assert len(ticks) >= 3 and all(tick == int(tick) for tick in ticks)


def test_equal_clients_are_not_said_to_be_sorted_by_size() -> None:
    clients = Clients(("a", "b"), np.array([4, 4]), np.array([[4, 0], [2, 2]]))
    run = Run({"method": "md"}, [Record(0, available=["a"], cohort=["a"]), Record(1)], clients)
    assert partition(clients).axes[0].get_ylabel() == "clients"
    assert participation_map(run).axes[0].get_ylabel() == "clients"
    assert partition(np.array([[4, 0], [2, 3]])).axes[0].get_ylabel() == "clients, most data on top"


def test_the_longest_bar_ends_before_the_edge() -> None:
    axes = partition(np.array([[3, 0], [1, 7]])).axes[0]
    assert axes.get_xlim()[0] == 0 and 8 < axes.get_xlim()[1] < 9


def test_of_equal_curves_each_is_visible() -> None:
    def runs(*names: str, loss: float) -> list[Run]:
        records = [Record(t, cohort=[1], test_loss=loss / (t + 1)) for t in range(4)]
        return [Run({"method": {"name": name}}, records) for name in names]

    axes = loss_curves([*runs("md", "uniform", "fedprox", loss=1), *runs("fedgs", loss=2)]).axes[0]
    widths = {line.get_label(): line.get_linewidth() for line in axes.get_lines()}
    order = [line.get_label() for line in axes.get_lines()]
    equal = [widths[label] for label in order if label != "fedgs"]
    assert equal == sorted(equal, reverse=True) and len(set(equal)) == 3
    assert widths["fedgs"] == min(equal)
