"""Figures 4 and 5: final sampling counts and test-loss curves, from the same runs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fedgs.experiments.paper.frame.experiment import (
    Experiment,
    ExperimentRecords,
    LoadedRun,
    PlannedRun,
    Rendering,
    Row,
    planned_runs,
    runs_table,
)
from fedgs.experiments.paper.frame.request import ExperimentRequest, Mode, Source
from fedgs.experiments.paper.frame.sentences import mean
from fedgs.experiments.paper.table2 import baseline_rows, chosen_rows, fedgs_row
from fedgs.report.run_view import Run
from fedgs.report.style import Look, looks
from fedgs.report.summary import count_variance, is_figure, sampling_counts, summarize
from fedgs.report.table import Block, Cell, Column, Table
from fedgs.report.tables import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENTS"]

_MODES = {"fashion_mnist": "YMF", "cifar10": "LN"}  # the paper's; LN for other federations


def _modes(request: ExperimentRequest, source: Source) -> tuple[Mode, ...]:
    return request.modes or (Mode(_MODES.get(source.key, "LN")),)


def _rows(request: ExperimentRequest) -> list[Row]:
    return chosen_rows(request, [*baseline_rows(), fedgs_row(1.0, request.scale)])


def plan(request: ExperimentRequest) -> list[PlannedRun]:
    """The baselines and FedGS at alpha 1."""
    return [
        run
        for source in request.data
        for run in planned_runs(request, source, modes=_modes(request, source), rows=_rows(request))
    ]


_Panel = tuple[str, str, list[LoadedRun]]  # suffix of the file, title, runs


def _panels(request: ExperimentRequest, records: ExperimentRecords) -> list[_Panel]:
    panels = []
    for source in request.data:
        for mode in _modes(request, source):
            runs = [
                loaded
                for loaded in records.runs
                if (loaded.data, loaded.mode) == (source.key, mode.title)
                and loaded.run.failure is None
            ]
            if runs:
                title = f"{runs[0].run.about.get('data_title', source.title)}, {mode.title}"
                panels.append(
                    (
                        mode.name if len(request.data) == 1 else f"{source.key}-{mode.name}",
                        title,
                        runs,
                    )
                )
    return panels


def _labelled(request: ExperimentRequest, runs: Sequence[LoadedRun]) -> list[Run]:
    labels = {row.key: row.label for row in _rows(request)}
    return [replace(loaded.run, label=labels[loaded.row]) for loaded in runs]


def _styles(request: ExperimentRequest, records: ExperimentRecords) -> dict[str, Look]:
    """One style a method, the same in all panels."""
    return looks(_labelled(request, records.runs))


def render_counts(request: ExperimentRequest, records: ExperimentRecords) -> Rendering:
    """The variance of the final sampling counts, and their figure."""
    columns = (
        Column("method", ("method",), numeric=False),
        Column(
            "count variance", ("count_variance_mean", "count_variance_sd", "count_variance_seeds")
        ),
        Column("fewest", ("fewest_mean",)),
        Column("most", ("most_mean",)),
    )
    blocks, verdict = [], []
    for _, title, runs in _panels(request, records):
        variances = {
            row.key: _by_replicate(runs, row.key, count_variance) for row in _rows(request)
        }
        blocks.append(
            Block(
                (("data", title),),
                tuple(_count_row(row, runs, variances[row.key]) for row in _rows(request)),
            )
        )
        verdict.append(_evenness(title, request, variances))
    notes = ("Over clients, of the number of rounds in which each was selected; means over seeds.",)
    table = Table("Figure 4: final sampling counts", columns, tuple(blocks), notes)
    return _with_figures(request, records, table=table, verdict=verdict, kind="sampling_counts")


def _by_replicate(runs: Sequence[LoadedRun], row: str, figure: "_Figure") -> dict[object, float]:
    return {
        loaded.run.replicate: value
        for loaded in runs
        if loaded.row == row and (value := figure(loaded.run)) is not None
    }


def _count_row(
    row: Row, runs: Sequence[LoadedRun], variances: Mapping[object, float]
) -> tuple[Cell, ...]:
    counts = [
        of_run
        for loaded in runs
        if loaded.row == row.key and (of_run := sampling_counts(loaded.run)) is not None
    ]
    if not counts or not variances:
        return (Cell(row.label, (row.label,)), *(Cell("–") for _ in range(3)))
    values = list(variances.values())
    average, spread = (
        float(np.mean(values)),
        float(np.std(values, ddof=1)) if len(values) > 1 else None,
    )
    fewest, most = (float(np.mean([end(of_run) for of_run in counts])) for end in (np.min, np.max))
    return (
        Cell(row.label, (row.label,)),
        Cell(
            number(average, 1) + ("" if spread is None else f" ± {number(spread, 1)}"),
            (average, spread, len(values)),
        ),
        Cell(number(fewest, 1), (fewest,)),
        Cell(number(most, 1), (most,)),
    )


def _evenness(
    title: str, request: ExperimentRequest, variances: Mapping[str, Mapping[object, float]]
) -> str:
    means = {
        row.key: average
        for row in _rows(request)
        if (average := mean(variances[row.key])) is not None
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


def render_losses(request: ExperimentRequest, records: ExperimentRecords) -> Rendering:
    """Lowest and last test loss and the unsteadiness of the curve, and the figure of the curves."""
    columns = (
        Column("method", ("method",), numeric=False),
        Column("lowest", ("lowest_mean", "lowest_sd", "lowest_seeds")),
        Column("last", ("last_mean", "last_sd", "last_seeds")),
        Column("unsteadiness", ("unsteadiness_mean", "unsteadiness_sd", "unsteadiness_seeds")),
    )
    figures = (lambda run: summarize(run).test_loss, _last, _unsteadiness)
    blocks, verdict = [], []
    for _, title, runs in _panels(request, records):
        values = {
            row.key: [_by_replicate(runs, row.key, figure) for figure in figures]
            for row in _rows(request)
        }
        rows = [
            (Cell(row.label, (row.label,)), *(_mean_cell(figure) for figure in values[row.key]))
            for row in _rows(request)
        ]
        blocks.append(Block((("data", title),), tuple(rows)))
        verdict.append(_steadiness(title, request, values))
    notes = (
        "Test loss, means over seeds ± standard deviation; unsteadiness: mean absolute change "
        "between two evaluations in the second half of the rounds.",
    )
    table = Table("Figure 5: test loss over rounds", columns, tuple(blocks), notes)
    return _with_figures(request, records, table=table, verdict=verdict, kind="loss_curves")


def _test_losses(run: Run) -> list[tuple[int, float]]:
    return [
        (record.round, record.test_loss)
        for record in run.records
        if record.test_loss is not None and is_figure(record.test_loss)
    ]


def _last(run: Run) -> float | None:
    evaluated = _test_losses(run)
    return evaluated[-1][1] if evaluated else None


def _unsteadiness(run: Run) -> float | None:
    late = [loss for t, loss in _test_losses(run) if t >= run.rounds / 2]
    return float(np.abs(np.diff(late)).mean()) if len(late) > 1 else None


def _mean_cell(values: Mapping[object, float]) -> Cell:
    average = mean(values)
    if average is None:
        return Cell("–", (None, None, 0))
    spread = float(np.std(list(values.values()), ddof=1)) if len(values) > 1 else None
    return Cell(
        number(average, 3) + ("" if spread is None else f" ± {number(spread, 3)}"),
        (average, spread, len(values)),
    )


def _steadiness(
    title: str, request: ExperimentRequest, values: Mapping[str, Sequence[Mapping[object, float]]]
) -> str:
    """Whether FedGS has a lower loss and a steadier curve."""
    words = []
    for place, word in ((0, "lowest test loss"), (2, "unsteadiness")):
        means = {
            row.key: average
            for row in _rows(request)
            if (average := mean(values[row.key][place])) is not None
        }
        if "fedgs-1" in means and len(means) > 1:
            below = [
                row
                for row, average in means.items()
                if row != "fedgs-1" and means["fedgs-1"] < average
            ]
            others = [row for row in means if row not in (*below, "fedgs-1")]
            relation = (
                f"below that of {', '.join(below)}" if below else "below that of no other method"
            )
            words.append(
                f"the {word} of fedgs 1 is {relation}"
                + (f", not of {', '.join(others)}" if below and others else "")
            )
    return (
        f"{title}: {'; '.join(words)}."
        if words
        else f"{title}: nothing to compare FedGS's curve with."
    )


def _with_figures(
    request: ExperimentRequest,
    records: ExperimentRecords,
    *,
    table: Table,
    verdict: Sequence[str],
    kind: str,
) -> Rendering:
    """The table with the runs and the figures, or nothing without runs."""
    panels, styles = _panels(request, records), _styles(request, records)

    def draw() -> "dict[str, Figure]":
        from fedgs.report import figures

        make = getattr(figures, kind)
        return {
            suffix: make(_labelled(request, runs), title=title, styles=styles)
            for suffix, title, runs in panels
        }

    if not panels:
        return Rendering(verdict=verdict)
    return Rendering(
        {"": table}, {"runs": runs_table("The runs of the figure", records.runs)}, verdict, draw
    )


if TYPE_CHECKING:
    from collections.abc import Callable

    _Figure = Callable[[Run], float | None]

_TAKES = frozenset({"data", "modes", "methods", "rounds", "seeds", "scale", "workers", "set"})
_DATA = (Source("fashion_mnist"), Source("cifar10"))
EXPERIMENTS = {
    "fig4": Experiment(
        name="fig4",
        title="Figure 4: final sampling counts",
        claim=(
            "FedGS at alpha 1 selects all clients about equally often, on FashionMNIST with YMF "
            "0.9 and on CIFAR10 with LN 0.5."
        ),
        takes=_TAKES,
        data=_DATA,
        plan=plan,
        render=render_counts,
        draws=True,
    ),
    "fig5": Experiment(
        name="fig5",
        title="Figure 5: test-loss curves",
        claim=(
            "FedGS makes training steadier and finds a better solution, on FashionMNIST with YMF "
            "0.9 and on CIFAR10 with LN 0.5."
        ),
        takes=_TAKES,
        data=_DATA,
        plan=plan,
        render=render_losses,
        draws=True,
    ),
}
