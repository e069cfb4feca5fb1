"""Figures of time: what a run with a clock needed, and its figures of merit by hours.

They are made of records with a clock, which runs with a table `[system]` have.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedgs.arrays import FloatArray
from fedgs.report.history import Curve
from fedgs.report.run_view import Run
from fedgs.report.summary import is_figure
from fedgs.report.targets import Target, rounds_to

__all__ = ["TimeFigures", "at_hour", "has_clock", "hours_to", "time_curve", "time_figures"]

HOUR = 3600.0
_MOST_POINTS = 250  # of a curve


@dataclass(frozen=True)
class TimeFigures:
    """What the rounds of a run needed; a figure is None if no round had a cohort.

    Attributes:
        seconds: of a round with a cohort, on average.
        answered: share of the selected clients that answered in time.
        lost_work: share of the clients' seconds of work that was not used.
        gigabytes: models sent to clients and answers, 1e9 bytes each.
        hours: of the whole run so far.
    """

    seconds: float | None
    answered: float | None
    lost_work: float | None
    gigabytes: float
    hours: float


def has_clock(run: Run) -> bool:
    """Whether the records of a run have a clock."""
    return any(record.clock is not None for record in run.records[:1])


def time_figures(run: Run) -> TimeFigures:
    """The figures of time of a run with a clock, finished or not.

    >>> from fedgs.records import Record
    >>> first = Record(0, cohort=["a", "b"], clock=0.0, seconds=1800.0, traffic=3 * 10**9,
    ...                fates=["answered", "late"], worked=[600.0, 1800.0])
    >>> time_figures(Run({}, [first, Record(1, clock=1800.0)]))
    TimeFigures(seconds=1800.0, answered=0.5, lost_work=0.75, gigabytes=3.0, hours=0.5)
    """
    played = [record for record in run.records if record.fates]
    fates = [fate for record in played for fate in record.fates or ()]
    worked = [seconds for record in played for seconds in record.worked or ()]
    used = [s for fate, s in zip(fates, worked, strict=False) if fate == "answered"]
    total = float(np.sum(worked))
    last = run.records[-1] if run.records else None
    end = 0.0 if last is None else (last.clock or 0.0) + (last.seconds or 0.0)
    return TimeFigures(
        float(np.mean([record.seconds or 0.0 for record in played])) if played else None,
        fates.count("answered") / len(fates) if fates else None,
        1 - float(np.sum(used)) / total if total > 0 else None,
        sum(record.traffic or 0 for record in run.records) / 1e9,
        end / HOUR,
    )


def hours_to(run: Run, target: Target) -> float | None:
    """The hour at which a run reaches the target; None: it does not.

    It is the clock of the first of two evaluations in a row at the target or beyond it.
    """
    round = rounds_to(run, target)
    clock = None if round is None else run.records[round].clock
    return None if clock is None else clock / HOUR


def at_hour(run: Run, figure: str, hour: float) -> float | None:
    """The figure of the last model that was evaluated by an hour; None after the end of the run.

    >>> from fedgs.records import Record
    >>> records = [Record(t, clock=1800.0 * t, test_loss=1 - t / 10) for t in range(3)]
    >>> at_hour(Run({}, records), "test_loss", 0.9), at_hour(Run({}, records), "test_loss", 1.1)
    (0.9, None)
    """
    hours, values = _by_hour(run, figure)
    if not len(hours) or not hours[0] <= hour <= hours[-1]:
        return None
    return float(values[np.searchsorted(hours, hour, side="right") - 1])


def time_curve(runs: Sequence[Run], figure: str = "test_loss") -> Curve:
    """The mean curve of one method's runs over hours, as far as all of them go.

    At every hour a run has the figure of its last evaluated model.

    Args:
        runs: of one method and group.
        figure: "test_loss", "test_accuracy" or "valid_loss".
    """
    series = [pair for pair in (_by_hour(run, figure) for run in runs) if len(pair[0])]
    if not series:
        empty = np.empty(0)
        return Curve(empty, empty, empty, 0)
    begin, end = max(hours[0] for hours, _ in series), min(hours[-1] for hours, _ in series)
    every = np.unique(np.concatenate([hours for hours, _ in series]))
    grid = every[(every >= begin) & (every <= end)]
    picked = np.linspace(0, len(grid) - 1, min(len(grid), _MOST_POINTS)).round().astype(np.int64)
    grid = grid[np.unique(picked)]
    rows = np.array([v[np.searchsorted(h, grid, side="right") - 1] for h, v in series])
    spread = rows.std(axis=0, ddof=1) if len(rows) > 1 else np.zeros(len(grid))
    return Curve(grid, rows.mean(axis=0), spread, len(rows))


def _by_hour(run: Run, figure: str) -> tuple[FloatArray, FloatArray]:
    """The hours of the evaluations with a finite figure, and the figures."""
    pairs = [
        (record.clock / HOUR, value)
        for record in run.records
        if record.clock is not None and is_figure(value := record.value(figure))
    ]
    hours, values = zip(*pairs, strict=True) if pairs else ((), ())
    return np.array(hours, dtype=np.float64), np.array(values, dtype=np.float64)
