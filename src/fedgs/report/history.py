"""What happened over the rounds of a run, as arrays.

Available and selected clients, the spread of the sampling counts, the diversity of the cohorts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedgs.arrays import AnyArray, BoolArray, FloatArray, FloatMatrix, IntArray
from fedgs.report.run_view import Run
from fedgs.report.summary import is_figure

__all__ = [
    "Curve",
    "Participation",
    "binned",
    "cohort_diversity",
    "count_variances",
    "curve",
    "participation",
    "runs_to_average",
]


@dataclass(frozen=True, eq=False)
class Participation:
    """Available and selected clients by round.

    Attributes:
        available, selected: (N, T) for the completed rounds, in the order of the run's clients.
    """

    available: BoolArray
    selected: BoolArray

    @property
    def counts(self) -> IntArray:
        """(N,) sampling counts."""
        return np.asarray(self.selected.sum(axis=1, dtype=np.int64))

    @property
    def activity(self) -> FloatArray:
        """(N,) share of the rounds in which each client was available; NaN without a round."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.available.sum(axis=1) / np.float64(self.available.shape[1]))


def participation(run: Run) -> Participation | None:
    """The run's participation, or None if its clients are not known. O(N·T) bytes."""
    if run.clients is None:
        return None
    completed = [record for record in run.records if record.cohort is not None]
    index = {name: k for k, name in enumerate(run.clients.names)}
    shape = (len(index), len(completed))
    available, selected = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
    for column, record in enumerate(completed):
        available[_indices(record.available, index), column] = True
        selected[_indices(record.cohort, index), column] = True
    return Participation(available, selected)


def _indices(names: Sequence[str | int] | None, index: dict[str | int, int]) -> list[int]:
    return [index[name] for name in names or () if name in index]


def count_variances(selected: BoolArray) -> FloatArray:
    """(T,) variance of the sampling counts (N - 1 in the denominator) after each round.

    >>> count_variances(np.array([[True, False], [False, True]]))
    array([0.5, 0. ])
    """
    counts = selected.cumsum(axis=1, dtype=np.float64)
    return np.asarray(counts.var(axis=0, ddof=1)) if len(counts) > 1 else np.zeros(counts.shape[1])


def cohort_diversity(selected: BoolArray, distance: FloatMatrix) -> FloatArray:
    """(T,) mean distance h_ij over the pairs of each round's cohort; NaN for fewer than two.

    Args:
        selected: (N, T).
        distance: (N, N) H.

    >>> distance = np.array([[0, 1, 2.0], [1, 0, 2.0], [2.0, 2.0, 0]])
    >>> cohort_diversity(np.array([[True], [True], [False]]), distance)
    array([1.])
    """
    chosen = selected.T.astype(np.float64)  # (T, N)
    sizes = chosen.sum(axis=1)
    totals = np.einsum("tn,tn->t", chosen @ distance, chosen)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(sizes > 1, totals / (sizes * (sizes - 1)), np.nan)


@dataclass(frozen=True, eq=False)
class Curve:
    """A figure of merit over the evaluated rounds: mean over the seeds that reached the round.

    Attributes:
        rounds: (E,) ascending; hours in a curve over time.
        mean: (E,) over seeds.
        spread: (E,) standard deviation over seeds, 0 where only one seed has the round.
        seeds: the largest number of seeds at a round.
    """

    rounds: AnyArray
    mean: FloatArray
    spread: FloatArray
    seeds: int


def runs_to_average(runs: Sequence[Run]) -> tuple[list[Run], bool]:
    """The runs of one method over which a mean is taken, and whether all its runs failed.

    Failed runs are left out, unless all failed.

    >>> run, failed = Run({}, ()), Run({}, (), failure={"round": 0})
    >>> runs_to_average([run, failed]) == ([run], False)
    True
    >>> runs_to_average([failed]) == ([failed], True)
    True
    """
    without_failure = [run for run in runs if run.failure is None]
    return (without_failure, False) if without_failure else (list(runs), True)


def curve(runs: Sequence[Run], figure: str = "test_loss") -> Curve:
    """The mean curve of one method's runs.

    Args:
        runs: of one method and group.
        figure: "test_loss", "test_accuracy", "valid_loss", or "test_" and the name of a metric.
    """
    values: dict[int, list[float]] = {}
    for run in runs:
        for record in run.records:
            if is_figure(value := record.value(figure)):
                values.setdefault(record.round, []).append(value)
    rounds = sorted(values)
    spread = [np.std(values[t], ddof=1) if len(values[t]) > 1 else 0.0 for t in rounds]
    return Curve(
        rounds=np.array(rounds, dtype=np.int64),
        mean=np.array([np.mean(values[t]) for t in rounds], dtype=np.float64),
        spread=np.array(spread, dtype=np.float64),
        seeds=max(map(len, values.values()), default=0),
    )


def binned(values: FloatArray, most: int) -> tuple[FloatArray, FloatArray]:
    """A long series in at most `most` bins: (middles of the bins, means without NaN).

    >>> binned(np.array([1.0, 3.0, 5.0]), 2)
    (array([0.5, 2. ]), array([2., 5.]))
    """
    size = -(-len(values) // most) if len(values) else 1
    starts = np.arange(0, len(values), size)
    ends = np.minimum(starts + size, len(values))
    bins = [values[a:b][~np.isnan(values[a:b])] for a, b in zip(starts, ends, strict=True)]
    means = [part.mean() if len(part) else np.nan for part in bins]
    return (starts + ends - 1) / 2, np.array(means, dtype=np.float64)
