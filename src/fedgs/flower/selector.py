"""The server's side of selection, without Flower: who is known, who is selected, what the weights are, how the graph grows."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from fedgs import rng
from fedgs.arrays import AnyArray, FloatArray, IntArray
from fedgs.clients import (
    Clients,
    Memory,
    Outcome,
    Selection,
    View,
    checked_candidates,
    checked_selection,
    kept_memory,
)
from fedgs.errors import SelectionError
from fedgs.flower.features import (
    Parameters,
    Responses,
    checked_parameters,
    distances,
    graph_of,
    parameter_names,
    reply_feature,
)
from fedgs.flower.roster import Newcomer, Roster
from fedgs.flower.state import DeploymentState
from fedgs.sampling.base import AsksLosses, Remembers, Sampler
from fedgs.weights import aggregation_weights

__all__ = ["Selector"]

_logger = logging.getLogger(__name__)


class Selector:
    """A sampler at work on clients that come and go.

    Args:
        sampler: who is selected.
        seed: of the selection.
        newcomer: the count a newcomer starts with.
        clients: a federation that is known beforehand, in the order of its rows; None: rows in the
            order of appearance.
        responses: a model's mean response, for functional similarities.
        parameters: which arrays of the model a graph of model updates looks at, see
            `features.parameter_names`.
    """

    def __init__(
        self,
        sampler: Sampler,
        *,
        seed: int = 0,
        newcomer: Newcomer = "mean",
        clients: Clients | None = None,
        responses: Responses | None = None,
        parameters: Parameters | None = None,
    ) -> None:
        self.sampler = sampler
        self.state = DeploymentState(
            seed, roster=Roster() if clients is None else Roster.of_clients(clients)
        )
        self._newcomer: Newcomer = newcomer
        self._responses = responses
        self._parameters = checked_parameters(parameters)
        self._graph = graph_of(sampler, responses)
        self._clients: tuple[tuple[int, bytes], Clients] | None = None
        self._drawn_up: tuple[int, int] | None = (
            None  # (clients, revision) that the memory was made for
        )

    @property
    def roster(self) -> Roster:
        """Everybody met so far."""
        return self.state.roster

    def clients(self) -> Clients:
        """What the sampler sees of all clients met so far; computed again only when something has changed."""
        version = (self.roster.revision, self.roster.sizes.tobytes())
        if self._clients is None or self._clients[0] != version:
            self._clients = (version, self.roster.clients())
        return self._clients[1]

    def meet(
        self, key: str | int, *, size: float | None = None, feature: Iterable[float] | None = None
    ) -> str | None:
        """A client has said who it is; returns why its feature was refused, if it was."""
        row = self.roster.admit(key, self._newcomer)
        if size is not None and np.isfinite(size) and size > 0:
            self.roster.sizes[row] = size
        if feature is None or self._graph is None or self._graph.similarity != "oracle":
            return None
        return self.roster.learn_feature(row, np.asarray(list(feature), dtype=np.float64))

    def check_model(self, model: Mapping[str, AnyArray]) -> None:
        """Refuse a model that the client graph cannot be made from (`ConfigError`)."""
        if self._parameters is not None or (
            self._graph is not None and self._graph.similarity == "update"
        ):
            parameter_names(model, self._parameters)

    def view(self, available: IntArray, cohort_limit: int) -> View:
        """What the sampler sees in this round, losses aside."""
        clients = self.clients()
        if self._graph is None:  # a graph that grows here asks nothing of the clients beforehand
            self.sampler.check(clients, cohort_limit)
        self._refresh_memory(clients)
        self.state.memory = kept_memory(
            self.state.memory
        )  # the same arrays in every round, since samplers recognise them
        return View(
            self.state.round,
            clients,
            available,
            self.roster.counts.copy(),
            cohort_limit,
            None,
            self.state.memory,
        )

    def loss_candidates(self, view: View) -> IntArray | None:
        """Whose losses the sampler wants, or None if it wants none."""
        if not isinstance(self.sampler, AsksLosses):
            return None
        return checked_candidates(
            self.sampler.loss_candidates(
                view, rng.stream(self.state.seed, "candidates", view.round)
            ),
            view,
        )

    def select(self, view: View) -> Selection:
        """The cohort; its counts rise now, so that a client that never answers is not selected in every round."""
        selection = checked_selection(
            self.sampler.select(view, rng.stream(self.state.seed, "select", view.round)), view
        )
        self.roster.counts[selection.clients] += 1
        return selection

    def weights(self, view: View, selection: Selection, sizes: Mapping[int, float]) -> FloatArray:
        """(m,) weights of the cohort, 0 for who did not answer; `sizes` are the n_k of those who did."""
        weights = np.zeros(len(selection.clients))
        at = np.array(
            [position for position, row in enumerate(selection.clients.tolist()) if row in sizes],
            dtype=np.int64,
        )
        if len(at):
            rows = selection.clients[at]
            weights[at] = aggregation_weights(
                selection.weighting or self.sampler.weighting,
                data_sizes=np.array([sizes[row] for row in rows.tolist()], dtype=np.float64),
                draws=None if selection.draws is None else selection.draws[at],
                counts=view.counts[rows],
            )
        return weights

    def learn(
        self,
        row: int,
        *,
        size: float,
        sent: Mapping[str, AnyArray],
        local: Callable[[], Mapping[str, AnyArray]],
    ) -> str | None:
        """A good reply came: its data size, and its feature where the graph grows with the replies (the first one counts)."""
        self.roster.answers[row] += 1
        self.roster.sizes[row] = size
        if self._graph is None or self._graph.similarity == "oracle" or row in self.roster.features:
            return None
        feature = reply_feature(
            self._graph,
            sent=sent,
            local=local(),
            responses=self._responses,
            parameters=self._parameters,
        )
        return self.roster.learn_feature(row, feature)

    def observe(self, view: View, rows: IntArray, weights: FloatArray) -> None:
        """The round is over: the sampler's memory, where it keeps one of its own."""
        if self._graph is None and isinstance(self.sampler, Remembers) and len(rows):
            self.state.memory = self.sampler.observe(
                self.state.memory, view, Outcome(rows, weights)
            )

    def saved_memory(self) -> Memory:
        """The memory that cannot be computed from keys and features."""
        return {} if self._graph is not None else self.state.memory

    def resume(self, state: DeploymentState) -> None:
        """Continue from a saved state."""
        self.state = state
        self._drawn_up = (len(state.roster), state.roster.revision) if state.memory else None
        self._clients = None

    def _refresh_memory(self, clients: Clients) -> None:
        version = (len(self.roster), self.roster.revision)
        if version == self._drawn_up:
            return
        if self._graph is not None:
            if (
                not self.roster.features
                and self._graph.similarity == "oracle"
                and self._drawn_up is None
            ):
                _logger.warning(
                    "no client has told its label proportions, so the cohorts are balanced but not diverse; use "
                    "describe(app, label_counts=...) in the ClientApp, or graph.similarity = 'update'"
                )
            self.state.memory = {
                "distance": distances(self._graph, self.roster.features, len(self.roster))
            }
        elif isinstance(self.sampler, Remembers) and (
            self._drawn_up is None or self._drawn_up[0] != len(self.roster)
        ):
            self.state.memory = _grown(self.state.memory, self.sampler.start(clients))
        self._drawn_up = version


def _grown(kept: Memory, fresh: Memory) -> dict[str, Any]:
    """A memory for more clients: what a fresh start gives, with the kept entries of the clients that were there before.

    >>> _grown({"seen": np.array([1, 2])}, {"seen": np.zeros(3)})["seen"]
    array([1., 2., 0.])
    """
    memory: dict[str, Any] = {}
    for name, array in fresh.items():
        memory[name] = grown = np.array(array)
        old = kept.get(name)
        if old is not None:
            if old.ndim != grown.ndim or any(
                a > b for a, b in zip(old.shape, grown.shape, strict=True)
            ):
                raise SelectionError(
                    f"the sampler's memory {name!r} of shape {old.shape} does not fit in {grown.shape}"
                )
            grown[tuple(slice(0, length) for length in old.shape)] = old
    return memory
