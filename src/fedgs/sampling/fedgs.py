"""FedGS: balanced sampling counts, and clients that are far apart in the graph (Algorithm 1, equations 14 to 17)."""

import contextlib
import hashlib
import importlib.util
import json
import math
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedgs import __version__, solver
from fedgs.arrays import FloatMatrix
from fedgs.clients import Clients, Memory, Outcome, Selection, View
from fedgs.errors import ConfigError, GraphError, SelectionError, require_extra
from fedgs.graph import ClientGraph, Graph, checked_once, client_features
from fedgs.graph.files import digest_of, stored_graph
from fedgs.machine import memory_limit
from fedgs.registry import Variant, register, table
from fedgs.sampling.base import Sampler, Wish
from fedgs.sampling.graph_source import graph_before_round_0, graph_of_features, graph_source
from fedgs.sampling.growing import grown_by_features, grown_by_products, nobody_seen
from fedgs.solver import Effort, Scale, SelectionProblem, balance_penalty, pair_weight, solve

__all__ = ["FedGS", "Solver"]


class Solver(Variant):
    """How hard the solver tries.

    Attributes:
        effort: iterations, not seconds: "fast", "default" or "thorough".
        time_limit: tau_max in seconds, > 0; None: no limit. Where it fires, the round's record says
            "time_limit", and the run is no longer a function of its configuration alone.

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

    with H the distances of the client graph. Where no more than M clients are available, all of
    them are selected and no solver runs. Ties are broken by the round's generator. Remembers the
    graph, H above all: (N, N) float64, made before round 0 or, with `graph.start = "seen"`, grown
    as clients come.

    Attributes:
        alpha: diversity weight >= 0; at 0 exactly the m smallest counts are selected. In `paper`
            scale every 0 < alpha < N/(m-1) has the same optimum: smallest counts first, then the
            largest dispersion.
        scale: "paper", or "cohort" as in the authors' code: alpha weighs the mean pairwise
            distance, z counts 1/(N-1).
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

    @classmethod
    def without_effect(cls, settings: Mapping[str, object]) -> dict[str, str]:
        """The graph's settings that change nothing, under their dotted names."""
        graph = settings.get("graph")
        found = Graph.without_effect(graph) if isinstance(graph, Mapping) else {}
        return {f"graph.{key}": reason for key, reason in found.items()}

    def check(self, clients: Clients, cohort_limit: int) -> None:
        """Refuse a graph that these clients cannot have; nothing falls back to the oracle's graph."""
        graph = self.graph
        _check_memory(len(clients))
        if graph.path is not None:
            if graph.start == "seen":
                raise ConfigError(
                    "method.graph.start must be 'all' where method.graph.path gives the graph, got 'seen'"
                )
            stored_graph(graph.path, len(clients))
        elif graph.similarity in ("oracle", "private"):
            _check_vectors(graph, clients)
        if graph.similarity == "private" and graph.start == "seen":
            raise ConfigError(
                "method.graph.start must be 'all' for similarity 'private': its clients meet in pairs before round 0; got 'seen'"
            )

    @property
    def content_digest(self) -> str | None:
        """A hash of the distances that `graph.path` stands for, part of a run's identity; None without a path."""
        return None if self.graph.path is None else digest_of(self.graph.path)

    @property
    def numerics(self) -> Mapping[str, int]:
        """The version of the solver's cohorts."""
        return {"solver": solver.NUMERICS}

    def wish(self, when: Literal["start", "round"]) -> Wish | None:
        """Features of local models: everybody's at the start, or each cohort's where the graph grows."""
        graph = self.graph
        if graph_source(graph) != ("local_models" if when == "start" else "cohorts"):
            return None
        if graph.similarity == "update":
            return Wish("update", sketch=graph.sketch)
        if graph.similarity == "functional":
            noise = {"noise_samples": graph.noise_samples, "noise_examples": graph.noise_examples}
            return Wish("functional", covariance=graph.covariance, layer=graph.layer, **noise)
        return None

    def memory_key(self, clients: Clients) -> str | None:
        """A hash of what the graph before round 0 is made of; None where a subclass or local models make it."""
        graph = self.graph
        if type(self) is not FedGS or type(graph) is not Graph or self.wish("start") is not None:
            return None  # a class of the user's own may make another graph of the same settings
        made_of = hashlib.sha256(
            json.dumps([table(graph), len(clients), __version__], sort_keys=True).encode()
        )
        if graph.path is not None:
            made_of.update(digest_of(graph.path).encode())
        elif graph_source(graph) != "cohorts":
            vectors = np.ascontiguousarray(client_features(clients))
            made_of.update(repr(vectors.shape).encode() + vectors.tobytes())
        return made_of.hexdigest()[:16]

    def start(self, clients: Clients) -> Memory:
        """The graph before round 0, where it needs no local models: see `start_from` for those that do.

        Raises:
            ConfigError: the graph is made of local models, or `graph.path` is not a graph of these
                clients.
            GraphError: the clients have neither features nor labels, a feature is not finite, or
                there is not enough memory.
        """
        self.check(clients, 1)
        with _enough_memory(len(clients)):
            made = graph_before_round_0(self.graph, clients)
            return nobody_seen(len(clients)) if made is None else _kept(made)

    def start_from(self, clients: Clients, features: FloatMatrix) -> Memory:
        """The graph before round 0 from (N, d) features of local models."""
        with _enough_memory(len(clients)):
            return _kept(graph_of_features(self.graph, features))

    def observe(self, memory: Memory, view: View, outcome: Outcome) -> Memory:
        """The graph stays as it is, or grows with the cohort where it starts with nobody seen."""
        if graph_source(self.graph) != "cohorts":
            return memory
        if self.graph.similarity == "oracle":
            return grown_by_products(
                self.graph, memory, client_features(view.clients), outcome.clients
            )
        if outcome.features is None:
            raise SelectionError(
                "'fedgs' with graph.start = 'seen' needs the cohort's features in outcome.features, got none"
            )
        return grown_by_features(self.graph, memory, np.asarray(outcome.features), outcome.clients)

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        if len(view.available) <= view.cohort_limit:
            return Selection(view.available)
        if "distance" not in view.memory:
            raise SelectionError(
                "'fedgs' needs the distances that start(clients) gives in view.memory, got none"
            )
        problem = SelectionProblem(
            distance=checked_once(view.memory["distance"]),  # the matrix is the same in every round
            balance_penalty=balance_penalty(
                view.counts, view.cohort_limit, view.available, self.scale
            ),
            cohort_size=view.cohort_size,
            pair_weight=pair_weight(self.alpha, self.scale, len(view.clients), view.cohort_size),
            available=view.available,
        )
        solution = solve(
            problem, effort=self.solver.effort, time_limit=self.solver.time_limit, seed=rng
        )
        return Selection(
            solution.cohort,
            status=solution.status,
            objective=solution.objective,
            upper_bound=solution.upper_bound,
        )


_MATRICES = 6  # (N, N) in float64 that are held at once while a graph is made


@contextlib.contextmanager
def _enough_memory(count: int) -> Iterator[None]:
    """One sentence where the system gives less memory than its limits say."""
    try:
        yield
    except MemoryError:
        raise GraphError(f"{_needed(count)}, and the system gave less; {_INSTEAD}") from None


def _needed(count: int) -> str:
    return f"method 'fedgs' needs about {8e-9 * _MATRICES * count**2:.1f} GB of memory for the graph of {count} clients"


_INSTEAD = "use fewer clients, or 'uniform', 'md' or 'power_of_choice', which make no graph"


def _check_memory(count: int) -> None:
    """Refuse more clients than this process can hold a graph of."""
    needed, limit = 8 * _MATRICES * count**2, memory_limit()
    if limit is not None and needed > limit:
        fit = math.isqrt(limit // (8 * _MATRICES))
        raise ConfigError(
            f"{_needed(count)}, and this process may use {limit / 1e9:.1f} GB (up to {fit} clients); {_INSTEAD}"
        )


# With more clients the graph is kept as its distances alone.
_KEEP_WHOLE = 1000


def _kept(graph: ClientGraph) -> Memory:
    """What is remembered of a graph: its distances, and similarities and edges for whoever looks at the run."""
    if len(graph) > _KEEP_WHOLE:
        return {"distance": graph.distance}
    return {
        "distance": graph.distance,
        "similarity": graph.similarity,
        "adjacency": graph.adjacency,
    }


def _check_vectors(graph: Graph, clients: Clients) -> None:
    client_features(clients)
    if graph.similarity != "private":
        return
    if (
        graph.normalize_by_norm
        or graph.normalize_over == "all"
        or graph.construction != "threshold"
    ):
        key, value = next(
            (key, getattr(graph, key))
            for key, allowed in (
                ("normalize_by_norm", False),
                ("construction", "threshold"),
                ("normalize_over", "off_diagonal"),
            )
            if getattr(graph, key) != allowed
        )
        raise ConfigError(
            f"method.graph.{key} = {value!r} needs every client's own product, which similarity 'private' does not give"
        )
    if graph.protocol == "ring" and importlib.util.find_spec("cryptography") is None:
        raise require_extra("cryptography", "secure")
    if graph.protocol == "ring" and len(clients) == 2 and graph.dealer is None:
        raise ConfigError(
            "method.graph.dealer must name a dealer where there are only two clients, got none"
        )
