"""The server's side of selection, without Flower: known clients, cohorts, weights and the graph."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from fedgs import rng
from fedgs.arrays import AnyArray, FloatArray, IntArray
from fedgs.clients import Clients, Memory, Objective, Outcome, Selection, View
from fedgs.errors import ConfigError
from fedgs.flower.features import (
    Parameters,
    Responses,
    checked_parameters,
    feature_wish,
    graph_memory,
    graph_of,
    parameter_names,
    reply_feature,
    update_length,
)
from fedgs.flower.memories import (
    check_requests,
    observed,
    refuse_durations,
    refuse_rates,
    sampler_memory,
    seen_by_sampler,
    weighting_memory,
)
from fedgs.flower.private.products import Products
from fedgs.flower.roster import Newcomer, Roster, feature_problem
from fedgs.flower.state import DeploymentState
from fedgs.graph import Graph
from fedgs.sampler_answers import (
    checked_candidates,
    checked_memory,
    checked_selection,
    kept_memory,
)
from fedgs.sampling.base import AsksLosses, AsksReports, Remembers, Sampler
from fedgs.weighting import as_weighting, checked_weights, weighting_of_selection

__all__ = ["Selector"]

_logger = logging.getLogger(__name__)


class Selector:
    """A sampler for clients that join and leave.

    Args:
        sampler: selects the cohorts.
        seed: of the selection.
        newcomer: the count that a newcomer starts with.
        objective: the weights p_k of the clients in the objective.
        clients: a federation that is known in advance, in the order of its rows. None: rows in the
            order of appearance.
        responses: a model's mean response, for functional similarities.
        parameters: which arrays of the model an update consists of, see
            `features.parameter_names`.
        durations: whether the sampler sees how long replies took.
    """

    def __init__(
        self,
        sampler: Sampler,
        *,
        seed: int = 0,
        newcomer: Newcomer = "mean",
        objective: Objective = "data_size",
        clients: Clients | None = None,
        responses: Responses | None = None,
        parameters: Parameters | None = None,
        durations: bool = True,
    ) -> None:
        self.sampler = sampler
        self.objective: Objective = objective
        self.weighting = as_weighting(sampler.weighting, setting="method.weighting")
        refuse_rates(self.weighting)
        check_requests(sampler)
        if not durations:
            refuse_durations(sampler)
        self._durations = durations
        self.state = DeploymentState(
            seed, roster=Roster() if clients is None else Roster.of_clients(clients)
        )
        self._newcomer: Newcomer = newcomer
        self._responses = responses
        self._parameters = checked_parameters(parameters)
        self._graph = graph_of(sampler)
        self._wish = feature_wish(sampler, self._graph, responses)
        if self._graph is not None and self._wish is not None:
            self.roster.features.clear()  # those of the replies count, not what clients tell
        # row -> feature, of the replies of this round, where the sampler makes its own memory.
        self._features: dict[int, FloatArray] = {}
        # Of a private graph, else None.
        self.products = None if not self._has_products else Products()
        self._clients: tuple[tuple[int, bytes], Clients] | None = None
        # See `_version`, of a graph's memory.
        self._graph_version: tuple[int, int, int] | None = None

    @property
    def _has_products(self) -> bool:
        return self._graph is not None and self._graph.similarity == "private"

    @property
    def roster(self) -> Roster:
        """All clients met so far."""
        return self.state.roster

    @property
    def sampler_name(self) -> str:
        """What messages call the sampler."""
        return self.sampler.name or type(self.sampler).__name__

    @property
    def reads_training(self) -> bool:
        """Whether the sampler reads what the training of each cohort gives."""
        reports = isinstance(self.sampler, AsksReports) and bool(self.sampler.wanted_reports)
        return reports or (self._wish is not None and self._graph is None)

    def clients(self) -> Clients:
        """All clients met so far, as the sampler sees them; rebuilt only after a change."""
        version = (self.roster.revision, self.roster.sizes.tobytes())
        if self._clients is None or self._clients[0] != version:
            self._clients = (version, self.roster.clients())
        return self._clients[1]

    def meet(
        self, key: str | int, *, size: float | None = None, feature: Iterable[float] | None = None
    ) -> str | None:
        """Admit a client that reported its key; returns why its feature was refused, or None."""
        row = self.roster.admit(key, self._newcomer)
        if size is not None and np.isfinite(size) and size > 0:
            self.roster.sizes[row] = size
        if feature is None or self._graph is None or self._graph.similarity != "oracle":
            return None
        return self.roster.learn_feature(row, np.asarray(list(feature), dtype=np.float64))

    def check_model(self, model: Mapping[str, AnyArray]) -> None:
        """Refuse a model whose updates cannot be compared with one another.

        Raises:
            ConfigError: no array that an update consists of, or updates of another length than
                those of earlier rounds.
        """
        if self._wish is None or self._wish.kind != "update":
            if self._parameters is not None:
                parameter_names(model, self._parameters)
            return
        length, known = update_length(self._wish, model, self._parameters), self._known_length
        if known not in (0, length):
            raise ConfigError(
                "SampledStrategy(parameters=...) and the model must be those of the earlier "
                f"rounds, whose updates have {known} numbers, got updates of {length}"
            )

    def view(self, available: IntArray, cohort_limit: int) -> View:
        """The sampler's view of this round, without losses."""
        clients = self.clients()
        if self._graph is None:  # a graph that grows here needs nothing of the clients in advance
            self.sampler.check(clients, cohort_limit)
        self.weighting.check(clients, cohort_limit, self.sampler)
        self._refresh_memory(clients)
        self._refresh_weighting(clients, cohort_limit)
        # The same arrays in every round, since samplers recognise them.
        self.state.memory = kept_memory(self.state.memory)
        return View(
            round=self.state.round,
            clients=clients,
            available=available,
            counts=self.roster.counts.copy(),
            cohort_limit=cohort_limit,
            losses=None,
            memory=self.state.memory,
            objective=self.objective,
            weighting_memory=self.state.weighting,
            answers=self.roster.credited_answers,
            failures=self.roster.failures.copy(),
            seconds=self.roster.seconds.copy() if self._durations else None,
            clock=self.state.clock.read() if self._durations else None,
        )

    def loss_candidates(self, view: View) -> IntArray | None:
        """The clients whose losses the sampler asks for, or None if it asks for none."""
        if not isinstance(self.sampler, AsksLosses):
            return None
        generator = rng.stream(self.state.seed, "candidates", view.round)
        return checked_candidates(self.sampler.loss_candidates(view, generator), view)

    def select(self, view: View) -> Selection:
        """The cohort.

        Its counts rise now, so that a client that never answers is not selected in every round.
        """
        self._features = {}
        generator = rng.stream(self.state.seed, "select", view.round)
        selection = checked_selection(self.sampler.select(view, generator), view)
        self.roster.counts[selection.clients] += 1
        return selection

    def weights(self, view: View, selection: Selection, sizes: Mapping[int, float]) -> FloatArray:
        """(m,) weights of the cohort as applied, 0 for clients that did not answer.

        Args:
            view: of the round.
            selection: the cohort.
            sizes: row -> n_k of the clients that answered.
        """
        weights = np.zeros(len(selection.clients))
        answered = np.array([row in sizes for row in selection.clients.tolist()], dtype=bool)
        if answered.any():
            rows = selection.clients[answered]
            answering = Selection(
                rows, draws=None if selection.draws is None else selection.draws[answered]
            )
            weighting, memory = self.weighting, self.state.weighting
            if selection.weighting is not None:
                weighting, memory = weighting_of_selection(selection.weighting), {}
            weights[answered] = checked_weights(weighting, _sized(view, sizes), answering, memory)
        return weights

    def sums_to_one(self, selection: Selection) -> bool:
        """Whether the weights of this round are divided by their sum."""
        if selection.weighting is None:
            return self.weighting.is_normalised
        return weighting_of_selection(selection.weighting).is_normalised

    def wants_feature(self, row: int) -> bool:
        """Whether the next reply of a client is to give a feature.

        Graphs take the first one of each client; a sampler with a memory of its own takes all.
        """
        return self._wish is not None and (self._graph is None or row not in self.roster.features)

    def learn(
        self,
        row: int,
        *,
        size: float,
        models: Callable[[], tuple[Mapping[str, AnyArray], Mapping[str, AnyArray]] | None],
    ) -> str | None:
        """Learn from a valid reply: the data size, and the feature if one is wanted.

        Args:
            row: of the client.
            size: its n_k.
            models: gives the model that it started from and the one after training, by name; None:
                the reply does not tell them.

        Returns:
            Why the feature was refused, or None.
        """
        self.roster.sizes[row] = size
        if self._wish is None or not self.wants_feature(row):
            return None
        with np.errstate(over="ignore", invalid="ignore"):  # the feature is checked afterwards
            pair = models()
            if pair is None:
                return "its reply does not hold the model that it started from"
            feature = reply_feature(
                self._wish,
                sent=pair[0],
                local=pair[1],
                responses=self._responses,
                parameters=self._parameters,
            )
        if self._graph is not None:
            return self.roster.learn_feature(row, feature)
        why = feature_problem(feature, self._known_length or len(feature))
        if why is None:
            self._features[row], self.state.feature_length = feature, len(feature)
        return why

    def count_answers(self, cohort: IntArray, good: IntArray, *, averaged: bool) -> None:
        """Count answers and failures at the end of a round.

        Args:
            cohort: (m,) rows that were selected.
            good: rows of the clients with a valid reply.
            averaged: whether these replies entered the model.
        """
        self.roster.failures[cohort] += 1
        self.roster.failures[good] = 0
        if averaged:
            self.roster.answers[good] += 1

    def observe(self, view: View, outcome: Outcome) -> None:
        """Update the memory of a sampler that keeps one, at the end of a round with an average.

        A sampler that reads features sees only the clients whose feature is valid.
        """
        if self._graph is not None or not isinstance(self.sampler, Remembers):
            return
        if self._wish is not None:
            if not self._features:
                return
            outcome = seen_by_sampler(outcome, self._features)
        memory = self.sampler.observe(self.state.memory, view, outcome)
        self.state.memory = checked_memory(memory, "observe")

    def observe_weights(
        self, view: View | None, outcome: Outcome | None, *, available: IntArray, cohort_limit: int
    ) -> None:
        """Update the weighting's memory, at the end of every round.

        Args:
            view: what the sampler saw; None: it was not asked.
            outcome: the clients whose updates entered the average; None: none did.
            available: rows of the available clients.
            cohort_limit: M.
        """
        if not len(self.roster):
            return  # no client has been met, so there is nothing to remember
        clients, state = self.clients(), self.state
        if view is None:
            counts = self.roster.counts.copy()
            view = View(
                state.round,
                clients,
                available,
                counts,
                cohort_limit,
                memory=state.memory,
                objective=self.objective,
            )
        self._refresh_weighting(clients, cohort_limit)
        state.weighting = observed(self.weighting, state.weighting, view, outcome)

    def saved_memory(self) -> Memory:
        """The memory that cannot be computed from keys and features."""
        if self.products is not None:
            return {"products": self.products.matrix(len(self.roster))}
        return {} if self._graph is not None else self.state.memory

    def resume(self, state: DeploymentState) -> None:
        """Continue from a saved state."""
        self.state = state
        if self.products is not None:
            self.products = Products(state.memory.get("products"))
            state.memory = {}
        self._clients = self._graph_version = None

    @property
    def _known_length(self) -> int:
        """Of the features in earlier replies; 0: there is none."""
        if self._graph is None:
            return self.state.feature_length
        return next((len(feature) for feature in self.roster.features.values()), 0)

    def _version(self) -> tuple[int, int, int]:
        """Clients, revision, and the clients that have entered the graph."""
        entered = len(self._known_features()) if self._has_entries else 0
        return len(self.roster), self.roster.revision, entered

    @property
    def _has_entries(self) -> bool:
        """Whether clients enter the graph with their first update."""
        return self._graph is not None and self._graph.start == "seen"

    def _known_features(self) -> dict[int, FloatArray]:
        """Row -> feature, of the clients in the graph."""
        features, answers = self.roster.features, self.roster.answers
        if not self._has_entries:
            return features
        return {row: feature for row, feature in features.items() if answers[row] > 0}

    def _refresh_memory(self, clients: Clients) -> None:
        if self._graph is not None:
            self._refresh_graph(self._graph)
        elif isinstance(self.sampler, Remembers) and self.state.remembered != len(clients):
            self.state.memory = sampler_memory(self.sampler, self.state.memory, clients)
            self.state.remembered = len(clients)

    def _refresh_graph(self, graph: Graph) -> None:
        version, before = self._version(), self._graph_version
        if version == before:
            return
        if before is None and graph.similarity == "oracle" and not self.roster.features:
            _logger.warning(
                "no client has told its label proportions, so the cohorts are balanced but not "
                "diverse; use describe(app, label_counts=...) in the ClientApp, or "
                "graph.similarity = 'update'"
            )
        if self.products is not None:
            distance = self.products.distances(graph, len(self.roster))
            self.state.memory = {"distance": distance}
        else:
            features, count = self._known_features(), len(self.roster)
            self.state.memory = graph_memory(graph, features, count, self.state.memory)
        self._graph_version = version

    def _refresh_weighting(self, clients: Clients, cohort_limit: int) -> None:
        if self.state.weighted != len(clients):
            earlier = self.state.weighting
            self.state.weighting = weighting_memory(self.weighting, earlier, clients, cohort_limit)
            self.state.weighted = len(clients)


def _sized(view: View, sizes: Mapping[int, float]) -> View:
    """The view with the data sizes n_k that came with the replies, by row."""
    data_sizes = view.data_sizes.astype(np.float64)
    data_sizes[list(sizes)] = list(sizes.values())
    return replace(view, reported_sizes=data_sizes)
