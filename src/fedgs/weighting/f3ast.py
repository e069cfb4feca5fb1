"""F3AST: weights from a moving average of each client's participation."""

import numpy as np
from pydantic import Field

from fedgs.arrays import FloatArray, IntArray
from fedgs.clients import Clients, Counted, Memory, Outcome, Selection, View
from fedgs.registry import register
from fedgs.weighting.base import Weighting
from fedgs.weighting.counted import counts_of, first_counts, selected_before

__all__ = ["F3ASTWeighting", "first_rates", "moved_rates"]


def first_rates(num_clients: int, cohort_limit: int) -> FloatArray:
    """(N,) r_0 = min(1, M/N), with which the weights of a round sum to about 1.

    >>> first_rates(4, 2).tolist()
    [0.5, 0.5, 0.5, 0.5]
    """
    return np.full(num_clients, min(1.0, cohort_limit / num_clients))


def moved_rates(rates: FloatArray, beta: float, clients: IntArray | None) -> FloatArray:
    """(N,) (1 - beta) r_k + beta 1{k in S_t}.

    Args:
        rates: (N,) r_k.
        beta: weight of the newest round.
        clients: indices of S_t; None: an empty round.

    >>> moved_rates(np.array([0.5, 0.5]), 0.5, np.array([1])).tolist()
    [0.25, 0.75]
    """
    moved: FloatArray = (1.0 - beta) * rates
    if clients is not None:
        moved[clients] += beta
    return moved


@register("weighting", "f3ast")
class F3ASTWeighting(Weighting):
    """w_k = p_k / r_k, where r_k is a moving average of the participations of client k.

    r_k = (1 - beta) r_k + beta 1{k in S_t} after every round, also an empty one, and r_0 = M/N.
    The weight of a round uses the r_k of the rounds before. In contrast to `fedau`, it forgets:
    rates may drift. The weight of a client that is absent for T rounds grows by (1 - beta)^-T.

    Reference: Ribero, Vikalo and de Veciana, "Federated Learning Under Intermittent Client
    Availability and Time-Varying Communication Constraints", 2023, IEEE Journal of Selected Topics
    in Signal Processing.

    Attributes:
        beta: weight of the newest round, 0 < beta < 1.
        normalise: whether the weights are divided by their sum, which limits them; the published
            rule does not.
        counts: what a participation is. "answered": an update of the client that entered the
            model. "selected": a round that selected the client. Both are equal where every
            selected client answers.

    >>> weighting = F3ASTWeighting(beta=0.5)
    >>> clients, counts = Clients(("a", "b"), np.array([1, 3])), np.zeros(2, dtype=np.int64)
    >>> view = View(0, clients, np.arange(2), counts, cohort_limit=1)
    >>> outcome = Outcome(np.array([1]), np.ones(1))
    >>> memory = weighting.observe(weighting.start(clients, 1), view, outcome)
    >>> weighting.weights(view, Selection(np.arange(2)), memory).tolist()
    [1.0, 1.0]
    """

    beta: float = Field(default=0.001, gt=0, lt=1)
    normalise: bool = False
    counts: Counted = "answered"
    later_settings = (("counts",),)

    @property
    def is_normalised(self) -> bool:
        """The setting `normalise`."""
        return self.normalise

    def start(self, clients: Clients, cohort_limit: int) -> Memory:
        """The rates r_0."""
        memory = {"rates": first_rates(len(clients), cohort_limit)}
        return memory | ({"seen": first_counts(clients)} if self.counts == "selected" else {})

    def weights(self, view: View, selection: Selection, memory: Memory) -> FloatArray:
        """(m,) p_k / r_k."""
        if self.counts == "selected":
            memory = self._with_selections(memory, view)
        cohort = selection.clients
        weights: FloatArray = view.shares[cohort] / memory["rates"][cohort]
        return weights

    def observe(self, memory: Memory, view: View, outcome: Outcome | None) -> Memory:
        """Move the rates."""
        if self.counts == "selected":
            return self._with_selections(memory, view)
        clients = None if outcome is None else outcome.clients
        return {"rates": moved_rates(memory["rates"], self.beta, clients)}

    def _with_selections(self, memory: Memory, view: View) -> Memory:
        """The memory after the round before `view`, in which the counts grew."""
        known, selected = selected_before(memory, view)
        moved = moved_rates(memory["rates"], self.beta, np.flatnonzero(selected))
        return {"rates": np.where(known, moved, memory["rates"]), "seen": counts_of(view)}
