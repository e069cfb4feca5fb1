"""The comparison of methods: mean and spread over seeds, paired differences with intervals, and what may be said of them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fedgs.errors import OutputError
from fedgs.records import Record  # noqa: F401  (docstring examples)
from fedgs.report.doubles import latest
from fedgs.report.labels import labelled
from fedgs.report.methods import (
    ALL_FIGURES,
    FIRST_FIGURES,
    Difference,
    Method,
    headline,
    methods_of,
    paired_difference,
)
from fedgs.report.notes import notes
from fedgs.report.numbers import number, signed
from fedgs.report.run_view import Run
from fedgs.report.table import Block, Cell, Column, Table

__all__ = [
    "ALL_FIGURES",
    "FIRST_FIGURES",
    "Difference",
    "Table",
    "comparison",
    "number",
    "paired_difference",
    "signed",
]

_DIFFERENCE_FIELDS = (
    "difference_to",
    "difference_mean",
    "difference_low",
    "difference_high",
    "difference_pairs",
)


@dataclass(frozen=True)
class _Figure:
    title: str
    decimals: int
    better: int = 0  # -1: lower is better, +1: higher is better, 0: no mark
    spread: bool = True


_FIGURES = {
    "test_loss": _Figure("lowest test loss", 3, -1),
    "last_test_loss": _Figure("last test loss", 3, -1),
    "valid_loss": _Figure("lowest valid. loss", 3, -1),
    "last_valid_loss": _Figure("last valid. loss", 3, -1),
    "loss_at_best_valid": _Figure("at best valid.", 3, -1),
    "best_accuracy": _Figure("best accuracy", 3, 1),
    "final_accuracy": _Figure("last accuracy", 3, 1),
    "count_variance": _Figure("count variance", 1, spread=False),
}


def comparison(
    runs: Iterable[Run], against: str | None = None, *, figures: Sequence[str] = FIRST_FIGURES
) -> Table:
    """One row a method, sorted by the lowest test loss: mean ± standard deviation over seeds, paired difference to `against`.

    Where no run of a group has a test loss, as in a deployment without a test set, the validation
    loss takes its place. Failed runs are left out and named, and so are runs with the label and the
    seed of one that was started later. Runs of different data or availability are separate blocks.
    The same records give the same table.

    Args:
        runs: finished or not.
        against: label of the method that others are compared to; None: "uniform" where it is among
            them.
        figures: which figures to show, of `ALL_FIGURES`; CSV holds all of them.

    Raises:
        OutputError: no method is called `against`.

    >>> runs = [Run({"method": {"name": "md"}, "seed": seed}, [Record(0, test_loss=0.3 + seed)]) for seed in (0, 1)]
    >>> print(comparison(runs))
    method  lowest test loss  last test loss  count variance
    md           .800 ± .707     .800 ± .707               –
    Two seeds: read the intervals, not the third digit.
    """
    named = labelled(runs)
    labels = sorted({run.label for run in named})
    reference = _reference(labels, against)
    groups: dict[tuple[str, str], list[Method]] = {}
    doubles: dict[tuple[str, str], list[str]] = {}
    for group in sorted({run.group for run in named}):
        kept, doubles[group] = latest([run for run in named if run.group == group])
        groups[group] = methods_of(kept)
    columns = _columns(reference, _shown(groups.values(), figures))
    blocks = tuple(
        _block(group, methods, reference, columns, doubles[group])
        for group, methods in groups.items()
    )
    only_valid = bool(groups) and all(
        headline(methods) == "valid_loss" for methods in groups.values()
    )
    title = f"Methods by lowest {'validation' if only_valid else 'test'} loss"
    title = ", ".join([title, *(blocks[0].title for _ in blocks[:1] if len(blocks) == 1)])
    return Table(title, tuple(column for column, _ in columns), blocks)


def _reference(labels: Sequence[str], against: str | None) -> str | None:
    wanted = against or "uniform"
    if wanted in labels:
        return wanted
    starting = [label for label in labels if label.startswith(wanted + " ")]
    if len(starting) == 1:
        return starting[0]
    if against is None:
        return None
    raise OutputError(
        f"against must be one of the methods {', '.join(map(repr, labels))}; got {against!r}"
    )


def _shown(groups: Iterable[Sequence[Method]], figures: Sequence[str]) -> list[str]:
    """The figures to show: those asked for that a run has, and the losses that the groups are ranked by.

    Validation losses are shown where a method has them and no test loss.
    """
    groups = list(groups)
    have = {
        figure
        for methods in groups
        for method in methods
        for figure in ALL_FIGURES
        if method.figures[figure]
    }
    shown = [figure for figure in figures if figure in have or figure == "count_variance"]
    test = (
        ["test_loss", "last_test_loss"] if "test_loss" in have or "valid_loss" not in have else []
    )
    instead = any(
        m.figures["valid_loss"] and not m.figures["test_loss"]
        for methods in groups
        for m in methods
    )
    valid = ["valid_loss", "last_valid_loss"] if instead else []
    others = [
        figure
        for figure in shown
        if figure not in ("test_loss", "last_test_loss", "valid_loss", "last_valid_loss")
    ]
    asked = {figure.replace("valid", "test") for figure in figures}
    return [
        figure for figure in (*test, *valid) if figure.replace("valid", "test") in asked
    ] + others


_CellOf = Callable[[Method, Sequence[Method]], Cell]
_Columns = list[tuple[Column, _CellOf]]


def _columns(reference: str | None, shown: Sequence[str]) -> _Columns:
    columns: _Columns = [
        (
            Column("method", ("method",), numeric=False),
            lambda method, _: Cell(method.label, (method.label,)),
        )
    ]
    compared = "valid_loss" if "test_loss" not in shown and "valid_loss" in shown else "test_loss"
    for figure, look in _FIGURES.items():
        fields = (f"{figure}_mean", f"{figure}_sd", f"{figure}_seeds")
        columns.append((Column(look.title, fields, shown=figure in shown), _figure_cell(figure)))
        if figure == compared and reference is not None:
            columns.append(
                (Column(f"vs {reference} [95 %]", _DIFFERENCE_FIELDS), _difference_cell(reference))
            )
    return columns


def _figure_cell(figure: str) -> _CellOf:
    look = _FIGURES[figure]

    def cell(method: Method, methods: Sequence[Method]) -> Cell:
        values = list(method.figures[figure].values())
        if not values:
            return Cell("–", (None, None, 0))
        mean = float(np.mean(values))
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
        text = number(mean, look.decimals)
        if look.spread and deviation is not None:
            text += f" ± {number(deviation, look.decimals)}"
        return Cell(
            text,
            (mean, deviation, len(values)),
            _mark(mean, look.better, [m.mean(figure) for m in methods]),
        )

    return cell


def _mark(mean: float, better: int, means: Sequence[float | None]) -> str:
    """Best and second best by mean; no mark with one method, no second best with two."""
    ranked = sorted({-better * value for value in means if value is not None})
    if better == 0 or len(ranked) < 2:
        return ""
    place = ranked.index(-better * mean)
    return "best" if place == 0 else "second" if place == 1 and len(ranked) > 2 else ""


def _difference_cell(reference: str) -> _CellOf:
    def cell(method: Method, methods: Sequence[Method]) -> Cell:
        other = next((one for one in methods if one.label == reference), None)
        if other is None or method.label == reference:
            return Cell("–", (reference, None, None, None, 0))
        figure = headline(methods)
        gap = paired_difference(method.figures[figure], other.figures[figure])
        if gap is None:
            return Cell("–", (reference, None, None, None, 0))
        text = signed(gap.mean)
        if gap.low is not None and gap.high is not None:
            text += f" [{signed(gap.low)}, {signed(gap.high)}]"
        return Cell(text, (reference, gap.mean, gap.low, gap.high, gap.pairs))

    return cell


def _block(
    group: tuple[str, str],
    methods: Sequence[Method],
    reference: str | None,
    columns: _Columns,
    doubles: Sequence[str],
) -> Block:
    rows = tuple(tuple(make(method, methods) for _, make in columns) for method in methods)
    keys = (("data", group[0]), ("availability", group[1]))
    return Block(keys, rows, (*notes(methods, reference), *doubles))
