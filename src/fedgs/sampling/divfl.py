"""DivFL: a cohort whose updates stand for those of all clients."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from fedgs.arrays import FloatMatrix
from fedgs.clients import Clients, Memory, Outcome, Selection, View
from fedgs.errors import ConfigError
from fedgs.registry import register
from fedgs.sampling.base import Sampler, Wish
from fedgs.sampling.divfl_greedy import lazy_greedy
from fedgs.sampling.last_updates import (
    check_fits,
    grown,
    needed_distances,
    needed_updates,
    no_updates,
    with_updates,
)

__all__ = ["DivFL"]


@register("method", "divfl")
class DivFL(Sampler):
    """The m available clients whose updates approximate those of all clients best, by greedy.

    Minimises over the subsets S of A_t with |S| = m

        G(S) = sum_i min_{k in S} ‖g_i - g_k‖

    greedily: each step adds the client that lowers G the most, see
    `fedgs.sampling.divfl_greedy.plain_greedy`. g_k is the update with which client k last took part
    in a round; only those of the cohort are refreshed. Ties are broken by the round's generator. If
    at most M clients are available, all of them are selected. The memory holds the updates, (N, d),
    and their distances, (N, N).

    Attributes:
        weighting: "data_size" as in the authors' code, or "coverage", as in the paper: by how many
            clients each one is the nearest of.
        cover: the clients i of the sum: "all" (the paper's), or the "available" ones.
        first_updates: the g_k of clients that have not taken part. "zeros". "everyone": all clients
            train once before round 0, as published; under intermittent availability no server can
            have that. "first_contact": none; available clients without one are selected first, at
            random, and the sum leaves them out. A client that did not answer then is a candidate
            with an update of zeros until it answers.
        distance: "l2", its square "squared", or "cosine", 1 minus the cosine (an update of zeros
            has distance 1 from others).
        sketch: longer updates are projected to this many numbers, see `fedgs.sampling.Wish`; 0:
            never.

    References:
        R. Balakrishnan, T. Li, T. Zhou, N. Himayat, V. Smith, J. Bilmes (2022): Diverse Client
        Selection for Federated Learning via Submodular Maximization. ICLR.

    >>> clients, counts = Clients(tuple("abcd"), np.full(4, 6)), np.zeros(4, dtype=np.int64)
    >>> sampler = DivFL(first_updates="everyone")
    >>> memory = sampler.start_from(clients, np.array([[0.0], [1.0], [9.0], [3.0]]))
    >>> view = View(0, clients, np.arange(4), counts, cohort_limit=2, memory=memory)
    >>> sampler.select(view, np.random.default_rng(0)).clients
    array([1, 2])
    """

    cover: Literal["all", "available"] = "all"
    first_updates: Literal["zeros", "everyone", "first_contact"] = "zeros"
    distance: Literal["l2", "squared", "cosine"] = "l2"
    sketch: int = Field(default=4096, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _share_cover(cls, settings: object) -> object:
        """Give `cover` to the weighting `coverage` where it is named without settings."""
        if not isinstance(settings, Mapping) or settings.get("cover") != "available":
            return settings
        if settings.get("weighting") not in ("coverage", {"name": "coverage"}):
            return settings
        return {**settings, "weighting": {"name": "coverage", "cover": "available"}}

    def check(self, clients: Clients, cohort_limit: int) -> None:
        """Refuse more clients than fit into memory."""
        check_fits(self.name, len(clients))

    def wish(self, when: Literal["start", "round"]) -> Wish | None:
        """The updates of each cohort, and of all clients before round 0 for "everyone"."""
        if when == "start" and self.first_updates != "everyone":
            return None
        return Wish("update", sketch=self.sketch)

    def start(self, clients: Clients) -> Memory:
        """The memory before any update.

        Raises:
            ConfigError: everyone's update is needed, see `start_from`.
        """
        if self.first_updates == "everyone":
            raise ConfigError(
                "method.first_updates = 'everyone' needs an update of every client: the memory "
                "comes from start_from(features)"
            )
        return no_updates(len(clients), known=self.first_updates == "zeros")

    def start_from(self, clients: Clients, features: FloatMatrix) -> Memory:
        """The memory with these updates of all clients."""
        everyone = np.arange(len(clients))
        return with_updates(no_updates(len(clients)), features, everyone, self.distance)

    def observe(self, memory: Memory, view: View, outcome: Outcome) -> Memory:
        """The memory with the cohort's updates.

        Raises:
            SelectionError: the outcome has no features.
        """
        features = needed_updates(self.name, outcome)
        return with_updates(memory, features, outcome.clients, self.distance)

    def grow(self, memory: Memory, clients: Clients) -> Memory:
        """The memory with the clients that have joined, as before their first update."""
        known = self.first_updates == "zeros"
        return grown(memory, len(clients), self.distance, known=known)

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        """The clients without an update, then those that greedy selection takes.

        Raises:
            SelectionError: the view has no memory.
        """
        distance = needed_distances(self.name, view)
        order, known = rng.permutation(view.available), view.memory["known"]
        # A client that never answers must not be selected first in every round.
        tried = known if view.failures is None else known | (view.failures > 0)
        first = order[~tried[order]][: view.cohort_size]
        candidates = order[tried[order]]
        covered = np.arange(len(known)) if self.cover == "all" else view.available
        covered = covered[known[covered]]
        places = min(view.cohort_size - len(first), len(candidates))
        rows = lazy_greedy(distance[np.ix_(candidates, covered)], places)
        return Selection(np.sort(np.concatenate([first, candidates[rows]])))
