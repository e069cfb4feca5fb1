"""What may be said in words below a table of methods; every sentence is true of the records."""

from collections.abc import Sequence

from fedgs.plurals import counted
from fedgs.report.concerns import concerns
from fedgs.report.methods import Method, headline, paired_difference
from fedgs.report.numbers import listed
from fedgs.report.run_view import Run

__all__ = ["notes"]

_NUMBER_WORDS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")


def notes(methods: Sequence[Method], reference: str | None) -> list[str]:
    """Sentences on one group: who is lowest, what to watch for, which runs are unequal, unfinished or failed.

    Args:
        methods: of one group, ranked.
        reference: the label that others are compared to, or None.
    """
    figure = headline(methods)
    ranked = [method for method in methods if method.mean(figure) is not None]
    runs = [run for method in methods for run in method.runs]
    found = [" ".join(part for part in (_lowest(ranked, figure), _seeds(ranked, figure)) if part)]
    if figure == "valid_loss":
        found.append(
            "No run has a test loss: methods are ranked and compared by the validation loss."
        )
    if reference is not None and all(method.label != reference for method in methods):
        found.append(f"No run of {reference} here: nothing to compare with.")
    found += concerns(methods, figure)
    return [note for note in [*found, *_unequal(methods, figure), *_standing(runs)] if note]


def _lowest(ranked: Sequence[Method], figure: str) -> str:
    """Which mean is lowest, and which methods the paired intervals do not tell from it."""
    if len(ranked) < 2:
        return ""
    lowest = ranked[0].mean(figure)
    first = [method for method in ranked if method.mean(figure) == lowest]
    so_far = (
        ""
        if all(run.finished for method in ranked for run in method.runs if run.failure is None)
        else " so far"
    )
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
    hold = "includes" if len(ties) == 1 else "include"
    return f"{first[0].label} has the lowest mean{so_far}; the 95 % {intervals} to {listed(ties)} {hold} 0."


def _seeds(ranked: Sequence[Method], figure: str) -> str:
    seeds = max((len(method.figures[figure]) for method in ranked), default=0)
    if seeds == 1:
        return "One seed: no spread and no interval."
    return (
        f"{_NUMBER_WORDS[seeds]} seeds: read the intervals, not the third digit."
        if 1 < seeds < 10
        else ""
    )


def _unequal(methods: Sequence[Method], figure: str) -> list[str]:
    found = []
    most = max((len(method.figures[figure]) for method in methods), default=0)
    fewer = [method for method in methods if len(method.figures[figure]) < most]
    if fewer:
        if most == 1:
            found.append(f"Without a figure yet: {listed([method.label for method in fewer])}.")
        else:
            held = ", ".join(f"{method.label} ({len(method.figures[figure])})" for method in fewer)
            found.append(f"Fewer than {most} seeds: {held}.")
    rounds = sorted({run.rounds for method in methods for run in method.runs})
    if len(rounds) > 1:
        found.append(
            f"Runs have different numbers of rounds ({', '.join(map(str, rounds))}): their figures are not comparable."
        )
    return found


def _standing(runs: Sequence[Run]) -> list[str]:
    """Which runs are unfinished or failed."""
    unfinished = [run for run in runs if run.failure is None and not run.finished]
    failed = [run for run in runs if run.failure is not None]
    found = []
    if unfinished:
        told = ", ".join(
            f"{run.label} seed {run.seed} ({run.rounds_done} of {counted(run.rounds, 'round')})"
            for run in unfinished[:6]
        )
        more = f" and {len(unfinished) - 6} more" if len(unfinished) > 6 else ""
        found.append(f"Unfinished: {told}{more}.")
    for run in failed:
        failure = run.failure or {}
        found.append(
            f"Failed and left out: {run.label} seed {run.seed} in round {failure.get('round')}: {failure.get('error')}"
        )
    return found
