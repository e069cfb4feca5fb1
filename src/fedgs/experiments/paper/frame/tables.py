"""Cells and tables that several experiments have."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from fedgs.experiments.paper.frame.experiment import LoadedRun
from fedgs.experiments.paper.frame.sentences import mean
from fedgs.report.run_view import Run
from fedgs.report.table import Block, Cell, Column, Table
from fedgs.report.tables import number

__all__ = ["beside_paper", "mean_cell", "rank_mark", "runs_table", "standard_deviation"]


def standard_deviation(values: Collection[float]) -> float | None:
    """The sample standard deviation over replicates; None below two.

    >>> standard_deviation([1.0, 3.0]), standard_deviation([1.0])
    (1.414..., None)
    """
    return float(np.std(list(values), ddof=1)) if len(values) > 1 else None


def mean_cell(
    values: Collection[float], *, decimals: int = 3, missing: str = "–", mark: str = ""
) -> Cell:
    """Mean ± standard deviation over replicates.

    CSV holds the mean, the standard deviation and the number of replicates.

    Args:
        values: one a replicate.
        decimals: of the text.
        missing: the text without values.
        mark: "best", "second" or "".

    >>> mean_cell([0.25, 0.35]).text, mean_cell([], missing="not run").text
    ('.300 ± .071', 'not run')
    """
    if not values:
        return Cell(missing, (None, None, 0))
    average, deviation = float(np.mean(list(values))), standard_deviation(values)
    spread = "" if deviation is None else f" ± {number(deviation, decimals)}"
    return Cell(f"{number(average, decimals)}{spread}", (average, deviation, len(values)), mark)


def beside_paper(cell: Cell, figure: float | None) -> Cell:
    """The cell with the paper's figure in brackets and in CSV; None: the paper has no figure.

    >>> beside_paper(mean_cell([0.25]), 0.302).text
    '.250 (.302)'
    """
    text = cell.text if figure is None else f"{cell.text} ({number(figure, 3)})"
    return replace(cell, text=text, values=(*cell.values, figure))


def rank_mark(values: Mapping[object, float], column: Iterable[Mapping[object, float]]) -> str:
    """How the mean of a cell is marked among all cells of its column.

    The lowest is "best" of at least two different means, the next one "second" of at least three.

    >>> low, middle, high = {0: 0.1}, {0: 0.2}, {0: 0.3}
    >>> [rank_mark(values, [low, middle, high]) for values in (low, middle, high)]
    ['best', 'second', '']
    >>> [rank_mark(values, [low, high]) for values in (low, high)]
    ['best', '']
    """
    means = sorted({average for other in column if (average := mean(other)) is not None})
    if len(means) < 2:
        return ""
    average = mean(values)
    if average == means[0]:
        return "best"
    return "second" if average == means[1] and len(means) > 2 else ""


def runs_table(title: str, runs: Sequence[LoadedRun]) -> Table:
    """Every run with its figure and its folder: the origin of each number in the other tables."""
    columns = [
        Column(name, (name,), numeric=name in ("seed", "rounds", "test_loss"))
        for name in _RUN_FIELDS
    ]
    rows = []
    for loaded in runs:
        run = loaded.run
        values = (
            loaded.data,
            loaded.mode,
            loaded.row,
            run.seed,
            run.rounds_done,
            loaded.test_loss,
            _standing(run),
            run.name,
        )
        rows.append(tuple(Cell("–" if value is None else str(value), (value,)) for value in values))
    return Table(title, tuple(columns), (Block((), tuple(rows)),))


_RUN_FIELDS = ("data", "mode", "row", "seed", "rounds", "test_loss", "standing", "folder")


def _standing(run: Run) -> str:
    return "failed" if run.failure is not None else "finished" if run.finished else "unfinished"
