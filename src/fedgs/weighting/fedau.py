"""FedAU: weights from the mean length of the intervals between participations."""

import numpy as np
from pydantic import Field

from fedgs.arrays import FloatArray
from fedgs.clients import Clients, Memory, Outcome, Selection, View
from fedgs.registry import register
from fedgs.weighting.base import Weighting

__all__ = ["FedAU"]


@register("weighting", "fedau")
class FedAU(Weighting):
    """w_k = p_k omega_k, where omega_k estimates 1/pi_k by the mean interval (FedAU).

    An interval of client k ends when it takes part, or after `cutoff` rounds. omega_k is the mean
    length of the intervals that ended before round t, and 1 before the first one ended. Without a
    cutoff omega_k tends to 1/pi_k for clients that take part independently with rate pi_k; with
    cutoff K it tends to (1 - (1 - pi_k)^K) / pi_k. A client that takes part in every round has
    omega_k = 1.

    With a cohort limit, participations are counted, not availability.

    Reference: Wang and Ji, "A Lightweight Method for Tackling Unknown Participation Statistics in
    Federated Averaging", 2024, ICLR.

    Attributes:
        cutoff: K >= 1, the longest interval in rounds; 0: no limit.

    >>> weighting = FedAU(cutoff=0)
    >>> clients = Clients(("a", "b"), np.array([1, 1]))
    >>> memory, counts = weighting.start(clients, 2), np.zeros(2, dtype=np.int64)
    >>> for t in range(4):  # "a" takes part in every round, "b" in every second one
    ...     view = View(t, clients, np.array([0, 1] if t % 2 else [0]), counts, cohort_limit=2)
    ...     outcome = Outcome(view.available, np.ones(len(view.available)))
    ...     memory = weighting.observe(memory, view, outcome)
    >>> memory["mean"].tolist()
    [1.0, 2.0]
    """

    cutoff: int = Field(default=50, ge=0)

    @property
    def is_normalised(self) -> bool:
        """False."""
        return False

    def start(self, clients: Clients, cohort_limit: int) -> Memory:
        """Rounds since the last end of an interval, number of intervals, and their mean length."""
        zeros = np.zeros(len(clients), dtype=np.int64)
        return {"rounds": zeros, "intervals": zeros, "mean": np.ones(len(clients))}

    def weights(self, view: View, selection: Selection, memory: Memory) -> FloatArray:
        """(m,) p_k omega_k."""
        weights: FloatArray = view.shares[selection.clients] * memory["mean"][selection.clients]
        return weights

    def observe(self, memory: Memory, view: View, outcome: Outcome | None) -> Memory:
        """End the intervals of the clients that took part, and those that reached the cutoff."""
        rounds = memory["rounds"] + 1
        has_ended = np.zeros(len(rounds), dtype=np.bool_)
        if outcome is not None:
            has_ended[outcome.clients] = True
        has_ended |= rounds == self.cutoff  # with 0 never, since rounds >= 1
        intervals = memory["intervals"]
        mean = (intervals * memory["mean"] + rounds) / (intervals + 1)
        return {
            "rounds": np.where(has_ended, 0, rounds),
            "intervals": intervals + has_ended,
            "mean": np.where(has_ended, mean, memory["mean"]),
        }
