"""What samplers that rank clients by their losses share."""

import numpy as np

from fedgs.arrays import FloatArray, IntArray
from fedgs.clients import View
from fedgs.errors import ConfigError

__all__ = [
    "check_candidates",
    "drawn_candidates",
    "highest_losses",
]


def check_candidates(method: str, candidates: int | None, cohort_limit: int) -> None:
    """Refuse fewer candidates than the cohort limit.

    >>> check_candidates("rpow_d", 3, 4)
    Traceback (most recent call last):
    fedgs.errors.ConfigError: method.candidates must be at least 4, the cohort limit, for 'rpow_d',
    got 3
    """
    if candidates is not None and candidates < cohort_limit:
        raise ConfigError(
            f"method.candidates must be at least {cohort_limit}, the cohort limit, for "
            f"{method!r}, got {candidates}"
        )


def drawn_candidates(view: View, count: int | None, rng: np.random.Generator) -> IntArray:
    """Available clients, drawn in proportion to n_k without replacement.

    Args:
        view: of the round.
        count: d; None: all available clients. With d >= |A_t| nothing is drawn.
        rng: draws.

    Returns:
        (min(d, |A_t|),) ascending indices.
    """
    if count is None or count >= len(view.available):
        return view.available
    # Exponential times with rates n_k: their order is that of draws in proportion to n_k without
    # replacement.
    sizes = view.clients.data_sizes[view.available]
    arrival = rng.exponential(size=len(sizes)) / sizes
    return np.sort(view.available[np.argsort(arrival)[:count]])


def highest_losses(
    clients: IntArray, losses: FloatArray, count: int, rng: np.random.Generator
) -> IntArray:
    """The `count` clients with the highest losses; inf is first, NaN last, ties at random.

    Args:
        clients: (c,) indices.
        losses: (c,) their losses.
        count: how many, at most c.
        rng: breaks ties.

    Returns:
        (count,) ascending indices.

    >>> losses = np.array([0.3, np.nan, np.inf, 0.5])
    >>> highest_losses(np.array([1, 4, 6, 7]), losses, 2, np.random.default_rng(0))
    array([6, 7])
    """
    known = ~np.isnan(losses)
    # `lexsort` sorts by its last key first: known losses, the highest first, ties at random.
    order = np.lexsort((rng.random(len(losses)), -np.where(known, losses, 0.0), ~known))
    return np.sort(clients[order[:count]])
