"""The package's metrics of collected outputs."""

import math
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from fedgs.arrays import AnyArray, BoolArray
from fedgs.data.federation import Federation
from fedgs.errors import ConfigError
from fedgs.metrics.base import Direction, Metric
from fedgs.registry import register

__all__ = ["AUC", "Accuracy", "MacroF1", "MeanAbsoluteError"]


@register("metric", "accuracy")
class Accuracy(Metric):
    """The share of right answers: largest logits, or logits above 0 for each of several labels.

    It is recorded for every task but regression, whether it is named or not.

    >>> Accuracy().value(np.array([[0.0, 2.0], [1.0, 0.0]]), np.array([1, 1]))
    0.5
    """

    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    tasks: ClassVar[tuple[str, ...]] = ("classes", "sequence", "multilabel")

    def value(self, outputs: AnyArray, targets: AnyArray) -> float:
        """The accuracy."""
        if targets.ndim == outputs.ndim:
            return float(np.mean((outputs > 0) == (targets > 0.5)))
        return float(np.mean(outputs.argmax(axis=-1) == targets))


@register("metric", "macro_f1")
class MacroF1(Metric):
    """The mean over classes of F1 = 2 TP / (2 TP + FP + FN).

    The classes are those with an example in the test set, so their number is the same in all
    rounds. Of several labels, each label is a class.

    >>> logits = np.eye(2)[[0, 0, 1]]
    >>> round(MacroF1().value(logits, np.array([0, 1, 1])), 4)  # 2/3 for both classes
    0.6667
    """

    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    tasks: ClassVar[tuple[str, ...]] = ("classes", "sequence", "multilabel")

    def value(self, outputs: AnyArray, targets: AnyArray) -> float:
        """The mean of F1."""
        answers = outputs > 0 if targets.ndim == outputs.ndim else outputs.argmax(axis=-1)
        scores = []
        for label, right in _by_class(targets):
            given = answers[:, label] if answers.ndim == 2 else answers == label
            if right.any():
                both = np.count_nonzero(given & right)
                scores.append(2 * both / (np.count_nonzero(given) + np.count_nonzero(right)))
        return float(np.mean(scores)) if scores else float("nan")


@register("metric", "auc")
class AUC(Metric):
    """The area under the ROC curve: the mean over classes of one class against the others.

    It is the share of pairs of an example of the class and one of another class whose scores are in
    the right order; equal scores count one half. The score is the probability of the class, the
    softmax of the logits; for several labels it is each label's logit. With two classes both areas
    are equal. Classes without an example in the test set, and labels that all examples have, are
    left out.

    References: Hanley and McNeil (1982): The Meaning and Use of the Area under a Receiver Operating
    Characteristic (ROC) Curve. Radiology. Provost and Domingos (2003): Tree Induction for
    Probability-Based Ranking. Machine Learning (the mean over classes).

    >>> logits = np.array([[0.0, 1.0], [0.0, 3.0], [0.0, 2.0]])
    >>> AUC().value(logits, np.array([0, 1, 0]))
    1.0
    """

    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    tasks: ClassVar[tuple[str, ...]] = ("classes", "sequence", "multilabel")

    def check(self, federation: Federation) -> None:
        """Refuse other tasks, and examples in which no class can be told from another."""
        super().check(federation)
        parts = {"test set": federation.test, "validation parts": federation.validation}
        for title, part in parts.items():
            if part is None or not part.held:
                continue
            counted = part.y[part.y >= 0] if federation.task == "sequence" else part.y
            if not any(right.any() and not right.all() for _, right in _by_class(counted)):
                raise ConfigError(
                    f"evaluation.metrics 'auc' is not defined on one class: every example of the "
                    f"{title} of {federation.name!r} has the same label"
                )

    def value(self, outputs: AnyArray, targets: AnyArray) -> float:
        """The mean of the areas."""
        scores = np.asarray(outputs, dtype=np.float64)
        if targets.ndim < outputs.ndim:
            scores = _log_odds(scores)
        areas = [
            _area(scores[:, label], right)
            for label, right in _by_class(targets)
            if right.any() and not right.all()
        ]
        return float(np.mean(areas)) if areas else float("nan")


@register("metric", "mean_absolute_error")
class MeanAbsoluteError(Metric):
    """The mean over examples and targets of |output - target|.

    >>> MeanAbsoluteError().value(np.array([[1.0], [3.0]]), np.array([0.0, 0.0]))
    2.0
    """

    better: ClassVar[Direction] = "lower"
    range: ClassVar[tuple[float, float]] = (0.0, math.inf)
    tasks: ClassVar[tuple[str, ...]] = ("regression",)

    def value(self, outputs: AnyArray, targets: AnyArray) -> float:
        """The mean error."""
        errors = outputs.reshape(targets.shape).astype(np.float64) - targets
        return float(np.mean(np.abs(errors)))


def _by_class(targets: AnyArray) -> Iterator[tuple[int, BoolArray]]:
    """Each class, or each of several labels, with (n,) whether an example has it."""
    if targets.ndim == 2:
        yield from ((label, targets[:, label] > 0.5) for label in range(targets.shape[1]))
    else:
        yield from ((label, targets == label) for label in np.unique(targets).tolist())


def _log_odds(logits: AnyArray) -> AnyArray:
    """(n, C) log(p / (1 - p)) of p = softmax(logits): in the order of p, also where p rounds to 1.

    >>> _log_odds(np.array([[0.0, 50.0]]))
    array([[-50.,  50.]])
    """
    rows, best = np.arange(len(logits)), logits.argmax(axis=1)
    relative = logits - logits[rows, best][:, None]
    shares = np.exp(relative)
    shares[rows, best] = 0
    others = shares.sum(axis=1)  # of the classes that are not the best one
    rest = 1 + others[:, None] - shares
    rest[rows, best] = others
    with np.errstate(divide="ignore"):
        odds: AnyArray = relative - np.log(rest)
    return odds


def _area(scores: AnyArray, right: BoolArray) -> float:
    """The share of pairs in the right order, from the ranks of the scores (Mann-Whitney)."""
    from scipy.stats import rankdata

    positives = np.count_nonzero(right)
    pairs = positives * (len(right) - positives)
    ranks = rankdata(scores)
    return float((ranks[right].sum() - positives * (positives + 1) / 2) / pairs)
