"""Appendix C's grid search: local steps and learning rate by FedAvg's validation loss under IDL."""

from collections.abc import Mapping, Sequence

from fedgs.experiments.paper.frame.conditions import Mode, Source
from fedgs.experiments.paper.frame.experiment import (
    Experiment,
    ExperimentRecords,
    LoadedRun,
    PlannedRun,
    Rendering,
)
from fedgs.experiments.paper.frame.planning import planned_runs
from fedgs.experiments.paper.frame.published import TUNED, TUNING_RATES, TUNING_STEPS
from fedgs.experiments.paper.frame.request import ExperimentRequest
from fedgs.experiments.paper.frame.rows import MethodRow
from fedgs.experiments.paper.frame.sentences import mean
from fedgs.experiments.paper.frame.tables import mean_cell, rank_mark, runs_table
from fedgs.report.summary import is_figure
from fedgs.report.table import Block, Cell, Column, Table
from fedgs.report.tables import number

__all__ = ["EXPERIMENTS"]


def _block(source: Source) -> str:
    return source.key if source.path is None else "synthetic"


def _row(steps: int, rate: float) -> MethodRow:
    return MethodRow(
        f"E{steps}-eta{rate:g}",
        f"E = {steps}, eta = {rate:g}",
        {"name": "uniform"},
        {"local_steps": steps, "learning_rate": rate},
    )


def plan(request: ExperimentRequest) -> list[PlannedRun]:
    """FedAvg, which is uniform sampling, at every point of the grid."""
    planned = []
    for source in request.data:
        rows = [
            _row(steps, rate) for steps in TUNING_STEPS for rate in TUNING_RATES[_block(source)]
        ]
        planned += planned_runs(request, source, modes=[Mode("IDL")], rows=rows)
    return planned


def render(request: ExperimentRequest, records: ExperimentRecords) -> Rendering:
    """Validation loss over the grid, and whether the best point is the paper's choice."""
    rates = list(
        dict.fromkeys(rate for source in request.data for rate in TUNING_RATES[_block(source)])
    )
    columns = (
        Column("E", ("local_steps",), numeric=True),
        *(
            Column(
                f"eta {rate:g}", (f"eta {rate:g} mean", f"eta {rate:g} sd", f"eta {rate:g} seeds")
            )
            for rate in sorted(rates)
        ),
    )
    blocks, verdict = [], []
    for source in request.data:
        runs = [loaded for loaded in records.runs if loaded.data == source.key]
        if runs:
            grid = {
                (e, rate): _losses(runs, _row(e, rate).key)
                for e in TUNING_STEPS
                for rate in TUNING_RATES[_block(source)]
            }
            title = str(runs[0].run.about.get("data_title", source.title))
            rows = [
                (Cell(str(e), (e,)), *(_cell(grid, e, rate) for rate in sorted(rates)))
                for e in TUNING_STEPS
            ]
            blocks.append(Block((("data", title),), tuple(rows)))
            verdict.append(_verdict(title, grid, TUNED[_block(source)]))
    notes = (
        "Lowest validation loss over the rounds, weighted by n_k, mean ± standard deviation over "
        "seeds; IDL, uniform sampling.",
    )
    if not blocks:
        return Rendering(verdict=verdict)
    table = Table("Grid search", columns, tuple(blocks), notes, ranked="grid")
    return Rendering(
        {"": table}, {"runs": runs_table("The runs of the grid search", records.runs)}, verdict
    )


_GridLosses = Mapping[tuple[int, float], Mapping[object, float]]


def _losses(runs: Sequence[LoadedRun], row: str) -> dict[object, float]:
    lowest: dict[object, float] = {}
    for loaded in runs:
        if loaded.row == row and loaded.run.failure is None:
            values = [
                record.valid_loss for record in loaded.run.records if is_figure(record.valid_loss)
            ]
            if values:
                lowest[loaded.run.replicate] = min(value for value in values if value is not None)
    return lowest


def _cell(grid: _GridLosses, steps: int, rate: float) -> Cell:
    losses = grid.get((steps, rate))
    if losses is None:
        return mean_cell(())
    mark = rank_mark(losses, grid.values())
    return mean_cell(losses.values(), missing="not run", mark=mark)


def _verdict(title: str, grid: _GridLosses, paper: tuple[int, float]) -> str:
    means = {
        point: average for point, values in grid.items() if (average := mean(values)) is not None
    }
    if not means:
        return f"{title}: no run has a validation loss (the federation needs validation parts)."
    best = min(means, key=lambda point: means[point])
    text = f"{title}: the lowest validation loss is at E = {best[0]}, eta = {best[1]:g}"
    if best == paper:
        return f"{text}, the paper's choice."
    if paper not in means:
        return f"{text}; the paper's choice, E = {paper[0]}, eta = {paper[1]:g}, was not run."
    rank = sorted(means.values()).index(means[paper]) + 1
    return (
        f"{text} ({number(means[best], 3)}); the paper's choice, E = {paper[0]}, eta = "
        f"{paper[1]:g}, is number {rank} of {len(means)} ({number(means[paper], 3)})."
    )


EXPERIMENTS = {
    "tuning": Experiment(
        name="tuning",
        title="Appendix C: grid search of the hyper-parameters with FedAvg",
        claim=(
            "The best point of the grid is E = 10 with eta = .1 on Synthetic and FashionMNIST, and "
            "E = 10 with eta = .03 on CIFAR10."
        ),
        takes=frozenset({"data", "rounds", "seeds", "workers", "set"}),
        data=(Source("synthetic"),),
        plan=plan,
        render=render,
    )
}
