"""The comparison of methods: mean and spread over seeds, paired differences with intervals, and what may be said of them."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from fedgs.errors import OutputError
from fedgs.records import Record  # noqa: F401  (docstring examples)
from fedgs.report.labels import labelled
from fedgs.report.layout import Block, Cell, Column, Table
from fedgs.report.run import Run
from fedgs.report.summary import Summary, summarize

__all__ = ["ALL_FIGURES", "FIRST_FIGURES", "Difference", "Table", "comparison", "paired_difference"]

FIRST_FIGURES = ("test_loss", "count_variance")
ALL_FIGURES = ("test_loss", "loss_at_best_valid", "best_accuracy", "final_accuracy", "count_variance")
_DIFFERENCE_FIELDS = ("difference_to", "difference_mean", "difference_low", "difference_high", "difference_pairs")
_NUMBER_WORDS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")


@dataclass(frozen=True)
class _Figure:
    title: str
    decimals: int
    better: int = 0  # -1: lower is better, +1: higher is better, 0: no mark
    spread: bool = True


_FIGURES = {
    "test_loss": _Figure("test loss", 3, -1),
    "loss_at_best_valid": _Figure("at best valid.", 3, -1),
    "best_accuracy": _Figure("best accuracy", 3, 1),
    "final_accuracy": _Figure("final accuracy", 3, 1),
    "count_variance": _Figure("count variance", 1, spread=False),
}


@dataclass(frozen=True)
class Difference:
    """A paired difference of two methods over common seeds.

    Attributes:
        mean: of (method - reference).
        low, high: ends of the 95 % t interval, or None with one common seed.
        pairs: number of common seeds.
    """

    mean: float
    low: float | None
    high: float | None
    pairs: int

    @property
    def covers_zero(self) -> bool:
        """Whether the interval is there and holds 0."""
        return self.low is not None and self.high is not None and self.low <= 0 <= self.high


def paired_difference(method: dict[object, float], reference: dict[object, float]) -> Difference | None:
    """Mean paired difference with a 95 % t interval, or None without a common seed.

    Args:
        method, reference: replicate -> figure.

    >>> paired_difference({0: 1.0, 1: 2.0}, {0: 0.5, 1: 1.5, 2: 9.0})
    Difference(mean=0.5, low=0.5, high=0.5, pairs=2)
    """
    common = sorted(set(method) & set(reference), key=repr)
    if not common:
        return None
    gaps = np.array([method[key] - reference[key] for key in common])
    mean = float(gaps.mean())
    if len(gaps) == 1:
        return Difference(mean, None, None, 1)
    half = float(stdtrit(len(gaps) - 1, 0.975) * gaps.std(ddof=1) / math.sqrt(len(gaps)))
    return Difference(mean, mean - half, mean + half, len(gaps))


@dataclass(frozen=True)
class _Method:
    """All runs of one label in one group."""

    label: str
    runs: tuple[Run, ...]
    figures: dict[str, dict[object, float]]  # figure -> replicate -> value

    def mean(self, figure: str) -> float | None:
        values = list(self.figures[figure].values())
        return float(np.mean(values)) if values else None


def comparison(runs: Iterable[Run], against: str | None = None, *, figures: Sequence[str] = FIRST_FIGURES) -> Table:
    """One row a method: mean ± standard deviation over seeds and the paired difference to `against`, sorted by mean test loss.

    Failed runs are left out and named. Runs of different data or availability are separate blocks. The same records give the
    same table.

    Args:
        runs: finished or not.
        against: label of the method that others are compared to; None: "uniform" where it is among them.
        figures: which figures to show, of `ALL_FIGURES`; CSV holds all of them.

    Raises:
        OutputError: no method is called `against`.

    >>> runs = [Run({"method": {"name": "md"}, "seed": seed}, [Record(0, test_loss=0.3 + seed)]) for seed in (0, 1)]
    >>> print(comparison(runs))
    method  test loss      count variance
    md      .800 ± .707                 –
    Two seeds: read the intervals, not the third digit.
    """
    named = labelled(runs)
    groups = {group: _methods([run for run in named if run.group == group]) for group in sorted({run.group for run in named})}
    labels = sorted({run.label for run in named})
    reference = _reference(labels, against)
    columns = _columns(reference, _with_values(groups.values(), figures))
    blocks = tuple(_block(group, methods, reference, columns) for group, methods in groups.items())
    title = ", ".join(["Methods by test loss", *(blocks[0].title for _ in blocks[:1] if len(blocks) == 1)])
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
    raise OutputError(f"against must be one of the methods {', '.join(map(repr, labels))}; got {against!r}")


def _methods(runs: Sequence[Run]) -> list[_Method]:
    methods = []
    for label in sorted({run.label for run in runs}):
        own = tuple(sorted((run for run in runs if run.label == label), key=lambda run: repr(run.replicate)))
        good = [(run, summarize(run)) for run in own if run.failure is None]
        methods.append(_Method(label, own, {figure: _values(good, figure) for figure in ALL_FIGURES}))
    worst = math.inf
    return sorted(methods, key=lambda method: (mean if (mean := method.mean("test_loss")) is not None else worst, method.label))


def _values(good: Sequence[tuple[Run, Summary]], figure: str) -> dict[object, float]:
    return {run.replicate: value for run, summary in good if (value := getattr(summary, figure)) is not None}


def _with_values(groups: Iterable[Sequence[_Method]], figures: Sequence[str]) -> list[str]:
    """The figures to show: those asked for, without an optional one that no run has."""
    have = {figure for methods in groups for method in methods for figure in ALL_FIGURES if method.figures[figure]}
    return [figure for figure in figures if figure in have or figure in FIRST_FIGURES]


_CellOf = Callable[[_Method, Sequence[_Method]], Cell]


def _columns(reference: str | None, shown: Sequence[str]) -> list[tuple[Column, _CellOf]]:
    columns: list[tuple[Column, _CellOf]] = [
        (Column("method", ("method",), numeric=False), lambda method, _: Cell(method.label, (method.label,)))
    ]
    for figure, look in _FIGURES.items():
        fields = (f"{figure}_mean", f"{figure}_sd", f"{figure}_seeds")
        columns.append((Column(look.title, fields, shown=figure in shown), _figure_cell(figure)))
        if figure == "test_loss" and reference is not None:
            columns.append((Column(f"vs {reference} [95 %]", _DIFFERENCE_FIELDS), _difference_cell(reference)))
    return columns


def _figure_cell(figure: str) -> _CellOf:
    look = _FIGURES[figure]

    def cell(method: _Method, methods: Sequence[_Method]) -> Cell:
        values = list(method.figures[figure].values())
        if not values:
            return Cell("–", (None, None, 0))
        mean = float(np.mean(values))
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
        text = number(mean, look.decimals)
        if look.spread and deviation is not None:
            text += f" ± {number(deviation, look.decimals)}"
        return Cell(text, (mean, deviation, len(values)), _mark(mean, look.better, [m.mean(figure) for m in methods]))

    return cell


def _mark(mean: float, better: int, means: Sequence[float | None]) -> str:
    """Best and second best by mean; no mark with one method, no second best with two."""
    ranked = sorted({-better * value for value in means if value is not None})
    if better == 0 or len(ranked) < 2:
        return ""
    place = ranked.index(-better * mean)
    return "best" if place == 0 else "second" if place == 1 and len(ranked) > 2 else ""


def _difference_cell(reference: str) -> _CellOf:
    def cell(method: _Method, methods: Sequence[_Method]) -> Cell:
        other = next((one for one in methods if one.label == reference), None)
        if other is None or method.label == reference:
            return Cell("–", (reference, None, None, None, 0))
        gap = paired_difference(method.figures["test_loss"], other.figures["test_loss"])
        if gap is None:
            return Cell("–", (reference, None, None, None, 0))
        text = signed(gap.mean)
        if gap.low is not None and gap.high is not None:
            text += f" [{signed(gap.low)}, {signed(gap.high)}]"
        return Cell(text, (reference, gap.mean, gap.low, gap.high, gap.pairs))

    return cell


def number(value: float, decimals: int) -> str:
    """A figure as tables show it: no zero before the point.

    >>> number(0.3214, 3), number(1.5, 3), number(0.42, 1), number(-0.0001, 3)
    ('.321', '1.500', '0.4', '.000')
    """
    text = f"{value:.{decimals}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    return text if decimals < 2 else text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def signed(value: float) -> str:
    """A difference with its sign, three decimals.

    >>> signed(0.0052), signed(-0.0281), signed(0.0)
    ('+.005', '-.028', '.000')
    """
    text = number(value, 3)
    return text if text.startswith("-") or float(text) == 0 else f"+{text}"


_Columns = list[tuple[Column, _CellOf]]


def _block(group: tuple[str, str], methods: Sequence[_Method], reference: str | None, columns: _Columns) -> Block:
    rows = tuple(tuple(make(method, methods) for _, make in columns) for method in methods)
    keys = (("data", group[0]), ("availability", group[1]))
    return Block(keys, rows, tuple(_notes(methods, reference)))


def _notes(methods: Sequence[_Method], reference: str | None) -> list[str]:
    """What may be said in words; every sentence is true of the records."""
    ranked = [method for method in methods if method.mean("test_loss") is not None]
    runs = [run for method in methods for run in method.runs]
    notes = [" ".join(part for part in (_lowest(ranked), _seeds(ranked)) if part)]
    if reference is not None and all(method.label != reference for method in methods):
        notes.append(f"No run of {reference} here: nothing to compare with.")
    return [note for note in [*notes, *_unequal(methods), *_standing(runs)] if note]


def _lowest(ranked: Sequence[_Method]) -> str:
    """Which mean is lowest, and which methods the paired intervals do not tell from it."""
    if len(ranked) < 2:
        return ""
    lowest = ranked[0].mean("test_loss")
    first = [method for method in ranked if method.mean("test_loss") == lowest]
    so_far = "" if all(run.finished for method in ranked for run in method.runs if run.failure is None) else " so far"
    if len(first) > 1:
        return f"{_listed([method.label for method in first])} have the same lowest mean{so_far}."
    gaps = [(other.label, paired_difference(other.figures["test_loss"], first[0].figures["test_loss"])) for other in ranked[1:]]
    ties = [label for label, gap in gaps if gap is not None and gap.covers_zero]
    if not ties:
        return f"{first[0].label} is lowest{so_far}."
    intervals = "interval of its difference" if len(ties) == 1 else "intervals of its differences"
    hold = "includes" if len(ties) == 1 else "include"
    return f"{first[0].label} has the lowest mean{so_far}; the 95 % {intervals} to {_listed(ties)} {hold} 0."


def _seeds(ranked: Sequence[_Method]) -> str:
    seeds = max((len(method.figures["test_loss"]) for method in ranked), default=0)
    if seeds == 1:
        return "One seed: no spread and no interval."
    return f"{_NUMBER_WORDS[seeds]} seeds: read the intervals, not the third digit." if 1 < seeds < 10 else ""


def _unequal(methods: Sequence[_Method]) -> list[str]:
    notes = []
    most = max((len(method.figures["test_loss"]) for method in methods), default=0)
    fewer = [method for method in methods if len(method.figures["test_loss"]) < most]
    if fewer:
        if most == 1:
            notes.append(f"Without a figure yet: {_listed([method.label for method in fewer])}.")
        else:
            held = ", ".join(f"{method.label} ({len(method.figures['test_loss'])})" for method in fewer)
            notes.append(f"Fewer than {most} seeds: {held}.")
    rounds = sorted({run.rounds for method in methods for run in method.runs})
    if len(rounds) > 1:
        notes.append(f"Runs have different numbers of rounds ({', '.join(map(str, rounds))}): their figures are not comparable.")
    return notes


def _standing(runs: Sequence[Run]) -> list[str]:
    """Which runs are unfinished or failed."""
    unfinished = [run for run in runs if run.failure is None and not run.finished]
    failed = [run for run in runs if run.failure is not None]
    notes = []
    if unfinished:
        told = ", ".join(f"{run.label} seed {run.seed} ({run.rounds_done} of {run.rounds} rounds)" for run in unfinished[:6])
        more = f" and {len(unfinished) - 6} more" if len(unfinished) > 6 else ""
        notes.append(f"Unfinished: {told}{more}.")
    for run in failed:
        failure = run.failure or {}
        notes.append(f"Failed and left out: {run.label} seed {run.seed} in round {failure.get('round')}: {failure.get('error')}")
    return notes


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
