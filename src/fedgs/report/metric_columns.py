"""Columns of the metrics of `evaluation.metrics`: best and last value, by their directions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from fedgs.report.methods import Method
from fedgs.report.numbers import number
from fedgs.report.run_view import Run
from fedgs.report.summary import evaluated, is_figure
from fedgs.report.table import Cell, Column

__all__ = ["best_and_last", "better_of", "further_figures", "metric_columns", "ranges_of"]

_CellOf = Callable[[Method, Sequence[Method]], Cell]
_ValuesOf = Callable[[Method], list[float]]


def better_of(runs: Iterable[Run]) -> dict[str, int]:
    """Name of each metric that a run has -> 1 if higher values are better, -1 if lower ones are.

    The directions are stored with the runs, so that metrics of plug-ins need no plug-in here.

    >>> about = {"run": {"metrics": {"mean_absolute_error": "lower", "auc": "higher"}}}
    >>> better_of([Run(about, ())])
    {'mean_absolute_error': -1, 'auc': 1}
    """
    found: dict[str, int] = {}
    for run in runs:
        stored = run.about.get("metrics", {})
        for name, direction in stored.items() if isinstance(stored, Mapping) else ():
            found.setdefault(str(name), -1 if direction == "lower" else 1)
    return found


def ranges_of(runs: Iterable[Run]) -> dict[str, tuple[float, float]]:
    """Name of each metric with a known range -> its lowest and highest value, as stored with runs.

    >>> ranges_of([Run({"run": {"metric_ranges": {"auc": [0.0, 1.0]}}}, ())])
    {'auc': (0.0, 1.0)}
    """
    found: dict[str, tuple[float, float]] = {}
    for run in runs:
        stored = run.about.get("metric_ranges", {})
        for name, ends in stored.items() if isinstance(stored, Mapping) else ():
            if isinstance(ends, list) and len(ends) == 2:
                found.setdefault(str(name), (float(ends[0]), float(ends[1])))
    return found


def further_figures(runs: Iterable[Run]) -> dict[str, str]:
    """Figure -> title, of each metric on the test set, and on validation parts if it has values.

    The accuracy on the test set is a figure of every run, and not among them.

    >>> further_figures([Run({"run": {"metrics": {"auc": "higher"}}}, ())])
    {'test_auc': 'test auc'}
    """
    given = list(runs)
    names = better_of(given)
    titles = {f"test_{name}": f"test {name}" for name in names if name != "accuracy"}
    for name in names:
        if any(evaluated(run, f"valid_{name}") for run in given):
            titles[f"valid_{name}"] = f"validation {name}"
    return titles


def best_and_last(
    run: Run, name: str, better: int, part: str = "test"
) -> tuple[float, float] | None:
    """The best finite value of a metric and the last one; None where it was never computed.

    Args:
        run: finished or not.
        name: of the metric.
        better: 1 or -1, see `better_of`.
        part: "test" or "valid".

    >>> from fedgs.records import Record
    >>> records = [Record(t, test_metrics={"auc": v}) for t, v in enumerate((0.5, 0.9, 0.8))]
    >>> best_and_last(Run({}, records), "auc", 1), best_and_last(Run({}, records), "auc", -1)
    ((0.9, 0.8), (0.5, 0.8))
    """
    values = [value for _, value in evaluated(run, f"{part}_{name}") if is_figure(value)]
    return (better * max(better * value for value in values), values[-1]) if values else None


def metric_columns(methods: Sequence[Method]) -> list[tuple[Column, _CellOf]]:
    """Two columns for each metric: its best and its last value, the mean over seeds.

    A metric that was computed on validation parts has two more columns for them.

    Args:
        methods: of all blocks of the table.
    """
    columns: list[tuple[Column, _CellOf]] = []
    runs = [run for method in methods for run in method.runs]
    for name, better in better_of(runs).items():
        direction = "highest" if better > 0 else "lowest"
        for part in ("test", "valid"):
            if part == "valid" and not any(evaluated(run, f"valid_{name}") for run in runs):
                continue
            if part == "test" and name == "accuracy":  # which has columns in every table
                continue
            prefix, words = ("", "") if part == "test" else ("valid_", "valid. ")
            for which in ("best", "last"):
                stem = f"{which}_{prefix}{name}"
                fields = tuple(f"{stem}_{value}" for value in ("mean", "sd", "seeds"))
                title = f"{direction if which == 'best' else which} {words}{name}"
                values_of = partial(_values, name=name, better=better, which=which, part=part)
                columns.append((Column(title, fields), partial(_cell, values_of, better)))
    return columns


def _cell(values_of: _ValuesOf, better: int, method: Method, methods: Sequence[Method]) -> Cell:
    values = values_of(method)
    if not values:
        return Cell("–", (None, None, 0))
    mean = float(np.mean(values))
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
    text = number(mean, 3) + ("" if deviation is None else f" ± {number(deviation, 3)}")
    others = [float(np.mean(of)) for other in methods if (of := values_of(other))]
    ranked = sorted({-better * value for value in others})
    mark = "best" if len(ranked) > 1 and mean == -better * ranked[0] else ""
    if len(ranked) > 2 and mean == -better * ranked[1]:
        mark = "second"
    return Cell(text, (mean, deviation, len(values)), mark)


def _values(method: Method, name: str, better: int, which: str, part: str) -> list[float]:
    """The value of each replicate, without failed runs.

    Where a method has runs under several modes, it is the mean over them, of the replicates that
    have a value under each.
    """
    modes = {run.group for run in method.runs}
    found: dict[object, list[float]] = {}
    for run in method.runs:
        figures = None if run.failure is not None else best_and_last(run, name, better, part)
        if figures is not None:
            found.setdefault(run.replicate, []).append(figures[which == "last"])
    return [float(np.mean(of)) for of in found.values() if len(of) == len(modes)]
