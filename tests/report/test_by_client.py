import numpy as np
import pytest
from tests.report import folders
from tests.report.material import cell, course, shown

from fedgs.errors import OutputError
from fedgs.records import Record
from fedgs.report.by_client import CLIENT_FIGURES, client_figures, client_losses
from fedgs.report.client_plots import losses_by_client
from fedgs.report.run_view import Run
from fedgs.report.tables import ALL_FIGURES, comparison


def by_client(losses: list[float | None], **more: object) -> Run:
    records = [
        Record(0, cohort=["a"], test_loss=1.0, per_client={"part": "test", "loss": [9.0, 9.0]}),
        Record(1, test_loss=0.5, per_client={"part": "test", "loss": losses, **more}),
    ]
    return Run({"method": {"name": "md"}, "training": {"rounds": 1}}, records)


def test_the_figures_are_those_of_the_last_evaluation_over_clients_with_examples() -> None:
    losses = [float(k) for k in range(1, 12)]  # 11 clients: two of them are the worst tenth
    run = by_client([*losses, None], accuracy=[*(k / 20 for k in range(1, 12)), None])
    assert client_figures(run) == {
        "worst_client": 11.0,
        "worst_decile": 10.5,
        "client_spread": 10.0,
        "client_variance": pytest.approx(11.0),  # of 1..n it is n(n + 1)/12
        "decile_accuracy": pytest.approx(0.075),  # of 1/20 and 2/20
    }
    assert np.isnan(client_losses(run)[-1])  # type: ignore[index]


def test_one_client_has_no_variance_and_other_runs_have_no_figures() -> None:
    figures = client_figures(by_client([2.0]))
    assert figures["worst_decile"] == 2.0 and figures["client_variance"] is None
    assert figures["decile_accuracy"] is None
    assert set(client_figures(course(1.0, 0.5)).values()) == {None}


def test_tables_have_the_columns_only_where_a_run_was_evaluated_by_client() -> None:
    table = comparison([by_client([1.0, 3.0], accuracy=[1.0, 0.5])], figures=ALL_FIGURES)
    assert cell(table, "md", "worst client").text == "3.000"
    assert cell(table, "md", "client variance").text == "2.000"
    assert {"worst decile", "client spread", "decile accuracy"} <= set(shown(table))
    plain = comparison([course(1.0, 0.5)], figures=ALL_FIGURES)
    assert not [figure for figure in CLIENT_FIGURES if figure in plain.csv()]


def test_the_figure_has_a_point_for_each_client_and_method() -> None:
    clients = folders.make_clients(12)
    names = list(clients.names)
    losses = [float(k) for k in range(12)]
    records = [
        Record(0, available=names[:6], num_available=6, cohort=[names[0]]),
        Record(1, per_client={"part": "test", "loss": losses}),
    ]
    runs = [
        Run({"method": {"name": method}, "training": {"rounds": 1}}, records, clients)
        for method in ("md", "uniform")
    ]
    figure = losses_by_client(runs)
    sizes, activity = figure.axes
    points = sizes.collections[0].get_offsets()
    np.testing.assert_allclose(points, np.column_stack([clients.data_sizes, losses]))
    assert len(sizes.collections) == len(activity.collections) == 2
    np.testing.assert_allclose(activity.collections[0].get_offsets()[:, 0], [1.0] * 6 + [0.0] * 6)
    with pytest.raises(OutputError, match="no run was evaluated by client"):
        losses_by_client(course(1.0, 0.5))
