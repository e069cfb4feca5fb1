"""Partitions with Dirichlet label skew, in the two forms that the field calls by one name.

*Over classes, per client*: client k draws label proportions p_k ~ Dirichlet(concentration · p*), p*
the global ones, and its size is fixed beforehand. *Over clients, per class*: class c is shared out
by q_c ~ Dirichlet(concentration, ..., concentration) over clients, and sizes follow. With balanced
classes the second gives client label proportions that are about Dirichlet(concentration, ...,
concentration) over the C classes, so it compares with the first at concentration · C.
"""

from collections.abc import Mapping

import numpy as np
from pydantic import Field

from fedgs.arrays import AnyArray, FloatArray, FloatMatrix, IntArray
from fedgs.data.apportion import apportion, client_sizes, deal, fit_labels, largest_remainder
from fedgs.data.partition import NO_COLUMNS, Assignment, Partition
from fedgs.errors import DataError
from fedgs.registry import register

__all__ = ["DirichletOverClasses", "DirichletOverClients", "LogNormalDirichlet"]


@register("partition", "lognormal_dirichlet")
class LogNormalDirichlet(Partition):
    """The paper's CIFAR10 partition: log-normal sizes and Dirichlet label proportions.

    Sizes ln s_k ~ N(log(n/N) - sigma²/2, sd sigma) are made to sum to n, and p_k ~
    Dirichlet(concentration · p*). To fit the global labels, a random client's p_k is redrawn and
    kept if it lowers sum_c |sum_k s_k p_kc - n_c|, until that is at most tolerance · n. Rounding
    moves the rest; each client's shift (total variation between what it holds and p_k) is in
    `facts["shift"]`.

    Attributes:
        concentration: total mass of the Dirichlet parameters, > 0 (1.75 is 0.175 per class with ten
            balanced classes).
        sigma: standard deviation of the log sizes, >= 0; 0: equal sizes.
        tolerance: mismatch at which redrawing stops, as a share of n, > 0.
        max_draws: redraws after which an error reports the remaining mismatch.
        minimum: examples every client has at least.

    >>> labels = np.arange(2000) % 10
    >>> assignment = LogNormalDirichlet(tolerance=0.1).assign(labels, 20, np.random.default_rng(0))
    >>> len(assignment), int(assignment.offsets[-1])
    (20, 2000)
    """

    concentration: float = Field(default=1.75, gt=0, allow_inf_nan=False)
    sigma: float = Field(default=1.0, ge=0, le=10)
    tolerance: float = Field(default=0.01, gt=0, allow_inf_nan=False)
    max_draws: int = Field(default=10_000, ge=0)
    minimum: int = Field(default=1, ge=0)

    def assign(
        self,
        labels: IntArray,
        clients: int,
        rng: np.random.Generator,
        *,
        columns: Mapping[str, AnyArray] = NO_COLUMNS,
    ) -> Assignment:
        """See `Partition.assign`; an unreachable `minimum` or `tolerance` is an error."""
        classes, class_counts = np.unique(labels, return_counts=True)
        sizes = client_sizes(len(labels), clients, sigma=self.sigma, minimum=self.minimum, rng=rng)
        alpha = self.concentration * class_counts / len(labels)
        first = np.stack([draw_proportions(alpha, rng) for _ in range(clients)])
        proportions, draws, mismatch = self._redrawn(
            first, sizes, class_counts=class_counts, alpha=alpha, rng=rng
        )
        counts = fit_labels(sizes, proportions, class_counts)
        facts = {
            "concentration": over_classes(alpha, classes),
            "draws": draws,
            "mismatch": mismatch / len(labels),
            "shift": label_shift(counts, proportions),
        }
        return Assignment.from_owners(deal(counts, labels, classes, rng), clients, facts=facts)

    def _redrawn(
        self,
        proportions: FloatMatrix,
        sizes: IntArray,
        *,
        class_counts: IntArray,
        alpha: FloatArray,
        rng: np.random.Generator,
    ) -> tuple[FloatMatrix, int, float]:
        """Proportions that fit the class counts, the number of redraws, and the final mismatch.

        The mismatch is sum_c |sum_k s_k p_kc - n_c|. `proportions` is changed in place.
        """
        totals = sizes @ proportions  # (C,)
        mismatch = float(np.abs(totals - class_counts).sum())
        limit = self.tolerance * int(class_counts.sum())
        for draw in range(self.max_draws + 1):
            if mismatch <= limit:
                return proportions, draw, mismatch
            client = int(rng.integers(len(sizes)))
            proposal = draw_proportions(alpha, rng)
            changed = totals + sizes[client] * (proposal - proportions[client])
            new = float(np.abs(changed - class_counts).sum())
            if new < mismatch:
                proportions[client], totals, mismatch = proposal, changed, new
        raise DataError(
            f"partition.tolerance = {self.tolerance:g}: after {self.max_draws} draws labels still "
            f"miss the global ones by {mismatch / class_counts.sum():.3g}; allow that much, "
            "or take more clients or a higher concentration"
        )


@register("partition", "dirichlet_over_classes")
class DirichletOverClasses(Partition):
    """Every client draws its label proportions from a Dirichlet distribution.

    p_k ~ Dirichlet(concentration · p*), with sizes fixed beforehand. Sizes and class counts are met
    exactly; where they do not allow p_k, examples are exchanged
    between classes and the client's shift (total variation between what it holds and p_k) is in
    `facts["shift"]`.

    Attributes:
        concentration: total mass of the Dirichlet parameters, > 0. Small values give few labels per
            client, large values make all clients alike.
        sigma: standard deviation of the log sizes, >= 0; 0: equal sizes.
        minimum: examples every client has at least.
    """

    concentration: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    sigma: float = Field(default=0.0, ge=0, le=10)
    minimum: int = Field(default=1, ge=0)

    def assign(
        self,
        labels: IntArray,
        clients: int,
        rng: np.random.Generator,
        *,
        columns: Mapping[str, AnyArray] = NO_COLUMNS,
    ) -> Assignment:
        """See `Partition.assign`; an unreachable `minimum` is an error."""
        classes, class_counts = np.unique(labels, return_counts=True)
        sizes = client_sizes(len(labels), clients, sigma=self.sigma, minimum=self.minimum, rng=rng)
        alpha = self.concentration * class_counts / len(labels)
        proportions = np.stack([draw_proportions(alpha, rng) for _ in range(clients)])
        counts = fit_labels(sizes, proportions, class_counts)
        facts = {
            "concentration": over_classes(alpha, classes),
            "shift": label_shift(counts, proportions),
        }
        return Assignment.from_owners(deal(counts, labels, classes, rng), clients, facts=facts)


@register("partition", "dirichlet_over_clients")
class DirichletOverClients(Partition):
    """Every class is shared out over clients by proportions from a Dirichlet distribution.

    q_c ~ Dirichlet(concentration, ..., concentration), and sizes follow from it. Clients below
    `minimum` get random examples from those above it, in proportion to what these have to spare,
    without redrawing; `facts["moved"]` is the number of examples moved.

    Attributes:
        concentration: of each client, > 0.
        minimum: examples every client has at least.
    """

    concentration: float = Field(default=0.5, gt=0, allow_inf_nan=False)
    minimum: int = Field(default=1, ge=0)

    def assign(
        self,
        labels: IntArray,
        clients: int,
        rng: np.random.Generator,
        *,
        columns: Mapping[str, AnyArray] = NO_COLUMNS,
    ) -> Assignment:
        """See `Partition.assign`; an unreachable `minimum` is an error."""
        # only for the check that the minimum is possible
        client_sizes(len(labels), clients, sigma=0.0, minimum=self.minimum, rng=rng)
        classes, class_counts = np.unique(labels, return_counts=True)
        alpha = np.full(clients, self.concentration)
        shares = np.stack([draw_proportions(alpha, rng) for _ in classes])  # (C, N)
        counts = largest_remainder(class_counts[:, None] * shares, class_counts).T  # (N, C)
        counts, moved = raise_to_minimum(counts, self.minimum, rng)
        facts = {
            "concentration": {
                "over": "clients, for each class",
                "of_each_client": self.concentration,
                "total": self.concentration * clients,
                "implied_over_classes": self.concentration * len(classes),
            },
            "moved": moved,
        }
        return Assignment.from_owners(deal(counts, labels, classes, rng), clients, facts=facts)


def draw_proportions(alpha: FloatArray, rng: np.random.Generator) -> FloatArray:
    """A draw from Dirichlet(alpha), alpha > 0.

    Where every component underflows, the limit of the distribution is drawn: one component is 1.
    """
    drawn = rng.dirichlet(alpha)
    # some versions of NumPy give NaN or zeros where every component underflows
    if np.isfinite(drawn).all() and drawn.sum() > 0.5:
        return np.asarray(drawn / drawn.sum(), dtype=np.float64)
    certain = np.zeros(len(alpha))
    certain[rng.choice(len(alpha), p=alpha / alpha.sum())] = 1.0
    return certain


def over_classes(alpha: FloatArray, classes: IntArray) -> dict[str, object]:
    """The facts about Dirichlet parameters over classes."""
    per_class = {str(label): float(value) for label, value in zip(classes, alpha, strict=True)}
    return {
        "over": "classes, for each client",
        "total": float(alpha.sum()),
        "of_each_class": per_class,
    }


def label_shift(counts: IntArray, proportions: FloatMatrix) -> list[float]:
    """Total variation distance in [0, 1] between each client's labels and its drawn p_k.

    It is 0 for a client without examples.
    """
    sizes = np.maximum(counts.sum(axis=1), 1)
    shift = np.abs(counts / sizes[:, None] - proportions).sum(axis=1) / 2
    return [float(value) for value in np.where(counts.sum(axis=1) > 0, shift, 0.0)]


def raise_to_minimum(
    counts: IntArray, minimum: int, rng: np.random.Generator
) -> tuple[IntArray, int]:
    """(N, C) label counts with rows of at least `minimum`, and the number of examples moved.

    The column sums stay the same.
    """
    sizes = counts.sum(axis=1)
    lacking = np.maximum(minimum - sizes, 0)
    moved = int(lacking.sum())
    if moved == 0:
        return counts, 0
    spare = np.maximum(sizes - minimum, 0)
    given = apportion(moved, spare.astype(np.float64), upper=spare)  # (N,)
    result = counts.copy()
    pool = np.zeros(counts.shape[1], dtype=np.int64)
    for client in np.flatnonzero(given):
        taken = apportion(
            int(given[client]), counts[client].astype(np.float64), upper=counts[client]
        )
        result[client] -= taken
        pool += taken
    dealt = rng.permutation(np.repeat(np.arange(counts.shape[1]), pool))
    np.add.at(result, (np.repeat(np.arange(len(counts)), lacking), dealt), 1)
    return result, moved
