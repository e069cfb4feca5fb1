"""Rounds to a target: the first round at which a figure is reached, and its median over seeds.

The rule is `fedgs.targets.first_reached`. A seed that does not reach the target is censored: it
counts as later than every round, so that the median is that of all seeds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedgs.errors import ConfigError
from fedgs.report.methods import Method
from fedgs.report.numbers import number
from fedgs.report.run_view import Run
from fedgs.report.summary import evaluated
from fedgs.report.table import Cell, Column
from fedgs.targets import first_reached

__all__ = ["Target", "mean_target_cell", "rounds_to", "target_cell", "target_column"]

_TITLES = {
    "test_loss": "test loss",
    "valid_loss": "validation loss",
    "test_accuracy": "test accuracy",
}
_PARTS = {"valid": "validation"}


@dataclass(frozen=True)
class Target:
    """A value of a figure that runs are to reach.

    Attributes:
        value: the target, finite; of the test accuracy in [0, 1].
        figure: "test_loss", "valid_loss", "test_accuracy", or "test_" or "valid_" and the name of a
            metric.
        better: whether "higher" or "lower" values are better, for a metric.

    Raises:
        ConfigError: no such figure, a metric without a direction, or a value that is not finite.

    >>> Target(0.4).title
    'rounds to test loss .400'
    """

    value: float
    figure: str = "test_loss"
    better: Literal["higher", "lower"] | None = None

    def __post_init__(self) -> None:
        if self.figure not in _TITLES and self.better is None:
            known = ", ".join(map(repr, _TITLES))
            raise ConfigError(
                f"the figure of a target must be {known}, or that of a metric with the direction "
                f"`better`; got {self.figure!r}"
            )
        if not math.isfinite(self.value):
            raise ConfigError(f"a target must be a finite number, got {self.value}")
        if self.figure == "test_accuracy" and not 0 <= self.value <= 1:
            raise ConfigError(
                f"a target of the test accuracy must be in [0, 1], a share, got {self.value:g}"
            )

    @property
    def higher(self) -> bool:
        """Whether higher values are better."""
        return self.figure == "test_accuracy" or self.better == "higher"

    @property
    def title(self) -> str:
        """The title of the column."""
        part, _, metric = self.figure.partition("_")
        name = _TITLES.get(self.figure, f"{_PARTS.get(part, part)} {metric}")
        return f"rounds to {name} {number(self.value, 3)}"


def rounds_to(run: Run, target: Target) -> int | None:
    """The round at which a run reaches the target; None: it does not.

    It is the round of the first of two evaluations in a row at the target or beyond it.

    >>> from fedgs.records import Record
    >>> records = [Record(0, test_loss=0.9), Record(5, test_loss=0.4), Record(10, test_loss=0.3)]
    >>> rounds_to(Run({}, records), Target(0.5)), rounds_to(Run({}, records), Target(0.3))
    (5, None)
    """
    figures = evaluated(run, target.figure)
    place = first_reached([value for _, value in figures], target.value, higher=target.higher)
    return None if place is None else figures[place][0]


def target_column(target: Target) -> Column:
    """The column of the rounds to a target."""
    return Column(
        target.title,
        ("target", "rounds_to_target_median", "reached", "seeds"),
        meaning="median over seeds of the first of two evaluations in a row that reach the target, "
        "and how many seeds reach it",
    )


def target_cell(target: Target, method: Method, methods: Sequence[Method]) -> Cell:
    """The median of the rounds to the target over a method's seeds; failed runs are left out.

    Where half of the seeds do not reach the target, the median is only known to be later than the
    last evaluation of such a seed.
    """
    if len({run.group for run in method.runs}) > 1:
        return mean_target_cell(target)
    rounds = _rounds(method, target)
    if not rounds:
        return Cell("–", (target.value, None, 0, 0))
    median, reached = float(np.median(rounds)), sum(map(math.isfinite, rounds))
    text = f"{median:g}" if math.isfinite(median) else f"> {_followed(method, target)}"
    others = [float(np.median(of)) for other in methods if (of := _rounds(other, target))]
    best = min(others)
    mark = "best" if median == best and math.isfinite(median) and len(set(others)) > 1 else ""
    values = (target.value, median if math.isfinite(median) else None, reached, len(rounds))
    return Cell(f"{text} ({reached}/{len(rounds)})", values, mark)


def mean_target_cell(target: Target) -> Cell:
    """The cell of a method in a block of means over modes, which have no common median."""
    return Cell("–", (target.value, None, None, None))


def _rounds(method: Method, target: Target) -> list[float]:
    """The rounds to the target of each run that did not fail; inf where it is not reached."""
    rounds = []
    for run in method.runs:
        if run.failure is None and evaluated(run, target.figure):
            found = rounds_to(run, target)
            rounds.append(math.inf if found is None else float(found))
    return rounds


def _followed(method: Method, target: Target) -> int:
    """The earliest last evaluation of the runs that do not reach the target."""
    runs = [run for run in method.runs if run.failure is None and evaluated(run, target.figure)]
    return min(
        evaluated(run, target.figure)[-1][0] for run in runs if rounds_to(run, target) is None
    )
