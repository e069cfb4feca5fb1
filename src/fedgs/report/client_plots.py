"""Figures of the losses of single clients."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedgs.arrays import FloatArray
from fedgs.errors import OutputError
from fedgs.report.by_client import client_losses
from fedgs.report.canvas import canvas, figure_style, legend_below
from fedgs.report.history import participation
from fedgs.report.run_view import Run
from fedgs.report.style import Look, looks
from fedgs.report.subjects import as_runs, group_titles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["losses_by_client"]


def losses_by_client(runs: Run | Iterable[Run]) -> "Figure":
    """The loss of each client by its data size and by how often it was available.

    The losses are those of the last model that was evaluated by client, on the client's own
    examples. A point is a client of a method, the mean over the seeds. Each data set and mode has a
    row of its own.

    Args:
        runs: with `evaluation.per_client`; others are left out.

    Raises:
        ConfigError: no runs.
        OutputError: no run was evaluated by client, or the clients are not known.
    """
    given = as_runs(runs, "losses_by_client")
    having = [run for run in given if client_losses(run) is not None and run.clients is not None]
    if not having:
        raise OutputError("no run was evaluated by client; evaluation.per_client does it")
    styles = looks(having)
    groups = sorted({run.group for run in having})
    titles = group_titles(groups) if len(groups) > 1 else [""]
    with figure_style():
        drawing = canvas(1.7 * len(groups) + 0.5)
        grid = drawing.subplots(len(groups), 2, squeeze=False, sharey="row")
        for row, group, title in zip(grid, groups, titles, strict=True):
            _draw(row, [run for run in having if run.group == group], styles)
            row[0].set_title(title)
        for axes, label in zip(grid[-1], ("training examples", "rounds available"), strict=True):
            axes.set_xlabel(label)
        legend_below(drawing, list(grid.flat))
        return drawing


def _draw(row: "Sequence[Axes]", runs: Sequence[Run], styles: dict[str, Look]) -> None:
    """One row: the losses of the methods of one group by data size and by availability."""
    for label in sorted({run.label for run in runs}):
        of_label = [run for run in runs if run.label == label]
        losses = _mean([client_losses(run) for run in of_label])
        first = of_label[0].clients
        assert first is not None
        activity = _mean(
            [None if (seen := participation(run)) is None else seen.activity for run in of_label]
        )
        look = styles[label]
        for axes, places in zip(row, (first.data_sizes, activity), strict=True):
            axes.scatter(
                places, losses, s=9, color=look.colour, marker=look.marker, label=label, alpha=0.75
            )
    row[0].set_ylabel("loss of the client")


def _mean(values: Sequence[FloatArray | None]) -> FloatArray:
    """The mean over seeds, of those with as many clients as the first; NaN where all are NaN."""
    known = [value for value in values if value is not None]
    alike = np.array([value for value in known if len(value) == len(known[0])])
    counts = np.isfinite(alike).sum(axis=0)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nansum(alike, axis=0) / counts)
