"""Table 2: the lowest test loss of every method under every mode, and its increase over IDL."""

from collections.abc import Sequence
from dataclasses import replace

from fedgs.experiments.paper.frame.conditions import Source
from fedgs.experiments.paper.frame.experiment import (
    Experiment,
    ExperimentRecords,
    PlannedRun,
    Rendering,
)
from fedgs.experiments.paper.frame.planning import chosen_rows, planned_runs
from fedgs.experiments.paper.frame.request import ExperimentRequest
from fedgs.experiments.paper.frame.rows import (
    ALPHAS,
    MethodRow,
    baseline_rows,
    fedgs_method,
    fedgs_row,
)
from fedgs.experiments.paper.frame.tables import beside_paper, mean_cell, rank_mark, runs_table
from fedgs.experiments.paper.table2_losses import TableLosses, collect, percent
from fedgs.experiments.paper.table2_verdict import verdict_of
from fedgs.report.table import Block, Cell, Column, Table
from fedgs.report.tables import ALL_FIGURES, comparison

__all__ = ["EXPERIMENTS", "table2_rows"]

_INVERSE = {"weighting": "inverse_participation"}


def table2_rows(request: ExperimentRequest) -> list[MethodRow]:
    """The rows of the table.

    These are the paper's nine rows, FedGS at alpha 1 in the other scale, and with `--ours` two rows
    with inverse participation.
    """
    other = "paper" if request.scale == "cohort" else "cohort"
    rows = [*baseline_rows(), *(fedgs_row(alpha, request.scale) for alpha in ALPHAS)]
    rows.append(MethodRow(f"fedgs-{other}", f"fedgs 1, {other} scale", fedgs_method(1.0, other)))
    if request.ours:
        uniform, fedgs = {"name": "uniform"}, fedgs_method(1.0, "paper")
        rows += [
            MethodRow("uniform-inverse", "uniform, inverse p.", {**uniform, **_INVERSE}),
            MethodRow("fedgs-inverse", "fedgs 1, inverse p.", {**fedgs, **_INVERSE}),
        ]
    return rows


def plan(request: ExperimentRequest) -> list[PlannedRun]:
    """One run for every row, mode and seed."""
    rows = chosen_rows(request, table2_rows(request))
    return [
        run
        for source in request.data
        for run in planned_runs(request, source, modes=request.modes_of(source), rows=rows)
    ]


def render(request: ExperimentRequest, records: ExperimentRecords) -> Rendering:
    """Losses, degradations, paired comparisons, every run, and the agreement with the paper."""
    rows = chosen_rows(request, table2_rows(request))
    losses = [collect(request, source, rows=rows, runs=records.runs) for source in request.data]
    tables = {"": _loss_table(losses)}
    csv_only = {}
    if any("IDL" in block.modes and len(block.modes) > 1 for block in losses):
        tables["degradation"] = _degradation_table(losses)
    labels = {row.key: row.label for row in rows}
    labelled = [replace(loaded.run, label=labels[loaded.row]) for loaded in records.runs]
    if labelled:
        csv_only["comparison"] = comparison(labelled, figures=ALL_FIGURES)
        csv_only["runs"] = runs_table("The runs of Table 2", records.runs)
    verdict = [sentence for block in losses for sentence in verdict_of(request, block)]
    return Rendering(tables, csv_only, verdict)


def _loss_table(losses: Sequence[TableLosses]) -> Table:
    """One row a method, one column a mode: mean ± sd over seeds, and the paper's figure."""
    modes = list(dict.fromkeys(mode for block in losses for mode in block.modes))
    parts = ("mean", "sd", "seeds", "paper")
    columns = (
        Column("method", ("method",), numeric=False),
        *(Column(mode, tuple(f"{mode} {part}" for part in parts)) for mode in modes),
    )
    blocks = []
    for block in losses:
        rows = [
            (Cell(row.label, (row.label,)), *(_loss_cell(block, mode, row.key) for mode in modes))
            for row in block.rows
        ]
        blocks.append(Block((("data", block.title),), tuple(rows)))
    note = "Mean ± standard deviation over seeds; in brackets the paper's figure, if there is one."
    return _titled("Table 2: lowest test loss", columns, blocks, note)


def _titled(title: str, columns: Sequence[Column], blocks: Sequence[Block], note: str) -> Table:
    """The table; its title names the federation if there is one block."""
    if len(blocks) == 1:
        title = f"{title}, {blocks[0].title}"
    return Table(title, tuple(columns), tuple(blocks), (note,))


def _loss_cell(losses: TableLosses, mode: str, row: str) -> Cell:
    if mode not in losses.modes:
        return beside_paper(mean_cell(()), None)
    column = losses.ours[mode]
    mark = rank_mark(column[row], column.values())
    cell = mean_cell(column[row].values(), missing="not run", mark=mark)
    return beside_paper(cell, losses.paper[mode].get(row))


def _degradation_table(losses: Sequence[TableLosses]) -> Table:
    modes = list(dict.fromkeys(mode for block in losses for mode in block.modes if mode != "IDL"))
    columns = (
        Column("method", ("method",), numeric=False),
        *(Column(mode, (mode, f"{mode} paper")) for mode in modes),
        Column("worst", ("worst", "worst paper")),
    )
    blocks = []
    for block in losses:
        rows = []
        for row in block.rows:
            ours, paper = block.degradations(row.key)
            worst = (max(figures.values(), default=None) for figures in (ours, paper))
            cells = (_percent_cell(ours.get(mode), paper.get(mode)) for mode in modes)
            rows.append((Cell(row.label, (row.label,)), *cells, _percent_cell(*worst)))
        blocks.append(Block((("data", block.title),), tuple(rows)))
    note = (
        "Ratio of the means over seeds; in brackets the same of the paper's figures. Negative: "
        "lower than under IDL."
    )
    return _titled("Loss above that of IDL", columns, blocks, note)


def _percent_cell(ours: float | None, paper: float | None) -> Cell:
    beside = "" if paper is None else f" ({percent(paper)})"
    return Cell(f"{'–' if ours is None else percent(ours)}{beside}", (ours, paper))


EXPERIMENTS = {
    "table2": Experiment(
        name="table2",
        title="Table 2: lowest test loss of every method under every availability mode",
        claim=(
            "The lowest test loss depends on the availability mode for every method. FedGS is best "
            "in all modes but IDL and, on Synthetic, MDF, where power of choice is best but "
            "unstable elsewhere. Against IDL, uniform sampling loses up to 19.8 %, MDSample up to "
            "8.6 % and FedGS at most 5 % on Synthetic."
        ),
        takes=frozenset(
            {"data", "modes", "methods", "rounds", "seeds", "scale", "ours", "workers", "set"}
        ),
        data=(Source("synthetic"),),
        plan=plan,
        render=render,
    )
}
