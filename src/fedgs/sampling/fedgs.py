"""FedGS: balanced sampling counts and distant clients (Algorithm 1, equations 14 to 17)."""

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
from fedgs.arrays import FloatArray, FloatMatrix, IntArray
from fedgs.clients import Clients, Memory, Outcome, Selection, View
from fedgs.errors import ConfigError, GraphError, SelectionError, require_extra
from fedgs.graph import ClientGraph, Graph, checked_once, client_features
from fedgs.graph.files import digest_of, stored_graph
from fedgs.machine import memory_limit
from fedgs.registry import Variant, register, table
from fedgs.sampling.base import Sampler, Wish
from fedgs.sampling.graph_source import (
    graph_before_round_0,
    graph_of_features,
    graph_source,
    graph_wish,
)
from fedgs.sampling.growing import (
    grown_by_clients,
    grown_by_features,
    grown_by_products,
    no_client_seen,
)
from fedgs.sampling.growing_landmarks import (
    landmarks_by_clients,
    landmarks_by_features,
    landmarks_by_products,
    no_client_known,
)
from fedgs.sampling.landmarks import (
    check_structure,
    has_landmarks,
    landmark_memory,
    landmark_words,
    remembered,
)
from fedgs.sampling.shares import turns_ahead
from fedgs.solver import (
    Effort,
    Scale,
    SelectionProblem,
    balance_bound,
    balance_penalty,
    pair_weight,
    solve,
)
from fedgs.weighting import Deficit, as_weighting

__all__ = ["Balance", "FedGS", "Solver"]

Balance = Literal["selected", "answered", "share"]


class Solver(Variant):
    """How hard the solver tries.

    Attributes:
        effort: "fast", "default" or "thorough"; it counts iterations, not seconds.
        time_limit: tau_max in seconds, > 0; None: no limit. If it is reached, the round's record
            says "time_limit", and the run no longer depends on its configuration alone.

    >>> Solver(effort="fast").time_limit is None
    True
    """

    family: ClassVar[str] = "method.solver"
    effort: Effort = "default"
    time_limit: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


@register("method", "fedgs")
class FedGS(Sampler):
    """The cohort with the best balance and diversity.

    Maximises over the subsets S of A_t with |S| = m

        J(S) = alpha/N · (sum over ordered pairs i≠j in S of h_ij) - sum over S of z_k
        z_k = 2 (v_k - mean(v) - M/N) + 1

    with H the distances of the client graph. If at most M clients are available, all of them are
    selected and no solver runs. Ties are broken by the round's generator. The memory holds the
    graph, above all H, an (N, N) float64 matrix that is made before round 0 or, with
    `graph.start = "seen"`, grows with the cohorts. Above 10,000 clients it holds the landmark
    metric in place of H, see `graph.structure`.

    Attributes:
        alpha: diversity weight >= 0; at 0 exactly the m smallest counts are selected. In `paper`
            scale every 0 < alpha < N/(m-1) has the same optimum: smallest counts first, then the
            largest dispersion.
        scale: "paper", or "cohort" as in the authors' code: alpha weights the mean pairwise
            distance, and z_k is divided by N-1.
        graph: how the client graph is made, see `fedgs.graph.Graph`.
        solver: effort and time limit.
        balance: what v_k counts. "selected": the rounds before t that selected client k.
            "answered": its updates that entered the model, plus its selections without an answer
            since the last one. Both are equal where every selected client answers. "share": the
            weights that client k has received, see `turns_ahead`; needs the weighting "deficit". In
            `paper` scale alpha is then the number of turns that diversity may outweigh: a pair has
            the weight 2 alpha / (m - 1).

    References:
        Z. Wang, X. Fan, J. Qi, H. Jin, P. Yang, S. Shen, C. Wang (2023): FedGS: Federated
        Graph-Based Sampling with Arbitrary Client Availability. AAAI 37.

    >>> from fedgs import Clients
    >>> labels = np.array([[4, 0], [4, 0], [2, 2], [0, 4]])
    >>> clients = Clients(("a", "b", "c", "d"), np.full(4, 4), label_counts=labels)
    >>> sampler = FedGS(alpha=1.0)
    >>> memory = sampler.start(clients)
    >>> available, counts = np.array([1, 2, 3]), np.zeros(4, dtype=np.int64)
    >>> view = View(0, clients, available, counts, cohort_limit=2, memory=memory)
    >>> selection = sampler.select(view, np.random.default_rng(0))
    >>> selection.clients, selection.status
    (array([1, 3]), 'optimal')
    """

    alpha: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    scale: Scale = "paper"
    graph: Graph = Graph()
    solver: Solver = Solver()
    balance: Balance = "selected"
    later_settings = (("balance",),)

    @classmethod
    def without_effect(cls, settings: Mapping[str, object]) -> dict[str, str]:
        """The graph's settings that have no effect, under their dotted names."""
        graph = settings.get("graph")
        messages = Graph.without_effect(graph) if isinstance(graph, Mapping) else {}
        return {f"graph.{key}": message for key, message in messages.items()}

    def check(self, clients: Clients, cohort_limit: int) -> None:
        """Refuse a graph that these clients cannot have; there is no fallback to another graph."""
        graph = self.graph
        check_structure(graph, clients)
        if not has_landmarks(graph, clients):
            _check_memory(len(clients))
        if self.balance == "share" and not isinstance(as_weighting(self.weighting), Deficit):
            raise ConfigError(
                "method.balance = 'share' needs the weights that method.weighting = 'deficit' "
                f"records, got {self.weighting!r}"
            )
        if graph.path is not None:
            if graph.start == "seen":
                raise ConfigError(
                    "method.graph.start must be 'all' where method.graph.path gives the graph, got "
                    "'seen'"
                )
            stored_graph(graph.path, len(clients))
        elif graph.similarity in ("oracle", "private"):
            _check_vectors(graph, clients)
        if graph.similarity == "private" and graph.start == "seen":
            raise ConfigError(
                "method.graph.start must be 'all' for similarity 'private': its clients meet in "
                "pairs before round 0; got 'seen'"
            )

    @property
    def content_digest(self) -> str | None:
        """A hash of the distances in `graph.path`, for a run's identity; None without a path."""
        return None if self.graph.path is None else digest_of(self.graph.path)

    @property
    def numerics(self) -> Mapping[str, int]:
        """The version of the solver, which changes whenever its cohorts do."""
        return {"solver": solver.NUMERICS}

    def wish(self, when: Literal["start", "round"]) -> Wish | None:
        """Features of all local models at the start, or of each cohort's if the graph grows."""
        source = "local_models" if when == "start" else "cohorts"
        return graph_wish(self.graph) if graph_source(self.graph) == source else None

    def memory_key(self, clients: Clients) -> str | None:
        """A hash of all that the graph before round 0 depends on.

        None if the graph is made of local models, or for a subclass, which may make another graph
        from the same settings.
        """
        graph = self.graph
        if type(self) is not FedGS or type(graph) is not Graph or self.wish("start") is not None:
            return None
        settings = json.dumps([table(graph), len(clients), __version__], sort_keys=True)
        key = hashlib.sha256(settings.encode())
        if graph.path is not None:
            key.update(digest_of(graph.path).encode())
        elif graph_source(graph) != "cohorts":
            vectors = np.ascontiguousarray(client_features(clients))
            key.update(repr(vectors.shape).encode())
            key.update(vectors.reshape(-1).data)
            key.update(b"landmarks" if has_landmarks(graph, clients) else b"")
        return key.hexdigest()[:16]

    def start(self, clients: Clients) -> Memory:
        """The graph before round 0, unless it is made of local models, see `start_from`.

        Raises:
            ConfigError: the graph is made of local models, or `graph.path` is not a graph of these
                clients.
            GraphError: the clients have neither features nor labels, a feature is not finite, or
                there is not enough memory.
        """
        self.check(clients, 1)
        with _enough_memory(len(clients)):
            landmarks = has_landmarks(self.graph, clients)
            if graph_source(self.graph) == "cohorts":
                return (no_client_known if landmarks else no_client_seen)(len(clients))
            if landmarks and self.wish("start") is None:
                return landmark_memory(self.graph, client_features(clients), of="clients")
            graph = graph_before_round_0(self.graph, clients)
            assert graph is not None  # see `graph_source`
            return _memory_of(graph)

    def start_from(self, clients: Clients, features: FloatMatrix) -> Memory:
        """The graph before round 0 from (N, d) features of local models."""
        with _enough_memory(len(clients)):
            if has_landmarks(self.graph, clients):
                return landmark_memory(self.graph, features, of="models")
            return _memory_of(graph_of_features(self.graph, features))

    def observe(self, memory: Memory, view: View, outcome: Outcome) -> Memory:
        """The same graph, or one that has grown with the cohort if `graph.start` is "seen"."""
        if graph_source(self.graph) != "cohorts":
            return memory
        landmarks = "known" in memory
        if self.graph.similarity == "oracle":
            grow = landmarks_by_products if landmarks else grown_by_products
            return grow(self.graph, memory, client_features(view.clients), outcome.clients)
        if outcome.features is None:
            raise SelectionError(
                "'fedgs' with graph.start = 'seen' needs the cohort's features in "
                "outcome.features, got none"
            )
        add = landmarks_by_features if landmarks else grown_by_features
        return add(self.graph, memory, np.asarray(outcome.features), outcome.clients)

    def grow(self, memory: Memory, clients: Clients) -> Memory:
        """The graph with clients that have joined; one that grows knows no feature of them."""
        if graph_source(self.graph) != "cohorts":
            return self.start(clients)
        with _enough_memory(len(clients)):
            if has_landmarks(self.graph, clients):
                return landmarks_by_clients(self.graph, memory, len(clients))
            return grown_by_clients(memory, len(clients))

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        """The best cohort found, with the solver's status and bound.

        All available clients, without these, if at most M are available. On the landmark metric
        the status is "landmarks", unless the time limit fired; objective and bound are those of
        that metric, whose largest distance is the unit.
        """
        if len(view.available) <= view.cohort_limit:
            return Selection(view.available)
        # Checked once, since the arrays are the same in every round.
        dense = "distance" in view.memory
        problem = SelectionProblem(
            distance=checked_once(view.memory["distance"]) if dense else remembered(view.memory),
            balance_penalty=balance_penalty(
                self._counts(view), view.cohort_limit, view.available, self.scale
            ),
            cohort_size=view.cohort_size,
            pair_weight=self._pair_weight(len(view.clients), view.cohort_size),
            available=view.available,
        )
        solution = solve(
            problem, effort=self.solver.effort, time_limit=self.solver.time_limit, seed=rng
        )
        proven = dense or solution.status == "time_limit"
        return Selection(
            solution.cohort,
            status=solution.status if proven else "landmarks",
            objective=solution.objective,
            upper_bound=solution.upper_bound,
        )

    def _pair_weight(self, count: int, cohort_size: int) -> float:
        """The weight of a pair; in `paper` scale beside balanced shares, 2 alpha / (m - 1)."""
        alpha = self.alpha
        if self.balance == "share" and self.scale == "paper":
            alpha = alpha * balance_bound(count, cohort_size) if cohort_size > 1 else 0.0
        return pair_weight(alpha, self.scale, count, cohort_size)

    def describe(self, memory: Memory) -> Mapping[str, str]:
        """The landmarks in words, under "graph"; nothing for a graph of all pairs."""
        if "known" in memory:
            return {"graph": f"at most {self.graph.landmarks} landmarks among selected clients"}
        words = landmark_words(memory, self.graph.landmarks)
        return {} if words is None else {"graph": words}

    def _counts(self, view: View) -> IntArray | FloatArray:
        """(N,) v_k as `balance` counts them."""
        if self.balance == "selected":
            return view.counts
        if self.balance == "share":
            return turns_ahead(view)
        return view.answers if view.failures is None else view.answers + view.failures


# Number of (N, N) float64 matrices that exist at once while a graph is made.
_MATRICES = 6


@contextlib.contextmanager
def _enough_memory(count: int) -> Iterator[None]:
    """Turn a `MemoryError` into one sentence: systems may give less memory than they report."""
    try:
        yield
    except MemoryError:
        raise GraphError(f"{_needed(count)}, and the system gave less; {_INSTEAD}") from None


def _needed(count: int) -> str:
    gigabytes = 8e-9 * _MATRICES * count**2
    return (
        f"method 'fedgs' needs about {gigabytes:.1f} GB of memory for the graph of {count} clients"
    )


_INSTEAD = "use fewer clients, or 'uniform', 'md' or 'power_of_choice', which make no graph"


def _check_memory(count: int) -> None:
    """Refuse a graph that does not fit into the memory of this process."""
    needed, limit = 8 * _MATRICES * count**2, memory_limit()
    if limit is not None and needed > limit:
        most = math.isqrt(limit // (8 * _MATRICES))
        raise ConfigError(
            f"{_needed(count)}, and this process may use {limit / 1e9:.1f} GB (up to {most} "
            f"clients); {_INSTEAD}"
        )


# With more clients the memory holds only the distances of the graph.
_KEEP_WHOLE = 1000


def _memory_of(graph: ClientGraph) -> Memory:
    """The distances of a graph; its similarities and edges too, which only reports use."""
    if len(graph) > _KEEP_WHOLE:
        return {"distance": graph.distance}
    return {
        "distance": graph.distance,
        "similarity": graph.similarity,
        "adjacency": graph.adjacency,
    }


def _check_vectors(graph: Graph, clients: Clients) -> None:
    """Refuse clients without usable vectors, and settings that private products do not allow."""
    client_features(clients)
    if graph.similarity != "private":
        return
    for key, refused in (
        ("normalize_by_norm", graph.normalize_by_norm),
        ("construction", graph.construction != "threshold"),
        ("normalize_over", graph.normalize_over == "all"),
    ):
        if refused:
            raise ConfigError(
                f"method.graph.{key} = {getattr(graph, key)!r} needs every client's own product, "
                "which similarity 'private' does not give"
            )
    if graph.protocol == "ring" and importlib.util.find_spec("cryptography") is None:
        raise require_extra("cryptography", "secure")
    if graph.protocol == "ring" and len(clients) == 2 and graph.dealer is None:
        raise ConfigError(
            "method.graph.dealer must name a dealer where there are only two clients, got none"
        )
