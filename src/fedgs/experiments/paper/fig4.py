"""Figure 4: how often every client was selected in the end."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedgs.experiments.paper.frame.experiment import (
    Experiment,
    ExperimentRecords,
    LoadedRun,
    Rendering,
)
from fedgs.experiments.paper.frame.panels import (
    PANEL_DATA,
    PANEL_OPTIONS,
    by_replicate,
    panel_rows,
    panels_of,
    plan_panels,
    rendering_of_panels,
)
from fedgs.experiments.paper.frame.request import ExperimentRequest
from fedgs.experiments.paper.frame.rows import MethodRow
from fedgs.experiments.paper.frame.sentences import mean
from fedgs.experiments.paper.frame.tables import mean_cell
from fedgs.report.run_view import Run
from fedgs.report.style import Look
from fedgs.report.summary import count_variance, sampling_counts
from fedgs.report.table import Block, Cell, Column, Table
from fedgs.report.tables import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENTS"]


def render(request: ExperimentRequest, records: ExperimentRecords) -> Rendering:
    """The variance of the final sampling counts, and their figure."""
    columns = (
        Column("method", ("method",), numeric=False),
        Column(
            "count variance", ("count_variance_mean", "count_variance_sd", "count_variance_seeds")
        ),
        Column("fewest", ("fewest_mean",)),
        Column("most", ("most_mean",)),
    )
    rows = panel_rows(request)
    blocks, verdict = [], []
    for panel in panels_of(request, records):
        variances = {row.key: by_replicate(panel.runs, row.key, count_variance) for row in rows}
        lines = tuple(_line(row, panel.runs, variances[row.key]) for row in rows)
        blocks.append(Block((("data", panel.title),), lines))
        verdict.append(_evenness(panel.title, variances))
    notes = ("Over clients, of the number of rounds in which each was selected; means over seeds.",)
    table = Table("Figure 4: final sampling counts", columns, tuple(blocks), notes)
    return rendering_of_panels(
        request, records, table=table, verdict=verdict, draw_panel=_draw_panel
    )


def _draw_panel(runs: Sequence[Run], title: str, styles: Mapping[str, Look]) -> "Figure":
    from fedgs.report.figures import sampling_counts as draw_counts

    return draw_counts(runs, title=title, styles=styles)


def _line(
    row: MethodRow, runs: Sequence[LoadedRun], variances: Mapping[object, float]
) -> tuple[Cell, ...]:
    counts = [
        of_run
        for loaded in runs
        if loaded.row == row.key and (of_run := sampling_counts(loaded.run)) is not None
    ]
    label = Cell(row.label, (row.label,))
    if not counts or not variances:
        return (label, *(Cell("–") for _ in range(3)))
    ends = [float(np.mean([end(of_run) for of_run in counts])) for end in (np.min, np.max)]
    return (
        label,
        mean_cell(variances.values(), decimals=1),
        *(Cell(number(end, 1), (end,)) for end in ends),
    )


def _evenness(title: str, variances: Mapping[str, Mapping[object, float]]) -> str:
    means = {
        row: average for row, values in variances.items() if (average := mean(values)) is not None
    }
    if "fedgs-1" not in means or len(means) < 2:
        return f"{title}: nothing to compare FedGS's counts with."
    others = {row: average for row, average in means.items() if row != "fedgs-1"}
    lowest = min(others, key=lambda row: others[row])
    word = "below" if means["fedgs-1"] < others[lowest] else "not below"
    agrees = "as the paper says" if word == "below" else "against what the paper says"
    return (
        f"{title}: the count variance of fedgs 1 is {number(means['fedgs-1'], 1)}, {word} that of "
        f"every other method (the lowest of them: {lowest}, {number(others[lowest], 1)}), {agrees}."
    )


EXPERIMENTS = {
    "fig4": Experiment(
        name="fig4",
        title="Figure 4: final sampling counts",
        claim=(
            "FedGS at alpha 1 selects all clients about equally often, on FashionMNIST with YMF "
            "0.9 and on CIFAR10 with LN 0.5."
        ),
        takes=PANEL_OPTIONS,
        data=PANEL_DATA,
        plan=plan_panels,
        render=render,
        draws=True,
    )
}
