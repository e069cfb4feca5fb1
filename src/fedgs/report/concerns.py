"""Rules for runs whose lowest loss misleads.

It may be the loss of the untrained model, the loss may have risen since, or the model may be no
better than a guess. The rules read one run's records and need at least two evaluated rounds.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from fedgs.report.methods import Method
from fedgs.report.numbers import number
from fedgs.report.run_view import Run
from fedgs.report.summary import evaluated, is_figure

__all__ = ["concerns", "has_risen", "is_by_chance", "is_untrained"]

_RISEN = 1.5  # times the lowest loss
_LEAST_RISE = 0.01  # smaller differences are noise, whatever their ratio
_NEAR_CHANCE = 0.99  # of ln C


def is_untrained(run: Run, figure: str = "test_loss") -> bool:
    """Whether no later round has a lower loss than round 0.

    >>> from fedgs.records import Record
    >>> is_untrained(Run({}, [Record(0, cohort=[1], test_loss=2.3), Record(1, test_loss=2.4)]))
    True
    """
    losses = evaluated(run, figure)
    if len(losses) < 2 or losses[0][0] != 0 or not is_figure(losses[0][1]):
        return False
    return not any(is_figure(loss) and loss < losses[0][1] for _, loss in losses[1:])


def has_risen(run: Run, figure: str = "test_loss") -> bool:
    """Whether the last loss is far above the lowest.

    It is if it is not finite; or if it is higher by more than .01 and either more than 1.5 times
    the lowest or nearer to that of round 0 than to the lowest.

    >>> from fedgs.records import Record
    >>> losses = [Record(0, cohort=[1], test_loss=2.3), Record(1, cohort=[1], test_loss=0.4)]
    >>> has_risen(Run({}, [*losses, Record(2, test_loss=0.7)]))
    True
    """
    losses = evaluated(run, figure)
    finite = [loss for _, loss in losses if is_figure(loss)]
    if len(losses) < 2 or not finite:
        return False
    last, lowest = losses[-1][1], min(finite)
    if not math.isfinite(last):
        return True
    if last - lowest <= _LEAST_RISE:
        return False
    if last > _RISEN * lowest:
        return True
    first = losses[0][1] if losses[0][0] == 0 else math.nan
    return first > lowest and last - lowest > (first - lowest) / 2


def is_by_chance(run: Run, figure: str = "test_loss") -> bool:
    """Whether the model is no better than a guess among the C labels.

    It is if no loss is more than 1 % below ln C, or if no accuracy is above 1/C. Losses other than
    cross-entropy have no such bound.

    >>> from fedgs.records import Record
    >>> guesses = [Record(0, cohort=[1], test_loss=2.4), Record(1, test_loss=2.3)]
    >>> is_by_chance(Run({"run": {"num_labels": 10}}, guesses))
    True
    >>> is_by_chance(Run({"run": {"num_labels": 20}}, guesses))
    False
    """
    labels = num_labels(run)
    losses = [loss for _, loss in evaluated(run, figure)]
    if labels is None or labels < 2 or len(losses) < 2 or not _is_cross_entropy(run):
        return False
    finite = [loss for loss in losses if is_figure(loss)]
    if not finite or min(finite) >= _NEAR_CHANCE * math.log(labels):
        return True
    accuracies = [
        accuracy for _, accuracy in evaluated(run, "test_accuracy") if is_figure(accuracy)
    ]
    return figure == "test_loss" and len(accuracies) > 1 and max(accuracies) <= 1 / labels


def _is_cross_entropy(run: Run) -> bool:
    chosen = run.table("training").get("loss", "cross_entropy")
    return (chosen.get("name") if isinstance(chosen, Mapping) else chosen) == "cross_entropy"


def num_labels(run: Run) -> int | None:
    """C, or None if neither the configuration nor the clients state it."""
    stored = run.about.get("num_labels")
    if isinstance(stored, int) and not isinstance(stored, bool):
        return stored
    counts = None if run.clients is None else run.clients.label_counts
    return None if counts is None else counts.shape[1]


def concerns(methods: Sequence[Method], figure: str) -> list[str]:
    """One sentence for each rule that holds for a run.

    Args:
        methods: of one group.
        figure: the headline, "test_loss" or "valid_loss".
    """
    what = "test loss" if figure == "test_loss" else "validation loss"
    untrained = _named(methods, lambda run: is_untrained(run, figure))
    risen = _named(methods, lambda run: has_risen(run, figure) and not is_untrained(run, figure))
    guessing = _named(methods, lambda run: is_by_chance(run, figure))
    sentences = []
    if untrained:
        sentences.append(f"The lowest {what} is that of round 0, before any training: {untrained}.")
    if risen:
        sentences.append(f"The last {what} is far above the lowest: {risen}.")
    if guessing:
        labels = max(num_labels(run) or 0 for method in methods for run in method.runs)
        chance = number(math.log(labels), 3)
        sentences.append(
            f"No better than a guess among {labels} labels (loss {chance}): {guessing}."
        )
    return sentences


def _named(methods: Sequence[Method], holds: Callable[[Run], bool]) -> str:
    """The methods with a run for which a rule holds, and for how many of their runs it does."""
    words = []
    for method in methods:
        without_failure = [run for run in method.runs if run.failure is None]
        count = sum(map(holds, without_failure))
        if count == len(without_failure) > 0:
            words.append(method.label)
        elif count:
            words.append(f"{method.label} ({count} of {len(without_failure)} runs)")
    return ", ".join(words)
