"""The columns of a table that are about time: hours to a target, and what the rounds needed."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from fedgs.report.hours import at_hour, has_clock, hours_to, time_figures
from fedgs.report.methods import Method, paired_difference
from fedgs.report.numbers import number, signed
from fedgs.report.run_view import Run
from fedgs.report.summary import evaluated
from fedgs.report.table import Cell, Column
from fedgs.report.targets import Target

__all__ = ["hour_columns", "reachable_target"]

_CellOf = Callable[[Method, Sequence[Method]], Cell]

_LOOKS = {
    "seconds": ("a round", "{:.0f} s", "mean seconds of a round with a cohort"),
    "answered": ("answered", "", "share of the selected clients that answered in time"),
    "lost_work": (
        "lost work",
        "",
        "share of the clients' seconds of work whose answer was late, or did not come",
    ),
    "gigabytes": ("GB", "{:.3g}", "models sent to clients and answers, 1e9 bytes each"),
    "hours": ("hours", "{:.3g}", "of the whole run, mean over seeds"),
}


def hour_columns(
    methods: Sequence[Method],
    target: Target | None,
    *,
    at_hours: Sequence[float] = (),
    references: Mapping[str, str] | None = None,
    reference: str | None = None,
) -> list[tuple[Column, _CellOf]]:
    """The columns, each with the function of its cells; none where no run has a clock.

    Args:
        methods: of all groups.
        target: to be reached; None: no hours to a target.
        at_hours: hours at which the target's figure (else the test loss) is shown.
        references: label -> label of the method that it is compared to.
        reference: the name of the reference; None: no differences.
    """
    if not any(has_clock(run) for method in methods for run in method.runs):
        return []
    columns: list[tuple[Column, _CellOf]] = []
    if target is not None:
        columns.append((_target_column(target), partial(_target_cell, target)))
        if reference is not None:
            column = Column(
                f"hours vs {reference} [95 %]",
                ("hours_difference_to", "hours_difference_mean", "hours_difference_low",
                 "hours_difference_high", "hours_difference_pairs"),
                meaning="mean difference of the hours to the target over common seeds, where all "
                "of them reach it, and its 95 % interval",
            )  # fmt: skip
            columns.append((column, partial(_difference_cell, target, references or {})))
    for name, (title, _, meaning) in _LOOKS.items():
        fields = (f"{name}_mean", f"{name}_sd", f"{name}_seeds")
        columns.append((Column(title, fields, meaning=meaning), partial(_figure_cell, name)))
    figure = "test_loss" if target is None else target.figure
    for hour in at_hours:
        title = f"{figure.replace('_', ' ')} at {hour:g} h"
        fields = (f"{figure}_at_{hour:g}_h", f"{figure}_at_{hour:g}_h_sd", f"at_{hour:g}_h_seeds")
        meaning = f"{figure.replace('_', ' ')} of the last model evaluated by hour {hour:g}"
        columns.append((Column(title, fields, meaning=meaning), partial(_hour_cell, figure, hour)))
    return columns


def reachable_target(methods: Sequence[Method]) -> Target | None:
    """The largest of the methods' mean lowest test losses, which all of them reach on average.

    It is rounded up to three decimals; None where no method has a test loss.
    """
    means = [mean for method in methods if (mean := method.mean("test_loss")) is not None]
    return Target(math.ceil(1000 * max(means) - 1e-9) / 1000) if means else None


def _clocked(method: Method) -> list[Run]:
    """The runs of one group with a clock that did not fail; none in a mean over modes."""
    if len({run.group for run in method.runs}) > 1:
        return []
    return [run for run in method.runs if run.failure is None and has_clock(run)]


def _target_column(target: Target) -> Column:
    return Column(
        target.title.replace("rounds", "hours", 1),
        ("hours_target", "hours_to_target_median", "hours_reached", "hours_seeds"),
        meaning="median over seeds of the hour of the first of two evaluations in a row that reach "
        "the target, and how many seeds reach it",
    )


def _hours(method: Method, target: Target) -> dict[object, float]:
    """Replicate -> hours to the target; inf where it is not reached."""
    hours: dict[object, float] = {}
    for run in _clocked(method):
        if evaluated(run, target.figure):
            found = hours_to(run, target)
            hours[run.replicate] = math.inf if found is None else found
    return hours


def _target_cell(target: Target, method: Method, methods: Sequence[Method]) -> Cell:
    hours = list(_hours(method, target).values())
    if not hours:
        return Cell("–", (target.value, None, 0, 0))
    median, reached = float(np.median(hours)), sum(map(math.isfinite, hours))
    if math.isfinite(median):
        text = f"{median:.3g}"
    else:
        ends = [
            time_figures(run).hours for run in _clocked(method) if hours_to(run, target) is None
        ]
        text = f"> {min(ends, default=0.0):.3g}"
    others = [float(np.median(list(of.values()))) for m in methods if (of := _hours(m, target))]
    is_best = median == min(others) and math.isfinite(median) and len(set(others)) > 1
    values = (target.value, median if math.isfinite(median) else None, reached, len(hours))
    return Cell(f"{text} ({reached}/{len(hours)})", values, "best" if is_best else "")


def _difference_cell(
    target: Target, references: Mapping[str, str], method: Method, methods: Sequence[Method]
) -> Cell:
    """The paired difference of the hours, only where every common seed of both reaches it."""
    reference = references.get(method.label)
    nothing = Cell("–", (reference, None, None, None, 0))
    other = next((one for one in methods if one.label == reference), None)
    if other is None or method.label == reference:
        return nothing
    own, others = _hours(method, target), _hours(other, target)
    common = set(own) & set(others)
    if not all(math.isfinite(own[key]) and math.isfinite(others[key]) for key in common):
        return nothing
    gap = paired_difference(own, others)
    if gap is None:
        return nothing
    text = signed(gap.mean)
    if gap.low is not None and gap.high is not None:
        text += f" [{signed(gap.low)}, {signed(gap.high)}]"
    return Cell(text, (reference, gap.mean, gap.low, gap.high, gap.pairs))


def _figure_cell(name: str, method: Method, methods: Sequence[Method]) -> Cell:
    values = [getattr(time_figures(run), name) for run in _clocked(method)]
    return _mean_cell(
        [value for value in values if value is not None], _LOOKS[name][1], spread=False
    )


def _hour_cell(figure: str, hour: float, method: Method, methods: Sequence[Method]) -> Cell:
    values = [at_hour(run, figure, hour) for run in _clocked(method)]
    known = [value for value in values if value is not None]
    return _mean_cell(known if len(known) == len(values) else [], "", spread=True)


def _mean_cell(values: Sequence[float], form: str, *, spread: bool) -> Cell:
    if not values:
        return Cell("–", (None, None, 0))
    mean = float(np.mean(values))
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
    text = form.format(mean) if form else number(mean, 3)
    if spread and deviation is not None:
        text += f" ± {number(deviation, 3)}"
    return Cell(text, (mean, deviation, len(values)))
