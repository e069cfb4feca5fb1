"""Figure 5: the test loss over rounds."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedgs.experiments.paper.frame.experiment import Experiment, ExperimentRecords, Rendering
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
from fedgs.experiments.paper.frame.sentences import Figures, mean
from fedgs.experiments.paper.frame.tables import mean_cell
from fedgs.report.run_view import Run
from fedgs.report.style import Look
from fedgs.report.summary import is_figure, summarize
from fedgs.report.table import Block, Cell, Column, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENTS"]


def render(request: ExperimentRequest, records: ExperimentRecords) -> Rendering:
    """Lowest and last test loss and the unsteadiness of the curve, and the figure of the curves."""
    columns = (
        Column("method", ("method",), numeric=False),
        Column("lowest", ("lowest_mean", "lowest_sd", "lowest_seeds")),
        Column("last", ("last_mean", "last_sd", "last_seeds")),
        Column("unsteadiness", ("unsteadiness_mean", "unsteadiness_sd", "unsteadiness_seeds")),
    )
    rows = panel_rows(request)
    blocks, verdict = [], []
    for panel in panels_of(request, records):
        lowest, last, unsteadiness = (
            {row.key: by_replicate(panel.runs, row.key, figure) for row in rows}
            for figure in (_lowest, _last, _unsteadiness)
        )
        lines = tuple(
            (
                Cell(row.label, (row.label,)),
                *(mean_cell(values[row.key].values()) for values in (lowest, last, unsteadiness)),
            )
            for row in rows
        )
        blocks.append(Block((("data", panel.title),), lines))
        verdict.append(_steadiness(panel.title, lowest, unsteadiness))
    notes = (
        "Test loss, means over seeds ± standard deviation; unsteadiness: mean absolute change "
        "between two evaluations in the second half of the rounds.",
    )
    table = Table("Figure 5: test loss over rounds", columns, tuple(blocks), notes)
    return rendering_of_panels(
        request, records, table=table, verdict=verdict, draw_panel=_draw_panel
    )


def _draw_panel(runs: Sequence[Run], title: str, styles: Mapping[str, Look]) -> "Figure":
    from fedgs.report.figures import loss_curves

    return loss_curves(runs, title=title, styles=styles)


def _test_losses(run: Run) -> list[tuple[int, float]]:
    return [
        (record.round, record.test_loss)
        for record in run.records
        if record.test_loss is not None and is_figure(record.test_loss)
    ]


def _lowest(run: Run) -> float | None:
    return summarize(run).test_loss


def _last(run: Run) -> float | None:
    evaluated = _test_losses(run)
    return evaluated[-1][1] if evaluated else None


def _unsteadiness(run: Run) -> float | None:
    late = [loss for t, loss in _test_losses(run) if t >= run.rounds / 2]
    return float(np.abs(np.diff(late)).mean()) if len(late) > 1 else None


def _steadiness(title: str, lowest: Figures, unsteadiness: Figures) -> str:
    """Whether FedGS has a lower loss and a steadier curve."""
    clauses = [_comparison("lowest test loss", lowest), _comparison("unsteadiness", unsteadiness)]
    text = "; ".join(clause for clause in clauses if clause)
    return f"{title}: {text}." if text else f"{title}: nothing to compare FedGS's curve with."


def _comparison(word: str, figures: Figures) -> str:
    """The methods that FedGS is below; "" if there is nothing to compare."""
    means = {
        row: average for row, values in figures.items() if (average := mean(values)) is not None
    }
    fedgs = means.pop("fedgs-1", None)
    if fedgs is None or not means:
        return ""
    below = [row for row, average in means.items() if fedgs < average]
    others = [row for row in means if row not in below]
    if not below:
        return f"the {word} of fedgs 1 is below that of no other method"
    exceptions = f", not of {', '.join(others)}" if others else ""
    return f"the {word} of fedgs 1 is below that of {', '.join(below)}{exceptions}"


EXPERIMENTS = {
    "fig5": Experiment(
        name="fig5",
        title="Figure 5: test-loss curves",
        claim=(
            "FedGS makes training steadier and finds a better solution, on FashionMNIST with YMF "
            "0.9 and on CIFAR10 with LN 0.5."
        ),
        takes=PANEL_OPTIONS,
        data=PANEL_DATA,
        plan=plan_panels,
        render=render,
        draws=True,
    )
}
