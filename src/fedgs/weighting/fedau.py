"""FedAU: weights from the mean length of the intervals between participations."""

import numpy as np
from pydantic import Field

from fedgs.arrays import BoolArray, FloatArray
from fedgs.clients import Clients, Counted, Memory, Outcome, Selection, View
from fedgs.registry import register
from fedgs.weighting.base import Weighting
from fedgs.weighting.counted import counts_of, first_counts, selected_before

__all__ = ["FedAU"]


@register("weighting", "fedau")
class FedAU(Weighting):
    """w_k = p_k omega_k, where omega_k estimates 1/pi_k by the mean interval (FedAU).

    An interval of client k ends when it participates, or after `cutoff` rounds. omega_k is the mean
    length of the intervals that ended before round t, and 1 before the first one ended. Without a
    cutoff omega_k tends to 1/pi_k for clients that participate independently with rate pi_k; with
    cutoff K it tends to (1 - (1 - pi_k)^K) / pi_k. A client that participates in every round has
    omega_k = 1.

    With a cohort limit, participations are counted, not availability.

    Reference: Wang and Ji, "A Lightweight Method for Tackling Unknown Participation Statistics in
    Federated Averaging", 2024, ICLR.

    Attributes:
        cutoff: K >= 1, the longest interval in rounds; 0: no limit.
        counts: what ends an interval. "answered": an update of the client that entered the model.
            "selected": a round that selected the client. Both are equal where every selected
            client answers.

    >>> weighting = FedAU(cutoff=0)
    >>> clients = Clients(("a", "b"), np.array([1, 1]))
    >>> memory, counts = weighting.start(clients, 2), np.zeros(2, dtype=np.int64)
    >>> for t in range(4):  # "a" participates in every round, "b" in every second one
    ...     view = View(t, clients, np.array([0, 1] if t % 2 else [0]), counts, cohort_limit=2)
    ...     outcome = Outcome(view.available, np.ones(len(view.available)))
    ...     memory = weighting.observe(memory, view, outcome)
    >>> memory["mean"].tolist()
    [1.0, 2.0]
    """

    cutoff: int = Field(default=50, ge=0)
    counts: Counted = "answered"
    later_settings = (("counts",),)

    @property
    def is_normalised(self) -> bool:
        """False."""
        return False

    def start(self, clients: Clients, cohort_limit: int) -> Memory:
        """Rounds since the last end of an interval, number of intervals, and their mean length."""
        zeros = np.zeros(len(clients), dtype=np.int64)
        memory = {"rounds": zeros, "intervals": zeros, "mean": np.ones(len(clients))}
        return memory | ({"seen": first_counts(clients)} if self.counts == "selected" else {})

    def weights(self, view: View, selection: Selection, memory: Memory) -> FloatArray:
        """(m,) p_k omega_k."""
        if self.counts == "selected":
            memory = self._with_selections(memory, view)
        weights: FloatArray = view.shares[selection.clients] * memory["mean"][selection.clients]
        return weights

    def observe(self, memory: Memory, view: View, outcome: Outcome | None) -> Memory:
        """End the intervals of the clients that participated, and those that reached the cutoff."""
        if self.counts == "selected":
            return self._with_selections(memory, view)
        took_part = np.zeros(len(memory["rounds"]), dtype=np.bool_)
        if outcome is not None:
            took_part[outcome.clients] = True
        return self._moved(memory, took_part)

    def _with_selections(self, memory: Memory, view: View) -> Memory:
        """The memory after the round before `view`, in which the counts grew."""
        known, selected = selected_before(memory, view)
        moved = self._moved(memory, selected)
        kept = {name: np.where(known, moved[name], memory[name]) for name in moved}
        return {**kept, "seen": counts_of(view)}

    def _moved(self, memory: Memory, took_part: BoolArray) -> Memory:
        """The memory after a round."""
        rounds = memory["rounds"] + 1
        has_ended = took_part | (rounds == self.cutoff)  # with 0 never, since rounds >= 1
        intervals = memory["intervals"]
        mean = (intervals * memory["mean"] + rounds) / (intervals + 1)
        return {
            "rounds": np.where(has_ended, 0, rounds),
            "intervals": intervals + has_ended,
            "mean": np.where(has_ended, mean, memory["mean"]),
        }
