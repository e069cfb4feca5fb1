"""Sentences below a table of methods; each follows from the records."""

from collections.abc import Sequence

from fedgs.plurals import counted
from fedgs.report.concerns import concerns
from fedgs.report.methods import Method, headline, paired_difference
from fedgs.report.numbers import listed
from fedgs.report.run_view import Run

__all__ = ["is_named", "notes"]

_MOST_NAMED = 6  # unfinished runs that are named
_NUMBER_WORDS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")


def notes(methods: Sequence[Method], reference: str | None) -> list[str]:
    """Sentences on one group.

    The lowest method, rules that hold for some of the runs, and which runs are unequal, unfinished
    or failed.

    Args:
        methods: of one group, ranked.
        reference: the label to which others are compared, or its beginning, or None.
    """
    figure = headline(methods)
    ranked = [method for method in methods if method.mean(figure) is not None]
    runs = [run for method in methods for run in method.runs]
    conclusion = (_lowest(ranked, figure), _seeds(ranked, figure))
    sentences = [" ".join(part for part in conclusion if part)]
    if figure == "valid_loss":
        has_test = any(method.figures["test_loss"] for method in methods)
        why = "These are settings of one method" if has_test else "No run has a test loss"
        sentences.append(f"{why}: methods are ranked and compared by the validation loss.")
    if reference is not None and not any(is_named(method.label, reference) for method in methods):
        sentences.append(f"No run of {reference} here: nothing to compare with.")
    sentences += [*concerns(methods, figure), *_unequal(methods, figure)]
    sentences += [*_stopped(runs), *_incomplete(runs)]
    return [sentence for sentence in sentences if sentence]


def is_named(label: str, reference: str) -> bool:
    """Whether a label is the reference, or the reference with settings.

    >>> is_named("uniform learning_rate=0.1", "uniform"), is_named("uniformly", "uniform")
    (True, False)
    """
    return label == reference or label.startswith(f"{reference} ")


def _lowest(ranked: Sequence[Method], figure: str) -> str:
    """The lowest mean, and the methods whose paired interval to it includes 0."""
    if len(ranked) < 2:
        return ""
    lowest = ranked[0].mean(figure)
    first = [method for method in ranked if method.mean(figure) == lowest]
    without_failure = [run for method in ranked for run in method.runs if run.failure is None]
    so_far = "" if all(run.finished for run in without_failure) else " so far"
    if len(first) > 1:
        return f"{listed([method.label for method in first])} have the same lowest mean{so_far}."
    gaps = [
        (other.label, paired_difference(other.figures[figure], first[0].figures[figure]))
        for other in ranked[1:]
    ]
    ties = [label for label, gap in gaps if gap is not None and gap.covers_zero]
    if not ties:
        return f"{first[0].label} is lowest{so_far}."
    intervals = "interval of its difference" if len(ties) == 1 else "intervals of its differences"
    include = "includes" if len(ties) == 1 else "include"
    return (
        f"{first[0].label} has the lowest mean{so_far}; "
        f"the 95 % {intervals} to {listed(ties)} {include} 0."
    )


def _seeds(ranked: Sequence[Method], figure: str) -> str:
    seeds = max((len(method.figures[figure]) for method in ranked), default=0)
    if seeds == 1:
        return "One seed: no spread and no interval."
    if 1 < seeds < len(_NUMBER_WORDS):
        if len(ranked) == 1:  # no other method, so no interval
            return f"{_NUMBER_WORDS[seeds]} seeds: ± is the standard deviation over them."
        return f"{_NUMBER_WORDS[seeds]} seeds: read the intervals, not the third digit."
    return ""


def _unequal(methods: Sequence[Method], figure: str) -> list[str]:
    """Sentences on methods with fewer seeds than others, and on runs with other rounds."""
    sentences = []
    most = max((len(method.figures[figure]) for method in methods), default=0)
    fewer = [method for method in methods if len(method.figures[figure]) < most]
    if fewer:
        if most == 1:
            sentences.append(f"Without a figure yet: {listed([method.label for method in fewer])}.")
        else:
            seeds = ", ".join(f"{method.label} ({len(method.figures[figure])})" for method in fewer)
            sentences.append(f"Fewer than {most} seeds: {seeds}.")
    rounds = sorted({run.rounds for method in methods for run in method.runs})
    if len(rounds) > 1:
        sentences.append(
            f"Runs have different numbers of rounds ({', '.join(map(str, rounds))}): "
            "their figures are not comparable."
        )
    return sentences


def _stopped(runs: Sequence[Run]) -> list[str]:
    """A sentence on runs that stopped early."""
    stopped = [run for run in runs if run.failure is None and run.stopped is not None]
    if not stopped:
        return []
    first = ", ".join(
        f"{run.label} seed {run.seed} (round {run.rounds_done}, {run.stopped})"
        for run in stopped[:_MOST_NAMED]
    )
    rest = len(stopped) - _MOST_NAMED
    return [f"Stopped early: {first}{f' and {rest} more' if rest > 0 else ''}."]


def _incomplete(runs: Sequence[Run]) -> list[str]:
    """Sentences on unfinished and on failed runs."""
    unfinished = [run for run in runs if run.failure is None and not run.finished]
    sentences = []
    if unfinished:
        first = ", ".join(
            f"{run.label} seed {run.seed} ({run.rounds_done} of {counted(run.rounds, 'round')})"
            for run in unfinished[:_MOST_NAMED]
        )
        rest = len(unfinished) - _MOST_NAMED
        more = f" and {rest} more" if rest > 0 else ""
        sentences.append(f"Unfinished: {first}{more}.")
    for run in runs:
        if run.failure is not None:
            sentences.append(
                f"Failed and left out: {run.label} seed {run.seed} "
                f"in round {run.failure.get('round')}: {run.failure.get('error')}"
            )
    return sentences
