"""Sentences that compare figures with the paper's. Each is made from the figures alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fedgs.plurals import counted, noun
from fedgs.report.tables import number, paired_difference

__all__ = [
    "Figures",
    "best_row",
    "gap_sentence",
    "listed",
    "mean",
    "order_sentence",
    "standing_sentence",
]

Figures = Mapping[str, Mapping[object, float]]  # row -> replicate -> figure


def mean(values: Mapping[object, float]) -> float | None:
    """The mean over replicates, or None without any."""
    return float(np.mean(list(values.values()))) if values else None


@dataclass(frozen=True)
class _Pair:
    first: str  # lower than `second` in the paper
    second: str
    same_order: bool
    distinguished: bool  # the 95 % interval of the paired difference excludes 0


def order_sentence(
    mode: str, ours: Figures, *, paper: Mapping[str, float], labels: Mapping[str, str]
) -> str:
    """How many pairs of rows are in the paper's order, and which are clearly reversed.

    The sentence is "" with fewer than two rows.

    >>> ours = {"a": {0: 0.3, 1: 0.31}, "b": {0: 0.4, 1: 0.41}, "c": {0: 0.2, 1: 0.21}}
    >>> paper, labels = {"a": 0.1, "b": 0.2, "c": 0.3}, {"a": "A", "b": "B", "c": "C"}
    >>> print(order_sentence("LN", ours, paper=paper, labels=labels))
    LN: 1 of 3 pairs of methods are in the paper's order; reversed with a 95 % interval that
    excludes 0: C below A, C below B.
    """
    rows = [row for row in paper if ours.get(row)]
    pairs = [_pair(a, b, ours, paper) for a, b in combinations(rows, 2) if paper[a] != paper[b]]
    if not pairs:
        return ""
    same = sum(pair.same_order for pair in pairs)
    text = (
        f"{mode}: {same} of {counted(len(pairs), 'pair')} of methods "
        f"{noun(len(pairs), 'is', 'are')} in the paper's order"
    )
    if same == len(pairs):
        return text + "."
    if max(len(ours[row]) for row in rows) < 2:
        return text + " (one seed: no interval says which of the others are clearly reversed)."
    clear = [
        f"{labels[pair.second]} below {labels[pair.first]}"
        for pair in pairs
        if not pair.same_order and pair.distinguished
    ]
    if not clear:
        return text + "; of the others, none is reversed with a 95 % interval that excludes 0."
    more = f" and {len(clear) - 6} more" if len(clear) > 6 else ""
    return f"{text}; reversed with a 95 % interval that excludes 0: {', '.join(clear[:6])}{more}."


def _pair(a: str, b: str, ours: Figures, paper: Mapping[str, float]) -> _Pair:
    first, second = (a, b) if paper[a] < paper[b] else (b, a)
    gap = (mean(ours[second]) or 0.0) - (mean(ours[first]) or 0.0)
    difference = paired_difference(dict(ours[first]), dict(ours[second]))
    distinguished = (
        difference is not None and difference.low is not None and not difference.covers_zero
    )
    return _Pair(first, second, gap > 0, distinguished)


def standing_sentence(
    mode: str,
    row: str,
    others: Sequence[str],
    *,
    ours: Figures,
    paper: Mapping[str, float],
    labels: Mapping[str, str],
) -> str:
    """The rows that a row is below and above, here and in the paper.

    The sentence is "" if there is nothing to compare.

    >>> ours = {"g": {0: 0.30, 1: 0.31}, "u": {0: 0.34, 1: 0.36}}
    >>> paper, labels = {"g": 0.3, "u": 0.32}, {"g": "fedgs 1", "u": "uniform"}
    >>> standing_sentence("LN", "g", ["u"], ours=ours, paper=paper, labels=labels)
    'LN: fedgs 1 is below uniform, as in the paper. The 95 % interval of the paired difference
    includes 0 for uniform.'
    """
    compared = [other for other in others if ours.get(other) and ours.get(row)]
    if not compared:
        return ""
    average = mean(ours[row]) or 0.0
    signs = {other: np.sign((mean(ours[other]) or 0.0) - average) for other in compared}
    text = f"{mode}: {labels[row]} is {_below_above(signs, labels)}"
    if row not in paper or any(other not in paper for other in compared):
        text += "."
    else:
        published = {other: np.sign(paper[other] - paper[row]) for other in compared}
        if published == signs:
            text += ", as in the paper."
        else:
            text += f"; in the paper it is {_below_above(published, labels)}."
    unsure = [labels[other] for other in compared if _covers_zero(ours[row], ours[other])]
    if unsure:
        text += f" The 95 % interval of the paired difference includes 0 for {listed(unsure)}."
    return text


def _covers_zero(first: Mapping[object, float], second: Mapping[object, float]) -> bool:
    difference = paired_difference(dict(first), dict(second))
    return difference is not None and difference.covers_zero


def _below_above(signs: Mapping[str, float], labels: Mapping[str, str]) -> str:
    words = []
    for sign, word in ((1, "below"), (-1, "above"), (0, "equal to")):
        names = [labels[other] for other, value in signs.items() if value == sign]
        if names:
            words.append(f"{word} {listed(names)}")
    return ", ".join(words)


def gap_sentence(
    row: str, ours: Mapping[str, Mapping[object, float]], paper: Mapping[str, float]
) -> str:
    """The largest gap between a row's means and the paper's, over modes.

    The sentence is "" without a published mode.

    >>> gap_sentence("uniform", {"IDL": {0: 0.300}, "LN": {0: 0.331}}, {"IDL": 0.302, "LN": 0.320})
    'uniform: at most .011 from the paper (LN: .331 against .320).'
    """
    gaps = {
        mode: average - paper[mode]
        for mode, values in ours.items()
        if mode in paper and (average := mean(values)) is not None
    }
    if not gaps:
        return ""
    worst = max(gaps, key=lambda mode: abs(gaps[mode]))
    ours_there = number(paper[worst] + gaps[worst], 3)
    return (
        f"{row}: at most {number(abs(gaps[worst]), 3)} from the paper ({worst}: {ours_there} "
        f"against {number(paper[worst], 3)})."
    )


def best_row(figures: Figures) -> str | None:
    """The row with the lowest mean (the first of equal ones), or None without figures."""
    means = {
        row: average for row, values in figures.items() if (average := mean(values)) is not None
    }
    return min(means, key=lambda row: means[row]) if means else None


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
