"""FedGS: balanced sampling counts, and clients that are far apart in the graph (Algorithm 1, equations 14 to 17)."""

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedgs.clients import Clients, Memory, Outcome, Selection, View
from fedgs.errors import ConfigError, SelectionError
from fedgs.graph import Graph
from fedgs.registry import Variant, register
from fedgs.sampling.base import Sampler
from fedgs.solver import Effort, Scale, SelectionProblem, balance_penalty, pair_weight, solve

__all__ = ["FedGS", "Solver"]


class Solver(Variant):
    """How hard the solver tries.

    Attributes:
        effort: iterations, not seconds: "fast", "default" or "thorough".
        time_limit: tau_max in seconds, > 0; None: no limit. Where it fires, the round's record says "time_limit", and the run is
            no longer a function of its configuration alone.

    >>> Solver(effort="fast").time_limit is None
    True
    """

    family: ClassVar[str] = "method.solver"
    effort: Effort = "default"
    time_limit: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


@register("method", "fedgs")
class FedGS(Sampler):
    """The cohort that is best in balance and diversity: maximise over S in A_t with |S| = m

        J(S) = alpha/N · (sum over ordered pairs i≠j in S of h_ij) - sum over S of z_k,  z_k = 2 (v_k - mean(v) - M/N) + 1

    with H the distances of the client graph. Where no more than M clients are available, all of them are selected and no solver
    runs. Ties are broken by the round's generator. Remembers H: (N, N) float64, made once before round 0.

    Attributes:
        alpha: diversity weight >= 0; at 0 exactly the m smallest counts are selected. In `paper` scale every
            0 < alpha < N/(m-1) has the same optimum: smallest counts first, then the largest dispersion.
        scale: "paper", or "cohort" as in the authors' code: alpha weighs the mean pairwise distance, z counts 1/(N-1).
        graph: how the client graph is made, see `fedgs.graph.Graph`.
        solver: effort and time limit.

    >>> from fedgs import Clients
    >>> labels = np.array([[4, 0], [4, 0], [2, 2], [0, 4]])
    >>> clients = Clients(("a", "b", "c", "d"), np.full(4, 4), label_counts=labels)
    >>> sampler = FedGS(alpha=1.0)
    >>> memory = sampler.start(clients)
    >>> view = View(0, clients, np.array([1, 2, 3]), np.array([0, 0, 0, 0]), cohort_limit=2, memory=memory)
    >>> selection = sampler.select(view, np.random.default_rng(0))
    >>> selection.clients, selection.status
    (array([1, 3]), 'optimal')
    """

    alpha: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    scale: Scale = "paper"
    graph: Graph = Graph()
    solver: Solver = Solver()

    def check(self, clients: Clients, cohort_limit: int) -> None:
        graph = self.graph
        if graph.path is not None or graph.start != "all" or graph.similarity != "oracle":
            # A setting that cannot be served is refused; it never falls back to the oracle's graph.
            given = {"path": graph.path, "start": graph.start, "similarity": graph.similarity}
            ours = {"path": None, "start": "all", "similarity": "oracle"}
            key = next(key for key, value in given.items() if value != ours[key])
            raise ConfigError(f"method.graph.{key} must be {ours[key]!r} for a graph of the clients' data, got {given[key]!r}")

    def start(self, clients: Clients) -> Memory:
        """H, made from the clients' features or label proportions.

        Raises:
            ConfigError: the graph is to be made from something else than the clients' data.
            GraphError: the clients have neither features nor labels, or a feature is not finite.
        """
        self.check(clients, 1)
        return {"distance": self.graph.of_clients(clients).distance}

    def observe(self, memory: Memory, view: View, outcome: Outcome) -> Memory:
        """The graph stays as it is."""
        return memory

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        if len(view.available) <= view.cohort_limit:
            return Selection(view.available)
        if "distance" not in view.memory:
            raise SelectionError("'fedgs' needs the distances that start(clients) gives in view.memory, got none")
        problem = SelectionProblem(
            distance=view.memory["distance"],
            balance_penalty=balance_penalty(view.counts, view.cohort_limit, view.available, self.scale),
            cohort_size=view.cohort_size,
            pair_weight=pair_weight(self.alpha, self.scale, len(view.clients), view.cohort_size),
            available=view.available,
        )
        solution = solve(problem, effort=self.solver.effort, time_limit=self.solver.time_limit, seed=rng)
        return Selection(solution.cohort, status=solution.status, objective=solution.objective, upper_bound=solution.upper_bound)
