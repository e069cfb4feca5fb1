"""Clustered sampling: one client from each of M distributions, by sizes or by similarity."""

from typing import Literal

import numpy as np
from pydantic import Field

from fedgs.arrays import FloatArray, FloatMatrix, IntArray
from fedgs.clients import Clients, Memory, Outcome, Selection, View
from fedgs.errors import ConfigError
from fedgs.registry import register
from fedgs.sampling.base import Sampler, Wish
from fedgs.sampling.clustered_units import Distributions, by_clusters, by_sizes
from fedgs.sampling.last_updates import (
    check_fits,
    grown,
    needed_distances,
    needed_updates,
    no_updates,
    with_updates,
)
from fedgs.weighting import WeightingSetting

__all__ = ["Clustered", "ClusteredSizes"]


@register("method", "clustered_sizes")
class ClusteredSizes(Sampler):
    """One client from each of m distributions that are made of the data sizes (Algorithm 1).

    The available clients, in descending n_k with ties at random, pour m·n_k units each into m
    distributions of n units, one after another; n is the sum of n_k over A_t, m = min(M, |A_t|).
    Distribution l draws client k with probability r_lk = units / n, so that

        sum_k r_lk = 1,    sum_l r_lk = m·n_k/n

    hold exactly, in integers. With `weighting = "draws"` the average is unbiased over A_t, as for
    `md`; the number of draws of each client varies no more than there, and each client is in the
    cohort with at least the same probability. A client that is drawn twice trains once.

    References:
        Y. Fraboni, R. Vidal, L. Kameni, M. Lorenzi (2021): Clustered Sampling: Low-Variance and
        Improved Representativity for Clients Selection in Federated Learning. ICML.

    >>> clients, counts = Clients(("a", "b", "c"), np.array([5, 5, 5])), np.zeros(3, dtype=np.int64)
    >>> view = View(0, clients, np.arange(3), counts, cohort_limit=3)
    >>> selection = ClusteredSizes().select(view, np.random.default_rng(0))
    >>> selection.clients, selection.draws  # equal sizes and M = N
    (array([0, 1, 2]), array([1, 1, 1]))
    """

    weighting: WeightingSetting = "draws"

    def distributions(self, view: View, rng: np.random.Generator) -> Distributions:
        """The m distributions of a round; the generator orders clients of equal sizes."""
        order = rng.permutation(view.available)
        sizes = view.clients.data_sizes[order]
        descending = np.argsort(-sizes, kind="stable")
        return by_sizes(order[descending], sizes[descending], view.cohort_size)

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        """The clients that are drawn at least once, with the number of their draws."""
        return _drawn(self.distributions(view, rng), rng)


@register("method", "clustered")
class Clustered(Sampler):
    """One client from each of m distributions that are made of similar clients (Algorithm 2).

    Ward's tree over the last updates of the available clients is cut at the coarsest level with at
    least m clusters, m = min(M, |A_t|), and none with sum of m·n_k above n, the sum of n_k over
    A_t. Each of the m heaviest clusters becomes a distribution of n units; the clients of the other
    clusters fill them up. A client with m·n_k >= n first has floor(m·n_k/n) distributions of its
    own, and its other units are clustered. The sums of `ClusteredSizes` hold as exactly, and so do
    its properties.

    Clients that never took part have an update of zeros: distance 0 from each other, and an angle
    of pi/2 to all others. The memory holds the updates, (N, d), and their distances, (N, N). Ties
    are broken by the round's generator.

    Attributes:
        measure: the distance of two updates: "angle" (arccos of their cosine), "l1" or "l2" (norm
            of their difference).
        sketch: longer updates are projected to this many numbers, see `fedgs.sampling.Wish`; 0:
            never; None: 4096, and never for "l1", which projections do not keep.

    References:
        Y. Fraboni, R. Vidal, L. Kameni, M. Lorenzi (2021): Clustered Sampling: Low-Variance and
        Improved Representativity for Clients Selection in Federated Learning. ICML.

    >>> clients, counts = Clients(tuple("abcd"), np.full(4, 6)), np.zeros(4, dtype=np.int64)
    >>> sampler, directions = Clustered(), np.array([[1, 0], [0, 1], [1, 0.1], [0.1, 1]])
    >>> memory = sampler.start_from(clients, directions)
    >>> view = View(5, clients, np.arange(4), counts, cohort_limit=2, memory=memory)
    >>> rows = sampler.distributions(view, np.random.default_rng(0)).rows
    >>> sorted(sorted(k for k, _ in row) for row in rows)
    [[0, 2], [1, 3]]
    """

    weighting: WeightingSetting = "draws"
    measure: Literal["angle", "l1", "l2"] = "angle"
    sketch: int | None = Field(default=None, ge=0)

    def check(self, clients: Clients, cohort_limit: int) -> None:
        """Refuse projected updates for "l1", and more clients than fit into memory."""
        if self.measure == "l1" and self.sketch:
            raise ConfigError(
                "method.sketch must be 0 for measure 'l1', since a projection does not keep its "
                f"distances, got {self.sketch}; 'angle' and 'l2' work with it"
            )
        check_fits(self.name, len(clients))

    def wish(self, when: Literal["start", "round"]) -> Wish | None:
        """The updates of each cohort."""
        if when == "start":
            return None
        default = 0 if self.measure == "l1" else 4096
        return Wish("update", sketch=default if self.sketch is None else self.sketch)

    def start(self, clients: Clients) -> Memory:
        """Updates of zeros."""
        return no_updates(len(clients))

    def start_from(self, clients: Clients, features: FloatMatrix) -> Memory:
        """The memory with these updates of all clients."""
        everyone = np.arange(len(clients))
        return with_updates(no_updates(len(clients)), features, everyone, self.measure)

    def observe(self, memory: Memory, view: View, outcome: Outcome) -> Memory:
        """The memory with the cohort's updates.

        Raises:
            SelectionError: the outcome has no features.
        """
        features = needed_updates(self.name, outcome)
        return with_updates(memory, features, outcome.clients, self.measure)

    def grow(self, memory: Memory, clients: Clients) -> Memory:
        """The memory with updates of zeros of the clients that have joined."""
        return grown(memory, len(clients), self.measure)

    def distributions(self, view: View, rng: np.random.Generator) -> Distributions:
        """The m distributions of a round; the generator breaks ties.

        Raises:
            SelectionError: the view has no memory.
        """
        order, distance = rng.permutation(view.available), needed_distances(self.name, view)

        def tree_of(clients: IntArray) -> FloatArray:
            return _ward(distance[np.ix_(clients, clients)])

        return by_clusters(order, view.clients.data_sizes[order], view.cohort_size, tree_of)

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        """The clients that are drawn at least once, with the number of their draws."""
        return _drawn(self.distributions(view, rng), rng)


def _ward(distance: FloatMatrix) -> FloatArray:
    """(a - 1, 4) Ward's tree of (a, a) distances, taken as distances and not as observations."""
    # Imported here, since the import takes long and other samplers do without.
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    return np.asarray(linkage(squareform(distance, checks=False), method="ward"))


def _drawn(distributions: Distributions, rng: np.random.Generator) -> Selection:
    clients, draws = np.unique(distributions.draw(rng), return_counts=True)
    return Selection(clients, draws.astype(np.int64))
