"""The partitions of NIID-Bench that are redrawn until every client has enough examples.

Q. Li, Y. Diao, Q. Chen, B. He (2022): Federated Learning on Non-IID Data Silos: An Experimental
Study. ICDE.
"""

from collections.abc import Callable, Mapping

import numpy as np
from pydantic import Field

from fedgs.arrays import AnyArray, FloatArray, IntArray
from fedgs.data.dirichlet import draw_proportions
from fedgs.data.partition import NO_COLUMNS, Assignment, Partition
from fedgs.errors import DataError
from fedgs.registry import register

__all__ = ["DirichletCapped", "QuantitySkew"]


@register("partition", "dirichlet_capped")
class DirichletCapped(Partition):
    """Every class is shared out over clients by a Dirichlet distribution, up to a cap of sizes.

    Class after class, q_c ~ Dirichlet(concentration, ..., concentration) over clients; a client
    that holds n/N examples or more from earlier classes gets none, and q_c is rescaled over the
    others. The draw is repeated until every client has `minimum` examples. This is the label skew
    "#Dir" of NIID-Bench, which FedNova, MOON and others use. O(max_draws · (n + N·C)).

    Attributes:
        concentration: of each client, > 0.
        minimum: examples every client has at least.
        max_draws: draws after which an error reports the smallest client, >= 1.

    References:
        Li, Diao, Chen, He (2022): Federated Learning on Non-IID Data Silos. ICDE, section IV-A.

    >>> labels = np.arange(2000) % 10
    >>> assignment = DirichletCapped().assign(labels, 10, np.random.default_rng(0))
    >>> bool(np.diff(assignment.offsets).min() >= 10)
    True
    """

    concentration: float = Field(default=0.5, gt=0, allow_inf_nan=False)
    minimum: int = Field(default=10, ge=0)
    max_draws: int = Field(default=1000, ge=1)

    def assign(
        self,
        labels: IntArray,
        clients: int,
        rng: np.random.Generator,
        *,
        columns: Mapping[str, AnyArray] = NO_COLUMNS,
    ) -> Assignment:
        """See `Partition.assign`; a `minimum` that no draw reaches is an error."""
        classes = np.unique(labels)
        owners, draws = _drawn_until(
            lambda: self._owners(labels, classes, clients, rng),
            clients=clients,
            count=len(labels),
            minimum=self.minimum,
            max_draws=self.max_draws,
        )
        facts = {
            "concentration": {
                "over": "clients, for each class, up to n/N examples",
                "of_each_client": self.concentration,
                "total": self.concentration * clients,
                "implied_over_classes": self.concentration * len(classes),
            },
            "draws": draws,
        }
        return Assignment.from_owners(owners, clients, facts=facts)

    def _owners(
        self, labels: IntArray, classes: IntArray, clients: int, rng: np.random.Generator
    ) -> IntArray:
        owners = np.empty(len(labels), dtype=np.int64)
        sizes = np.zeros(clients, dtype=np.int64)
        for label in classes:
            examples = rng.permutation(np.flatnonzero(labels == label))
            shares = draw_proportions(np.full(clients, self.concentration), rng)
            shares = np.where(sizes * clients < len(labels), shares, 0.0)
            if shares.sum() == 0:  # the whole class was drawn for clients at the cap
                shares = (sizes * clients < len(labels)).astype(np.float64)
            takers = _takers(shares / shares.sum(), len(examples))
            owners[examples] = takers
            sizes += np.bincount(takers, minlength=clients)
        return owners


@register("partition", "quantity_skew")
class QuantitySkew(Partition):
    """Clients have sizes from a Dirichlet distribution and labels like all data.

    q ~ Dirichlet(concentration, ..., concentration) over clients, and client k gets a random share
    q_k of all examples. The draw is repeated until every client has `minimum` examples. This is the
    quantity skew of NIID-Bench. O(n + max_draws · N).

    Attributes:
        concentration: of each client, > 0. Small values give sizes that differ much.
        minimum: examples every client has at least.
        max_draws: draws after which an error reports the smallest client, >= 1.

    References:
        Li, Diao, Chen, He (2022): Federated Learning on Non-IID Data Silos. ICDE, section IV-C.

    >>> labels = np.zeros(1000, dtype=np.int64)
    >>> assignment = QuantitySkew(concentration=2.0).assign(labels, 5, np.random.default_rng(0))
    >>> len(set(np.diff(assignment.offsets).tolist()))
    5
    """

    reads_labels = False
    concentration: float = Field(default=0.5, gt=0, allow_inf_nan=False)
    minimum: int = Field(default=10, ge=0)
    max_draws: int = Field(default=1000, ge=1)

    def assign(
        self,
        labels: IntArray,
        clients: int,
        rng: np.random.Generator,
        *,
        columns: Mapping[str, AnyArray] = NO_COLUMNS,
    ) -> Assignment:
        """See `Partition.assign`; a `minimum` that no draw reaches is an error."""
        order = rng.permutation(len(labels))
        alpha = np.full(clients, self.concentration)
        takers, draws = _drawn_until(
            lambda: _takers(draw_proportions(alpha, rng), len(labels)),
            clients=clients,
            count=len(labels),
            minimum=self.minimum,
            max_draws=self.max_draws,
        )
        owners = np.empty(len(labels), dtype=np.int64)
        owners[order] = takers
        facts = {"sizes": {"concentration": self.concentration}, "draws": draws}
        return Assignment.from_owners(owners, clients, facts=facts)


def _takers(shares: FloatArray, count: int) -> IntArray:
    """(count,) ascending clients, each with its share, cut at floor(count · cumulated share)."""
    cuts = np.floor(np.cumsum(shares)[:-1] * count + 1e-9).astype(np.int64)
    sizes = np.diff(np.concatenate([[0], np.minimum(cuts, count), [count]]))
    return np.repeat(np.arange(len(shares)), sizes)


def _drawn_until(
    draw: Callable[[], IntArray], *, clients: int, count: int, minimum: int, max_draws: int
) -> tuple[IntArray, int]:
    """The first draw of owners in which every client has `minimum` examples, and its number."""
    if clients * minimum > count:
        raise DataError(
            f"{clients} clients with partition.minimum = {minimum} need {clients * minimum} "
            f"examples, but there are only {count}"
        )
    best = 0
    for number in range(1, max_draws + 1):
        owners = draw()
        smallest = int(np.bincount(owners, minlength=clients).min())
        if smallest >= minimum:
            return owners, number
        best = max(best, smallest)
    raise DataError(
        f"partition.minimum = {minimum} was not reached in {max_draws} draws, in which the "
        f"smallest client had at most {best} examples; take fewer clients, a smaller minimum or a "
        "larger partition.concentration"
    )
