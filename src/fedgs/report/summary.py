"""The figures of one run, from its records alone."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from fedgs.arrays import IntArray
from fedgs.records import Record
from fedgs.report.run_view import Run

__all__ = ["Summary", "count_variance", "evaluated", "is_figure", "sampling_counts", "summarize"]


@dataclass(frozen=True)
class Summary:
    """What one run reached; None where its records do not tell.

    Attributes:
        test_loss: lowest test loss over the evaluated records ("optimal testing loss").
        last_test_loss: test loss of the last evaluated record; None where it is not finite.
        valid_loss, last_valid_loss: the same of the validation loss.
        loss_at_best_valid: test loss of the model with the lowest validation loss, the first one of
            several.
        best_accuracy, final_accuracy: highest and last evaluated test accuracy.
        count_variance: variance over the clients of the sampling counts so far, with N - 1 in the
            denominator.
        rounds_done, finished: how far the run is.
    """

    test_loss: float | None
    last_test_loss: float | None
    valid_loss: float | None
    last_valid_loss: float | None
    loss_at_best_valid: float | None
    best_accuracy: float | None
    final_accuracy: float | None
    count_variance: float | None
    rounds_done: int
    finished: bool


def is_figure(value: float | None) -> TypeGuard[float]:
    """Whether a stored figure is there and finite."""
    return value is not None and math.isfinite(value)


def summarize(run: Run) -> Summary:
    """The figures of a run, whether it is finished or not.

    >>> losses = [Record(0, cohort=["a"], test_loss=0.9, valid_loss=0.7), Record(1, test_loss=0.8, valid_loss=0.9)]
    >>> figures = summarize(Run({"run": {"num_clients": 3}}, losses))
    >>> figures.test_loss, figures.loss_at_best_valid, round(figures.count_variance, 3)
    (0.8, 0.9, 0.333)
    """
    losses, valid = evaluated(run, "test_loss"), evaluated(run, "valid_loss")
    accuracies = [accuracy for record in run.records if is_figure(accuracy := record.test_accuracy)]
    return Summary(
        test_loss=_lowest(losses),
        last_test_loss=_last(losses),
        valid_loss=_lowest(valid),
        last_valid_loss=_last(valid),
        loss_at_best_valid=_at_best_valid(run.records),
        best_accuracy=max(accuracies, default=None),
        final_accuracy=accuracies[-1] if accuracies else None,
        count_variance=count_variance(run),
        rounds_done=run.rounds_done,
        finished=run.finished,
    )


def evaluated(run: Run, figure: str) -> list[tuple[int, float]]:
    """(round, value) of the evaluated records, also where the value is not finite.

    Args:
        run: finished or not.
        figure: "test_loss", "valid_loss" or "test_accuracy".
    """
    return [
        (record.round, value)
        for record in run.records
        if (value := getattr(record, figure)) is not None
    ]


def _lowest(losses: Sequence[tuple[int, float]]) -> float | None:
    return min((loss for _, loss in losses if is_figure(loss)), default=None)


def _last(losses: Sequence[tuple[int, float]]) -> float | None:
    return losses[-1][1] if losses and is_figure(losses[-1][1]) else None


def _at_best_valid(records: Sequence[Record]) -> float | None:
    both = [
        (record.valid_loss, record.round, record.test_loss)
        for record in records
        if is_figure(record.valid_loss) and is_figure(record.test_loss)
    ]
    return min(both)[2] if both else None


def sampling_counts(run: Run) -> IntArray | None:
    """(N,) in how many rounds each client was selected so far; None where the clients are not known."""
    if run.clients is None:
        return None
    times = _times_selected(run)
    return np.array([times[name] for name in run.clients.names], dtype=np.int64)


def count_variance(run: Run) -> float | None:
    """Variance over the N clients of the sampling counts, N - 1 in the denominator; None before round 0 ends or for N < 2."""
    number = run.num_clients
    if number is None or number < 2 or run.rounds_done == 0:
        return None
    times = list(_times_selected(run).values())
    counts = np.zeros(max(number, len(times)))
    counts[: len(times)] = times
    return float(counts.var(ddof=1))


def _times_selected(run: Run) -> Counter[str | int]:
    return Counter(name for record in run.records for name in record.cohort or ())
