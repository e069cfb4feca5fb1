"""The runs of one method with their figures, and the paired difference of two methods."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from fedgs.report.by_client import CLIENT_FIGURES
from fedgs.report.labels import base_name
from fedgs.report.run_view import Run
from fedgs.report.summary import Summary, summarize

__all__ = [
    "ALL_FIGURES",
    "FIRST_FIGURES",
    "Difference",
    "Method",
    "headline",
    "is_sweep",
    "mean_over",
    "methods_of",
    "paired_difference",
]

FIRST_FIGURES = ("test_loss", "last_test_loss", "count_variance")
ALL_FIGURES = (
    "test_loss",
    "last_test_loss",
    "valid_loss",
    "last_valid_loss",
    "loss_at_best_valid",
    "best_accuracy",
    "final_accuracy",
    "count_variance",
    "largest_weight",
    "lowest_weight_sum",
    "highest_weight_sum",
    *CLIENT_FIGURES,
)


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
        """Whether there is an interval, and it contains 0."""
        return self.low is not None and self.high is not None and self.low <= 0 <= self.high


def paired_difference(
    method: dict[object, float], reference: dict[object, float]
) -> Difference | None:
    """Mean paired difference with a 95 % t interval, or None without a common seed.

    Args:
        method: replicate -> figure.
        reference: replicate -> figure of the other method.

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
class Method:
    """All runs of one label in one group, one of each replicate.

    Attributes:
        label: what the method is called.
        runs: finished, unfinished and failed.
        figures: figure of `ALL_FIGURES` -> replicate -> value, without failed runs.
    """

    label: str
    runs: tuple[Run, ...]
    figures: dict[str, dict[object, float]]

    def mean(self, figure: str) -> float | None:
        """Mean over the replicates, or None without a value."""
        values = list(self.figures[figure].values())
        return float(np.mean(values)) if values else None


def methods_of(runs: Sequence[Run]) -> list[Method]:
    """The methods of one group, ascending by the mean of the headline figure.

    Methods without that figure come last.

    Args:
        runs: labelled, of one group, one of each label and replicate.
    """
    methods = []
    for label in sorted({run.label for run in runs}):
        of_label = [run for run in runs if run.label == label]
        of_label.sort(key=lambda run: repr(run.replicate))
        summaries = [(run, summarize(run)) for run in of_label if run.failure is None]
        figures = {figure: _values(summaries, figure) for figure in ALL_FIGURES}
        methods.append(Method(label, tuple(of_label), figures))
    return _ranked(methods)


def _ranked(methods: Sequence[Method]) -> list[Method]:
    figure = headline(methods)

    def rank(method: Method) -> tuple[float, str]:
        mean = method.mean(figure)
        return math.inf if mean is None else mean, method.label

    return sorted(methods, key=rank)


def mean_over(groups: Sequence[Sequence[Method]]) -> list[Method]:
    """The methods that all groups have, each with the mean of its figures over the groups.

    A replicate counts where it has the figure in all groups.

    Args:
        groups: the methods of each group.
    """
    by_label = [{method.label: method for method in group} for group in groups]
    common = [label for label in by_label[0] if all(label in group for group in by_label)]
    methods = []
    for label in common:
        parts = [group[label] for group in by_label]
        figures = {figure: _means(parts, figure) for figure in ALL_FIGURES}
        methods.append(Method(label, tuple(run for part in parts for run in part.runs), figures))
    return _ranked(methods)


def _means(parts: Sequence[Method], figure: str) -> dict[object, float]:
    values = [part.figures[figure] for part in parts]
    shared = [key for key in values[0] if all(key in value for value in values)]
    return {key: float(np.mean([value[key] for value in values])) for key in shared}


def _values(summaries: Sequence[tuple[Run, Summary]], figure: str) -> dict[object, float]:
    """Replicate -> figure, of the runs that have it."""
    return {
        run.replicate: value
        for run, summary in summaries
        if (value := getattr(summary, figure)) is not None
    }


def headline(methods: Sequence[Method]) -> str:
    """The figure by which methods of a group are ranked and compared.

    It is the test loss. It is the validation loss if no run has a test loss, and where settings of
    one method are compared and every method has a validation loss: choosing among settings by the
    test loss would use the test set for training.
    """
    have = {
        figure
        for method in methods
        for figure in ("test_loss", "valid_loss")
        if method.figures[figure]
    }
    chooses = is_sweep(methods) and all(
        method.figures["valid_loss"] or not method.figures["test_loss"] for method in methods
    )
    by_validation = have == {"valid_loss"} or ("valid_loss" in have and chooses)
    return "valid_loss" if by_validation else "test_loss"


def is_sweep(methods: Sequence[Method]) -> bool:
    """Whether two of the methods are settings of one method."""
    names = [base_name(method.runs[0]) for method in methods if method.runs]
    return len(set(names)) < len(names)
