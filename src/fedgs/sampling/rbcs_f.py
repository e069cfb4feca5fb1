"""RBCS-F: fast cohorts in which every client keeps a guaranteed rate of participation."""

import heapq

import numpy as np
from pydantic import Field

from fedgs.arrays import FloatArray, IntArray
from fedgs.clients import Clients, Memory, Outcome, Selection, View
from fedgs.errors import SelectionError
from fedgs.registry import register
from fedgs.sampling.base import Sampler

__all__ = ["RBCSF", "fastest_cohort"]


@register("method", "rbcs_f")
class RBCSF(Sampler):
    """The m available clients with the lowest V max tau_k - sum z_k.

    z_k is a queue of what is owed to client k: z_k <- max(0, z_k + beta - 1{k in S}) in every
    round, also in those without a cohort, with the guaranteed rate beta = `guaranteed` · M/N. If
    the rates are feasible, every client participates in a share beta of the rounds in the long run.
    tau_k is the duration of the client's last answered work, 0 before its first one. Without a
    clock all tau_k are 0, and the m longest queues are selected. Ties are broken at random.

    Attributes:
        guaranteed: beta as a share of M/N, the rate of equal participation, in [0, 1].
        penalty: V >= 0, what a second of the slowest client of the cohort costs, in turns.

    Reference:
        T. Huang, W. Lin, W. Wu, L. He, K. Li, A. Y. Zomaya (2021): An Efficiency-Boosting Client
        Selection Scheme for Federated Learning with Fairness Guarantee. IEEE Transactions on
        Parallel and Distributed Systems.

    >>> clients, counts = Clients(tuple("abc"), np.array([5, 1, 9])), np.array([2, 0, 2])
    >>> memory = {"queues": np.array([0.1, 2.5, 0.3]), "round": np.array([4])}
    >>> view = View(4, clients, np.arange(3), counts, cohort_limit=2, memory=memory)
    >>> RBCSF().select(view, np.random.default_rng(0)).clients
    array([1, 2])
    """

    guaranteed: float = Field(default=0.75, ge=0, le=1)
    penalty: float = Field(default=0.1, ge=0, allow_inf_nan=False)

    def start(self, clients: Clients) -> Memory:
        """Empty queues, and the round that they are of."""
        return {"queues": np.zeros(len(clients)), "round": np.zeros(1, dtype=np.int64)}

    def queues(self, view: View) -> FloatArray:
        """(N,) z_k at the beginning of the round; rounds without a cohort only add to them.

        Raises:
            SelectionError: the view has no memory.
        """
        if "queues" not in view.memory:
            raise SelectionError(
                f"{self.name!r} needs its memory in view.memory, as start(clients) gives it, "
                "got none"
            )
        passed = view.round - int(view.memory["round"][0])
        queues: FloatArray = view.memory["queues"] + passed * self._rate(view)
        return queues

    def observe(self, memory: Memory, view: View, outcome: Outcome) -> Memory:
        """The queues of the next round."""
        queues = self.queues(view) + self._rate(view)
        queues[outcome.clients] -= 1.0
        return {"queues": np.maximum(queues, 0.0), "round": np.array([view.round + 1])}

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        """The cohort of the lowest cost.

        Raises:
            SelectionError: the view has no memory.
        """
        queues = self.queues(view)
        order = view.available[np.argsort(rng.random(len(view.available)))]
        durations = np.zeros(len(order))
        if view.seconds is not None:
            durations = np.nan_to_num(view.seconds[order], nan=0.0)
        chosen = fastest_cohort(self.penalty * durations, queues[order], view.cohort_size)
        return Selection(np.sort(order[chosen]))

    def _rate(self, view: View) -> float:
        return self.guaranteed * view.cohort_limit / len(view.clients)


def fastest_cohort(costs: FloatArray, queues: FloatArray, size: int) -> IntArray:
    """The positions of the cohort with the lowest max(costs) - sum(queues), exactly.

    The cohort whose slowest client has cost c consists of the longest queues among the clients with
    costs of at most c, so one pass in the order of costs finds the best one, in O(a log a).

    Args:
        costs: (a,) >= 0.
        queues: (a,) any numbers; of equal ones those in front are taken.
        size: 1 <= m <= a.

    >>> fastest_cohort(np.array([0.0, 9.0, 1.0]), np.array([1.0, 5.0, 2.0]), 2)
    array([0, 2])
    """
    by_cost = np.argsort(costs, kind="stable")
    heap = [(queues[k], -k) for k in by_cost[:size].tolist()]
    heapq.heapify(heap)
    total = sum(queue for queue, _ in heap)
    best, lowest = [-k for _, k in heap], costs[by_cost[size - 1]] - total
    for k in by_cost[size:].tolist():
        left = heapq.heappushpop(heap, (queues[k], -k))
        total += queues[k] - left[0]
        if costs[k] - total < lowest:
            best, lowest = [-position for _, position in heap], costs[k] - total
    return np.sort(np.array(best, dtype=np.int64))
