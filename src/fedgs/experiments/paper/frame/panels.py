"""The runs of figures 4 and 5, one panel for each federation and mode."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from fedgs.experiments.paper.frame.conditions import Mode, Source
from fedgs.experiments.paper.frame.experiment import (
    ExperimentRecords,
    LoadedRun,
    PlannedRun,
    Rendering,
)
from fedgs.experiments.paper.frame.planning import chosen_rows, planned_runs
from fedgs.experiments.paper.frame.request import ExperimentRequest
from fedgs.experiments.paper.frame.rows import MethodRow, baseline_rows, fedgs_row
from fedgs.experiments.paper.frame.tables import runs_table
from fedgs.report.run_view import Run
from fedgs.report.style import Look, looks
from fedgs.report.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "PANEL_DATA",
    "PANEL_OPTIONS",
    "Panel",
    "by_replicate",
    "panel_rows",
    "panels_of",
    "plan_panels",
    "rendering_of_panels",
]

PANEL_DATA = (Source("fashion_mnist"), Source("cifar10"))
PANEL_OPTIONS = frozenset(
    {"data", "modes", "methods", "rounds", "seeds", "scale", "workers", "set"}
)
# The paper's modes; LN for other federations.
_MODES = {"fashion_mnist": "YMF", "cifar10": "LN"}


class Panel(NamedTuple):
    """The runs of one panel.

    Attributes:
        suffix: of its file, whose name begins with the names of all federations: the number of
            the federation among several, and the mode.
        title: the federation and the mode.
        runs: those that did not fail.
    """

    suffix: str
    title: str
    runs: list[LoadedRun]


def _modes(request: ExperimentRequest, source: Source) -> tuple[Mode, ...]:
    return request.modes or (Mode(_MODES.get(source.key, "LN")),)


def panel_rows(request: ExperimentRequest) -> list[MethodRow]:
    """The baselines and FedGS at alpha 1, as far as `--methods` names them."""
    return chosen_rows(request, [*baseline_rows(), fedgs_row(1.0, request.scale)])


def plan_panels(request: ExperimentRequest) -> list[PlannedRun]:
    """One run for every row, mode and seed."""
    rows = panel_rows(request)
    return [
        run
        for source in request.data
        for run in planned_runs(request, source, modes=_modes(request, source), rows=rows)
    ]


def panels_of(request: ExperimentRequest, records: ExperimentRecords) -> list[Panel]:
    """The panels that have runs."""
    panels = []
    for number, source in enumerate(request.data, 1):
        for mode in _modes(request, source):
            runs = [
                loaded
                for loaded in records.runs
                if (loaded.data, loaded.mode) == (source.key, mode.title)
                and loaded.run.failure is None
            ]
            if runs:
                suffix = mode.name if len(request.data) == 1 else f"{number}-{mode.name}"
                title = f"{runs[0].run.about.get('data_title', source.title)}, {mode.title}"
                panels.append(Panel(suffix, title, runs))
    return panels


def by_replicate(
    runs: Sequence[LoadedRun], row: str, figure: Callable[[Run], float | None]
) -> dict[object, float]:
    """Replicate -> a figure of the row's run, as far as the run has it."""
    return {
        loaded.run.replicate: value
        for loaded in runs
        if loaded.row == row and (value := figure(loaded.run)) is not None
    }


def rendering_of_panels(
    request: ExperimentRequest,
    records: ExperimentRecords,
    *,
    table: Table,
    verdict: Sequence[str],
    draw_panel: Callable[[Sequence[Run], str, Mapping[str, Look]], "Figure"],
) -> Rendering:
    """The table, the list of runs and one figure a panel; nothing without runs.

    Args:
        request: of the figure.
        records: its runs.
        table: the figures in numbers.
        verdict: sentences about the table.
        draw_panel: runs with labels, title, and a style by label -> a figure. All panels have the
            same styles.
    """
    panels = panels_of(request, records)
    if not panels:
        return Rendering(verdict=verdict)
    labels = {row.key: row.label for row in panel_rows(request)}

    def labelled(runs: Sequence[LoadedRun]) -> list[Run]:
        return [replace(loaded.run, label=labels[loaded.row]) for loaded in runs]

    def draw() -> "dict[str, Figure]":
        styles = looks(labelled(records.runs))
        return {
            panel.suffix: draw_panel(labelled(panel.runs), panel.title, styles) for panel in panels
        }

    runs = runs_table("The runs of the figure", records.runs)
    return Rendering({"": table}, {"runs": runs}, verdict, draw)
