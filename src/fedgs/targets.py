"""When a figure reaches a target: one rule for tables and for runs that stop at a target."""

import itertools
from collections.abc import Sequence

__all__ = ["first_reached"]


def first_reached(
    values: Sequence[float | None], target: float, *, higher: bool = False
) -> int | None:
    """The position at which a figure reaches a target, or None if it does not.

    A target is reached at the first of two evaluations in a row that are at the target or beyond
    it, so that one evaluation alone does not count.

    Args:
        values: the figure at each evaluation, in order; NaN and None do not reach a target.
        target: the value to reach.
        higher: whether higher values are better, as for an accuracy.

    >>> first_reached([0.9, 0.4, 0.6, 0.5, 0.3], 0.5)
    3
    >>> first_reached([0.9, 0.4], 0.5) is None
    True
    >>> first_reached([0.5, 0.8, 0.9], 0.8, higher=True)
    1
    """
    there = [
        value is not None and (value >= target if higher else value <= target) for value in values
    ]
    pairs = itertools.pairwise(there)
    return next((position for position, pair in enumerate(pairs) if all(pair)), None)
