import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from tests.report import folders

from fedgs.errors import OutputError
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
from fedgs.report.history import binned, cohort_diversity, count_variances, curve, participation
from fedgs.report.labels import labelled
from fedgs.report.network import network, network_of_run
from fedgs.report.run import Run
from fedgs.report.runs import read_runs
from fedgs.report.style import label_colours, looks


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    out = folders.write_study(tmp_path_factory.mktemp("study"), seeds=2, rounds=20)
    return read_runs(out)[0]


def one(study, label):
    return next(run for run in study if run.label == label)


def test_loss_curves_show_the_mean_over_seeds(study):
    axes = loss_curves(study).axes[0]
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert set(lines) == set(folders.LEVEL)
    of_round_five = [run.records[5].test_loss for run in study if run.label == "md"]
    assert lines["md"].get_xydata()[1] == pytest.approx([5, np.mean(of_round_five)])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("round", "test loss")


def test_sampling_counts_are_sorted_and_add_up(study):
    steps = {patch.get_label(): patch.get_data().values for patch in sampling_counts(study).axes[0].patches}
    history = [participation(run) for run in study if run.label == "fedgs"]
    assert steps["fedgs"].sum() == pytest.approx(np.mean([h.selected.sum() for h in history]))
    assert (np.diff(steps["fedgs"]) <= 0).all()


def test_the_map_tells_away_available_and_selected(study):
    run = one(study, "fedgs")
    shown = participation_map(run).axes[0].get_images()[0].get_array()
    history = participation(run)
    assert shown.shape == (30, 20)
    assert (shown == 2).sum() == history.selected.sum()
    assert (shown >= 1).sum() == history.available.sum()


def test_a_map_needs_the_clients():
    with pytest.raises(OutputError, match=r"has no readable clients\.npz"):
        participation_map(Run({"method": "md"}, ()))


def test_partition_bars_have_the_sizes_of_the_clients():
    counts = np.array([[3, 0], [1, 7]])
    bars = partition(counts).axes[0].patches
    assert sorted(bar.get_width() for bar in bars) == [0, 1, 3, 7]
    assert max(bar.get_x() + bar.get_width() for bar in bars) == 8


def test_rates_and_states_have_units_and_panels():
    figure = rates_map(np.linspace(0, 1, 12).reshape(3, 4))
    assert [axes.get_ylabel() for axes in figure.axes] == ["client", "probability of being available"]
    panels = active_states([(name, np.ones((3, 4), dtype=bool)) for name in ("IDL", "LDF", "MDF")])
    assert [axes.get_title() for axes in panels.axes if axes.get_visible()] == ["IDL", "LDF", "MDF"]


def test_the_graph_draws_edges_pies_and_rings(study):
    run = one(study, "fedgs")
    drawn = network_of_run(run)
    history = participation(run)
    axes = client_graph(drawn, run.clients.label_counts, available=history.available[:, 0], cohort=history.selected[:, 0]).axes[0]
    (lines,) = [part for part in axes.collections if isinstance(part, LineCollection)]
    assert len(lines.get_segments()) == len(drawn.edges)
    pies = (run.clients.label_counts > 0).sum()
    assert len(axes.patches) == pies + history.selected[:, 0].sum()


def test_figures_are_the_same_files_each_time_and_leave_settings_alone(study, tmp_path):
    before = dict(mpl.rcParams)
    first = [path.read_bytes() for path in save_figure(loss_curves(study), tmp_path / "a" / "loss")]
    second = [path.read_bytes() for path in save_figure(loss_curves(study), tmp_path / "b" / "loss")]
    assert first == second
    assert dict(mpl.rcParams) == before
    assert (first[0][:4], first[1][1:4]) == (b"%PDF", b"PNG")


def test_a_method_has_the_same_colour_whatever_stands_beside_it(study):
    alone = looks([one(study, "fedgs")])["fedgs"]
    assert looks(study)["fedgs"] == alone
    named = labelled([Run({"method": {"name": "fedgs"}, "label": "ours"}, ())])
    assert looks(named)["ours"].colour == alone.colour


def test_variants_of_a_method_and_unknown_methods_are_told_apart():
    alphas = [Run({"method": {"name": "fedgs", "alpha": float(alpha)}}, ()) for alpha in range(5)]
    others = [Run({"method": {"name": f"mine{n}"}}, ()) for n in range(5)]
    made = looks(labelled([*alphas, *others]))
    assert len({(look.colour, look.dash) for look in made.values()}) == 10
    assert len({look.colour for label, look in made.items() if label.startswith("mine")}) == 5


def test_label_colours_are_distinct_up_to_twenty():
    assert len({to_hex(colour) for colour in label_colours(20)}) == 20


def test_participation_follows_the_records():
    clients = folders.make_clients(3)
    a, b, c = clients.names
    records = [Record(0, available=[a, b], cohort=[b]), Record(1, available=[c], cohort=[c]), Record(2, test_loss=1.0)]
    history = participation(Run({}, records, clients))
    assert history.available.tolist() == [[True, False], [True, False], [False, True]]
    assert history.selected.tolist() == [[False, False], [True, False], [False, True]]
    assert history.activity.tolist() == [0.5, 0.5, 0.5]
    assert history.counts.tolist() == [0, 1, 1]


def test_count_variances_and_diversity_equal_a_slow_count():
    rng = np.random.default_rng(0)
    selected = rng.random((7, 9)) < 0.4
    points = rng.random((7, 2))
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    for t in range(9):
        assert count_variances(selected)[t] == pytest.approx(np.var(selected[:, : t + 1].sum(axis=1), ddof=1))
        cohort = np.flatnonzero(selected[:, t])
        pairs = [distance[i, j] for i in cohort for j in cohort if i != j]
        assert cohort_diversity(selected, distance)[t] == pytest.approx(np.mean(pairs) if pairs else np.nan, nan_ok=True)


def test_a_curve_goes_on_with_the_seeds_that_are_left():
    longer = Run({}, [Record(0, test_loss=1.0), Record(1), Record(2, test_loss=0.5)])
    shorter = Run({}, [Record(0, test_loss=3.0), Record(1, test_loss=float("inf"))])
    made = curve([longer, shorter])
    assert made.rounds.tolist() == [0, 2]
    assert made.mean.tolist() == [2.0, 0.5]
    assert made.spread.tolist() == [pytest.approx(np.sqrt(2)), 0.0]


def test_bins_average_what_is_there():
    positions, means = binned(np.array([1.0, np.nan, np.nan, np.nan, 5.0]), 3)
    assert positions.tolist() == [0.5, 2.5, 4.0]
    np.testing.assert_array_equal(means, [1.0, np.nan, 5.0])
    assert len(binned(np.zeros(1001), 250)[0]) <= 250


@pytest.mark.parametrize("count", [1, 2, 3, 60])
def test_clients_are_drawn_inside_the_square_apart_and_always_alike(count):
    points = np.random.default_rng(1).random((count, 3)).round(1)
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    drawn = network(distance)
    assert np.isfinite(drawn.positions).all()
    assert drawn.positions.min() >= 0
    assert drawn.positions.max() <= 1
    assert len({tuple(position) for position in drawn.positions.round(6).tolist()}) == count
    np.testing.assert_array_equal(drawn.positions, network(distance).positions)


def test_edges_of_a_stored_adjacency_are_drawn_and_the_shortest_kept():
    adjacency = np.array([[0, 3.0, 1.0], [3.0, 0, np.inf], [1.0, np.inf, 0]])
    distance = np.array([[0, 1.0, 0.4], [1.0, 0, 1.0], [0.4, 1.0, 0]])
    assert network(distance, adjacency).edges.tolist() == [[0, 2], [0, 1]]
    assert network(distance, adjacency, most_edges=1).caption == "the 1 shortest of 2 edges"


def test_edges_are_made_again_from_the_clients_where_only_distances_were_kept(tmp_path):
    from fedgs.graph.settings import Graph

    clients = folders.make_clients(12)
    graph = Graph(epsilon=0.3).of_clients(clients)
    folder = folders.write_run(
        tmp_path, "fedgs", 0, clients=clients, memory={"distance": graph.distance}, method__graph={"epsilon": 0.3}
    )
    (run,), _ = read_runs(folder.path)
    drawn = network_of_run(run)
    assert drawn.caption == f"{len(drawn.edges)} edges"
    assert {tuple(edge) for edge in drawn.edges.tolist()} == {
        tuple(e) for e in np.argwhere(np.triu(np.isfinite(graph.adjacency), 1))
    }


def test_a_run_without_distances_has_no_graph(study):
    assert network_of_run(one(study, "uniform")) is None


def test_similar_clients_are_drawn_near_each_other():
    kind = np.arange(40) % 2
    distance = np.where(kind[:, None] == kind[None, :], 0.1, 1.0)
    np.fill_diagonal(distance, 0.0)
    positions = network(distance).positions
    gaps = np.linalg.norm(positions[:, None] - positions[None], axis=2)
    same = (kind[:, None] == kind[None, :]) & ~np.eye(40, dtype=bool)
    assert gaps[kind[:, None] != kind[None, :]].min() > np.median(gaps[same])
