"""The comparison of methods: mean and spread over seeds, paired differences, and conclusions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from fedgs.errors import OutputError
from fedgs.report.by_client import CLIENT_FIGURES
from fedgs.report.doubles import latest
from fedgs.report.hour_columns import hour_columns, reachable_target
from fedgs.report.labels import conditions, labelled
from fedgs.report.methods import (
    ALL_FIGURES,
    FIRST_FIGURES,
    Difference,
    Method,
    headline,
    mean_over,
    methods_of,
    paired_difference,
)
from fedgs.report.metric_columns import metric_columns
from fedgs.report.notes import is_named, notes
from fedgs.report.numbers import listed, number, signed
from fedgs.report.run_view import Run
from fedgs.report.table import Block, Cell, Column, Table
from fedgs.report.targets import Target, target_cell, target_column

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


_CellOf = Callable[[Method, Sequence[Method]], Cell]
_Columns = list[tuple[Column, _CellOf]]


class _Group(NamedTuple):
    """Comparable methods: their title (data, availability), and sentences on left-out runs."""

    title: tuple[str, str]
    methods: list[Method]
    left_out: list[str]


@dataclass(frozen=True)
class _Figure:
    title: str
    decimals: int
    better: int = 0  # -1: lower is better, +1: higher is better, 0: no mark
    spread: bool = True
    meaning: str = ""


_TEST_LOSSES = ("test_loss", "last_test_loss")
_VALID_LOSSES = ("valid_loss", "last_valid_loss")
_FIGURES = {
    "test_loss": _Figure("lowest test loss", 3, -1),
    "last_test_loss": _Figure("last test loss", 3, -1),
    "valid_loss": _Figure(
        "lowest valid. loss", 3, -1, meaning="lowest loss on the clients' validation parts"
    ),
    "last_valid_loss": _Figure("last valid. loss", 3, -1),
    "loss_at_best_valid": _Figure(
        "at best valid.", 3, -1, meaning="test loss of the model with the lowest validation loss"
    ),
    "best_accuracy": _Figure("best accuracy", 3, 1),
    "final_accuracy": _Figure("last accuracy", 3, 1),
    "count_variance": _Figure(
        "count variance",
        1,
        spread=False,
        meaning="variance over clients of how often each was selected, 0 where all equally often",
    ),
    "largest_weight": _Figure(
        "largest weight",
        3,
        spread=False,
        meaning="of a client in a round; the sums are those of the weights of a round",
    ),
    "lowest_weight_sum": _Figure("lowest weight sum", 3, spread=False),
    "highest_weight_sum": _Figure("highest weight sum", 3, spread=False),
    "worst_client": _Figure(
        "worst client", 3, -1, meaning="highest loss of a client on its own examples"
    ),
    "worst_decile": _Figure(
        "worst decile",
        3,
        -1,
        meaning="mean loss of the tenth of the clients with the highest losses",
    ),
    "client_spread": _Figure(
        "client spread", 3, -1, meaning="highest minus lowest loss of a client"
    ),
    "client_variance": _Figure(
        "client variance", 3, -1, meaning="variance over clients of their losses"
    ),
    "decile_accuracy": _Figure(
        "decile accuracy",
        3,
        1,
        meaning="mean accuracy of the tenth of the clients with the lowest accuracies",
    ),
}


def comparison(
    runs: Iterable[Run],
    against: str | None = None,
    *,
    figures: Sequence[str] = FIRST_FIGURES,
    target: Target | None = None,
    at_hours: Sequence[float] = (),
) -> Table:
    """A table with a row for each method, sorted by the lowest test loss.

    A figure is the mean ± standard deviation over seeds; the paired difference is to `against`. The
    validation loss takes the place of the test loss where no run of a group has one, as in a
    deployment without a test set, and where settings of one method are compared and all have a
    validation loss. Failed runs are left out and named, and so are runs with the label and the seed
    of one that was started later. Runs with different data or availability are in separate blocks;
    several modes of one data set have a further block with the means over the modes. The same
    records give the same table.

    Args:
        runs: finished or not.
        against: label of the method to which others are compared, or its beginning: of several
            such labels, a method is compared to the one with its own training, model and
            evaluation. None: "uniform" if it is among them.
        figures: which figures to show, of `ALL_FIGURES`; CSV holds all of them.
        target: adds a column with the rounds to this target, and with the hours where runs have a
            clock; None: no such column, and for runs with a clock the hours to the largest of the
            methods' mean lowest test losses.
        at_hours: adds the figure of the target, or the test loss, at these hours.

    Raises:
        OutputError: no method has the label `against`.

    >>> from fedgs.records import Record
    >>> first = Run({"method": {"name": "md"}, "seed": 0}, [Record(0, test_loss=0.3)])
    >>> second = Run({"method": {"name": "md"}, "seed": 1}, [Record(0, test_loss=1.3)])
    >>> print(comparison([first, second]))
    method  lowest test loss  last test loss  count variance
    md           .800 ± .707     .800 ± .707               –
    Two seeds: ± is the standard deviation over them.
    count variance: variance over clients of how often each was selected, 0 where all equally often.
    """
    named = labelled(runs)
    reference, references = _references(named, against)
    groups = [
        _Group(title, *_methods([run for run in named if run.group == title]))
        for title in sorted({run.group for run in named})
    ]
    groups += _over_modes(groups)
    by_validation = bool(groups) and all(
        headline(group.methods) == "valid_loss" for group in groups
    )
    shown = _shown([group.methods for group in groups], figures, by_validation)
    columns = _columns(reference, references, shown, by_validation)
    if target is not None:
        columns.append((target_column(target), partial(target_cell, target)))
    every = [method for group in groups for method in group.methods]
    columns += metric_columns(every)
    columns += hour_columns(
        every,
        target or reachable_target(every),
        at_hours=at_hours,
        reference=reference,
        references=references,
    )
    blocks = tuple(_block(group, reference, columns) for group in groups)
    title = f"Methods by lowest {'validation' if by_validation else 'test'} loss"
    if len(blocks) == 1:
        title = f"{title}, {blocks[0].title}"
    return Table(title, tuple(column for column, _ in columns), blocks)


def _methods(runs: Sequence[Run]) -> tuple[list[Method], list[str]]:
    """The methods of one group, and sentences on the runs that are left out as copies."""
    shown, left_out = latest(runs)
    return methods_of(shown), left_out


def _over_modes(groups: Sequence[_Group]) -> list[_Group]:
    """For each data set with several modes, the methods that all of them have, with their means."""
    over = []
    for data in dict.fromkeys(group.title[0] for group in groups):
        of_data = [group for group in groups if group.title[0] == data]
        methods = mean_over([group.methods for group in of_data]) if len(of_data) > 1 else []
        if methods:
            modes = listed([group.title[1] for group in of_data])
            runs = [run for group in of_data for method in group.methods for run in method.runs]
            kind = "conditions" if len({bool(run.table("system")) for run in runs}) > 1 else "modes"
            title = (data, f"mean over {len(of_data)} {kind}")
            over.append(_Group(title, methods, [f"Each figure is the mean over {modes}."]))
    return over


def _references(runs: Sequence[Run], against: str | None) -> tuple[str | None, Mapping[str, str]]:
    """The name of the reference, and label -> label of the method that it is compared to.

    None, and no labels, where no method has another one to be compared to.
    """
    wanted = against or "uniform"
    labels = sorted({run.label for run in runs})
    named = [label for label in labels if label == wanted] or [
        label for label in labels if is_named(label, wanted)
    ]
    if not named and against is not None:
        raise OutputError(
            f"against must be one of the methods {', '.join(map(repr, labels))}; got {against!r}"
        )
    references = dict.fromkeys(labels, named[0]) if len(named) == 1 else _alike(runs, named)
    if all(label == reference for label, reference in references.items()):
        return None, {}
    return named[0] if len(named) == 1 else wanted, references


def _alike(runs: Sequence[Run], named: Sequence[str]) -> dict[str, str]:
    """Label -> the one reference that was given the same training, model and evaluation."""
    given: dict[str, set[str]] = {}
    for run in runs:
        given.setdefault(run.label, set()).add(conditions(run))
    references = {}
    for label, own in given.items():
        alike = [label] if label in named else [name for name in named if given[name] == own]
        if len(alike) == 1:
            references[label] = alike[0]
    return references


def _shown(
    groups: Sequence[Sequence[Method]], figures: Sequence[str], by_validation: bool
) -> list[str]:
    """The figures to show: the requested ones that a run has, and the losses of the ranking.

    Validation losses are shown if a method has them and no test loss. Where methods are ranked by
    the validation loss, it comes with the test loss of the model that it chooses.
    """
    methods = [method for group in groups for method in group]
    available = {figure for figure in ALL_FIGURES if any(m.figures[figure] for m in methods)}
    losses: list[str] = []
    if "test_loss" in available or "valid_loss" not in available:
        losses += _TEST_LOSSES
    if any(m.figures["valid_loss"] and not m.figures["test_loss"] for m in methods):
        losses += _VALID_LOSSES
    elif by_validation:
        losses += _VALID_LOSSES[:1]
    requested = {figure.replace("valid", "test") for figure in figures}
    wanted = [*figures, *(["loss_at_best_valid"] if by_validation else [])]
    others = [
        figure
        for figure in dict.fromkeys(wanted)
        if figure not in (*_TEST_LOSSES, *_VALID_LOSSES)
        and (figure in available or figure == "count_variance")
    ]
    return [loss for loss in losses if loss.replace("valid", "test") in requested] + others


def _columns(
    reference: str | None,
    references: Mapping[str, str],
    shown: Sequence[str],
    by_validation: bool,
) -> _Columns:
    """The columns, each with the function that makes its cell of a method among the others."""
    columns: _Columns = [(Column("method", ("method",), numeric=False), _label_cell)]
    compared = "valid_loss" if by_validation else "test_loss"
    first = ("valid_loss", "loss_at_best_valid") if by_validation else ()
    for figure in dict.fromkeys((*first, *_FIGURES)):
        if figure in CLIENT_FIGURES and figure not in shown:
            continue  # no run was evaluated by client
        look = _FIGURES[figure]
        fields = (f"{figure}_mean", f"{figure}_sd", f"{figure}_seeds")
        column = Column(look.title, fields, shown=figure in shown, meaning=look.meaning)
        columns.append((column, _figure_cell(figure)))
        if figure == compared and reference is not None:
            difference = Column(
                f"vs {reference} [95 %]", _DIFFERENCE_FIELDS, meaning=_difference_meaning(compared)
            )
            columns.append((difference, _difference_cell(references)))
    return columns


def _difference_meaning(figure: str) -> str:
    loss = _FIGURES[figure].title.replace("valid.", "validation")
    return f"mean difference of the {loss} over common seeds, and its 95 % interval"


def _label_cell(method: Method, _: Sequence[Method]) -> Cell:
    return Cell(method.label, (method.label,))


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
        mark = _mark(mean, look.better, [other.mean(figure) for other in methods])
        return Cell(text, (mean, deviation, len(values)), mark)

    return cell


def _mark(mean: float, better: int, means: Sequence[float | None]) -> str:
    """The mark by the mean: "best", "second" or ""; one mean has none, two have no second."""
    ranked = sorted({-better * value for value in means if value is not None})
    if better == 0 or len(ranked) < 2:
        return ""
    if mean == -better * ranked[0]:
        return "best"
    return "second" if len(ranked) > 2 and mean == -better * ranked[1] else ""


def _difference_cell(references: Mapping[str, str]) -> _CellOf:
    def cell(method: Method, methods: Sequence[Method]) -> Cell:
        reference = references.get(method.label)
        nothing = Cell("–", (reference, None, None, None, 0))
        other = next((candidate for candidate in methods if candidate.label == reference), None)
        if other is None or method.label == reference:
            return nothing
        figure = headline(methods)
        gap = paired_difference(method.figures[figure], other.figures[figure])
        if gap is None:
            return nothing
        text = signed(gap.mean)
        if gap.low is not None and gap.high is not None:
            text += f" [{signed(gap.low)}, {signed(gap.high)}]"
        return Cell(text, (reference, gap.mean, gap.low, gap.high, gap.pairs))

    return cell


def _block(group: _Group, reference: str | None, columns: _Columns) -> Block:
    methods = group.methods
    rows = tuple(tuple(make(method, methods) for _, make in columns) for method in methods)
    data, availability = group.title
    keys = (("data", data), ("availability", availability))
    return Block(keys, rows, (*notes(methods, reference), *group.left_out))
