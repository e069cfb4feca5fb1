"""The figures of merit of one run, from its records alone."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from fedgs.arrays import IntArray
from fedgs.record import Record
from fedgs.report.by_client import client_figures
from fedgs.report.run_view import Run

__all__ = ["Summary", "count_variance", "evaluated", "is_figure", "sampling_counts", "summarize"]

_ROUNDING = 1e-6  # by which weights that sum to 1 may miss it


@dataclass(frozen=True)
class Summary:
    """The figures of merit of one run; a figure is None if the records do not give it.

    Attributes:
        test_loss: lowest test loss over the evaluated records ("optimal testing loss").
        last_test_loss: test loss of the last evaluated record; None if it is not finite.
        valid_loss, last_valid_loss: the same for the validation loss.
        loss_at_best_valid: test loss of the model with the lowest validation loss; of several such
            models, of the first.
        best_accuracy, final_accuracy: highest and last evaluated test accuracy.
        count_variance: variance over the clients of the sampling counts so far, with N - 1 in the
            denominator.
        largest_weight: the largest aggregation weight of a client in a round. This and the sums are
            None where the weights of every round sum to 1.
        lowest_weight_sum, highest_weight_sum: over the rounds with a cohort.
        worst_client, worst_decile, client_spread, client_variance, decile_accuracy: of the last
            model that was evaluated by client, see `fedgs.report.by_client`.
        rounds_done: the number of completed rounds.
        finished: whether the run is finished.
    """

    test_loss: float | None
    last_test_loss: float | None
    valid_loss: float | None
    last_valid_loss: float | None
    loss_at_best_valid: float | None
    best_accuracy: float | None
    final_accuracy: float | None
    count_variance: float | None
    largest_weight: float | None
    lowest_weight_sum: float | None
    highest_weight_sum: float | None
    worst_client: float | None
    worst_decile: float | None
    client_spread: float | None
    client_variance: float | None
    decile_accuracy: float | None
    rounds_done: int
    finished: bool


def is_figure(value: float | None) -> TypeGuard[float]:
    """Whether a record has the figure, and it is finite."""
    return value is not None and math.isfinite(value)


def summarize(run: Run) -> Summary:
    """The figures of a run, finished or not.

    >>> first = Record(0, cohort=["a"], test_loss=0.9, valid_loss=0.7)
    >>> last = Record(1, test_loss=0.8, valid_loss=0.9)
    >>> figures = summarize(Run({"run": {"num_clients": 3}}, [first, last]))
    >>> figures.test_loss, figures.loss_at_best_valid, round(figures.count_variance, 3)
    (0.8, 0.9, 0.333)
    """
    losses, valid = evaluated(run, "test_loss"), evaluated(run, "valid_loss")
    accuracies = [accuracy for record in run.records if is_figure(accuracy := record.test_accuracy)]
    largest_weight, lowest_sum, highest_sum = _weight_range(run)
    return Summary(
        test_loss=_lowest(losses),
        last_test_loss=_last(losses),
        valid_loss=_lowest(valid),
        last_valid_loss=_last(valid),
        loss_at_best_valid=_at_best_valid(run.records),
        best_accuracy=max(accuracies, default=None),
        final_accuracy=accuracies[-1] if accuracies else None,
        count_variance=count_variance(run),
        largest_weight=largest_weight,
        lowest_weight_sum=lowest_sum,
        highest_weight_sum=highest_sum,
        **client_figures(run),
        rounds_done=run.rounds_done,
        finished=run.finished,
    )


def evaluated(run: Run, figure: str) -> list[tuple[int, float]]:
    """(round, value) of the evaluated records, including values that are not finite.

    Args:
        run: finished or not.
        figure: "test_loss", "valid_loss", "test_accuracy", or "test_" or "valid_" and the name of a
            metric.
    """
    return [
        (record.round, value)
        for record in run.records
        if (value := record.value(figure)) is not None
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


def _weight_range(run: Run) -> tuple[float, float, float] | tuple[None, None, None]:
    """The largest weight, and the lowest and the highest sum of a round's weights.

    None each where all sums are 1. Rounds without a cohort have none, and rounds of a deployment or
    with a clock that had too few answers have weights of 0, which do not count.
    """
    rounds = [
        record.weights
        for record in run.records
        if record.weights
        and (any(record.weights) or not (run.is_deployment or record.clock is not None))
    ]
    sums = [math.fsum(weights) for weights in rounds]
    if all(abs(total - 1) <= _ROUNDING for total in sums):
        return None, None, None
    return max(max(weights) for weights in rounds), min(sums), max(sums)


def sampling_counts(run: Run) -> IntArray | None:
    """(N,) the number of rounds that selected each client.

    None if the clients are not known, or the records leave the cohorts out.
    """
    if run.clients is None or not _has_cohorts(run):
        return None
    times = _times_selected(run)
    return np.array([times[name] for name in run.clients.names], dtype=np.int64)


def count_variance(run: Run) -> float | None:
    """Variance over the N clients of the sampling counts, with N - 1 in the denominator.

    None before round 0 has ended, for N < 2, if N is not known, or if the records leave the cohorts
    out.
    """
    number = run.num_clients
    if number is None or number < 2 or run.rounds_done == 0 or not _has_cohorts(run):
        return None
    times = list(_times_selected(run).values())
    counts = np.zeros(max(number, len(times)))
    counts[: len(times)] = times
    return float(counts.var(ddof=1))


def _has_cohorts(run: Run) -> bool:
    """Whether the completed rounds have their cohorts; true where no round is completed."""
    return run.rounds_done == 0 or any(record.cohort is not None for record in run.records)


def _times_selected(run: Run) -> Counter[str | int]:
    return Counter(name for record in run.records for name in record.cohort or ())
