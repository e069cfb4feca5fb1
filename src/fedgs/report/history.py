"""What happened over the rounds of a run, as arrays.

Available and selected clients, the spread of the sampling counts, the diversity of the cohorts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedgs.arrays import AnyArray, BoolArray, FloatArray, FloatMatrix, IntArray
from fedgs.members import Members
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
        number: N.
        present: for each of the T completed rounds, the available clients as its record has them.
        cohorts: for each of these rounds, (m,) the indices of its cohort.
        index: name -> index of the client; None: the names are 0..N-1.
    """

    number: int
    present: Sequence[Sequence[str | int]]
    cohorts: Sequence[IntArray]
    index: Mapping[str | int, int] | None

    @property
    def rounds(self) -> int:
        """T, the number of completed rounds."""
        return len(self.cohorts)

    @property
    def available(self) -> BoolArray:
        """(N, T) which clients are available, in the order of the run's clients."""
        return self.rows(slice(None))[0]

    @property
    def selected(self) -> BoolArray:
        """(N, T) which clients are selected."""
        return self._selected_rows(slice(None))

    def rows(self, picked: IntArray | slice, stride: int = 1) -> tuple[BoolArray, BoolArray]:
        """(n, T') available and selected among some of the clients, in every `stride`-th round.

        Raises:
            OutputError: the available clients of a round can neither be read nor drawn again.
        """
        columns = [self.inside(t)[picked] for t in range(0, self.rounds, stride)]
        selected = self._selected_rows(picked)[:, ::stride]
        available = np.stack(columns, axis=1) if columns else np.zeros(selected.shape, dtype=bool)
        return available, selected

    def inside(self, round: int) -> BoolArray:
        """(N,) which clients are available in a round."""
        present = self.present[round]
        inside = np.zeros(self.number, dtype=np.bool_)
        inside[present.indices() if isinstance(present, Members) else self._of(present)] = True
        return inside

    def _of(self, names: Sequence[str | int]) -> IntArray:
        return _indices(names, self.index, self.number)

    def _selected_rows(self, picked: IntArray | slice) -> BoolArray:
        places = np.arange(self.number)[picked]
        row = np.full(self.number, -1)
        row[places] = np.arange(len(places))
        selected = np.zeros((len(places), self.rounds), dtype=np.bool_)
        for column, cohort in enumerate(self.cohorts):
            rows = row[cohort]
            selected[rows[rows >= 0], column] = True
        return selected

    @cached_property
    def counts(self) -> IntArray:
        """(N,) sampling counts."""
        every = np.concatenate([np.empty(0, dtype=np.int64), *self.cohorts])
        return np.bincount(every, minlength=self.number)

    @cached_property
    def activity(self) -> FloatArray:
        """(N,) share of the rounds in which each client was available; NaN without a round."""
        total = np.zeros(self.number, dtype=np.int64)
        for t in range(self.rounds):
            total += self.inside(t)
        with np.errstate(invalid="ignore"):
            return np.asarray(total / np.float64(self.rounds))

    @cached_property
    def variances(self) -> FloatArray:
        """(T,) variance of the sampling counts after each round, see `count_variances`."""
        counts, number = np.zeros(self.number, dtype=np.int64), self.number
        total = squares = 0
        sums = np.zeros((2, self.rounds))
        for t, cohort in enumerate(self.cohorts):
            total += len(cohort)
            squares += int((2 * counts[cohort] + 1).sum())
            counts[cohort] += 1
            sums[:, t] = total, squares
        if number < 2:
            return np.zeros(self.rounds)
        return np.asarray((sums[1] - sums[0] ** 2 / number) / (number - 1))


def participation(run: Run) -> Participation | None:
    """The run's participation, or None if its clients are not known.

    Available clients of more than 1000 are read, or drawn again, when they are asked for.
    """
    if run.clients is None:
        return None
    completed = [record for record in run.records if record.cohort is not None]
    names, number = run.clients.names, len(run.clients)
    index = None if isinstance(names, range) else {name: k for k, name in enumerate(names)}
    return Participation(
        number,
        [() if record.available is None else record.available for record in completed],
        [_indices(record.cohort, index, number) for record in completed],
        index,
    )


def _indices(
    names: Sequence[str | int] | None, index: Mapping[str | int, int] | None, number: int
) -> IntArray:
    """Indices of the clients with these names; others are left out."""
    if index is not None:
        return np.array([index[name] for name in names or () if name in index], dtype=np.int64)
    inside = [name for name in names or () if isinstance(name, int) and 0 <= name < number]
    return np.array(inside, dtype=np.int64)


def count_variances(selected: BoolArray) -> FloatArray:
    """(T,) variance of the sampling counts (N - 1 in the denominator) after each round.

    >>> count_variances(np.array([[True, False], [False, True]]))
    array([0.5, 0. ])
    """
    counts = selected.cumsum(axis=1, dtype=np.float64)
    return np.asarray(counts.var(axis=0, ddof=1)) if len(counts) > 1 else np.zeros(counts.shape[1])


def cohort_diversity(cohorts: Sequence[IntArray], distance: FloatMatrix) -> FloatArray:
    """(T,) mean distance h_ij over the pairs of each round's cohort; NaN for fewer than two.

    Args:
        cohorts: for each round, (m,) indices of clients.
        distance: (N, N) H.

    >>> distance = np.array([[0, 1, 2.0], [1, 0, 2.0], [2.0, 2.0, 0]])
    >>> cohort_diversity([np.array([0, 1])], distance)
    array([1.])
    """
    means = [
        distance[np.ix_(cohort, cohort)].sum() / (len(cohort) * (len(cohort) - 1))
        if len(cohort) > 1
        else np.nan
        for cohort in cohorts
    ]
    return np.array(means, dtype=np.float64)


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
        figure: "test_loss", "test_accuracy", "valid_loss", or "test_" or
            "valid_" and the name of a metric.
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
