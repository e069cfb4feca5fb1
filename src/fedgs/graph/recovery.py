"""How well a graph that was made without seeing the data recovers the oracle's edges, and where to put epsilon."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedgs.arrays import AnyArray, FloatArray, FloatMatrix
from fedgs.errors import GraphError
from fedgs.graph.similarity import min_max

__all__ = [
    "EPSILONS",
    "ORACLES",
    "OracleVariant",
    "Recovery",
    "components",
    "density",
    "edges_of",
    "epsilon_of_density",
    "epsilon_of_histogram",
    "oracle_edges",
    "recovery",
    "recovery_grid",
]

OracleVariant = Literal["raw", "off_diagonal", "all"]
EPSILONS = (0.0, 0.01, 0.05, 0.1, 0.5)  # the paper's grid
ORACLES: tuple[OracleVariant, ...] = ("raw", "off_diagonal", "all")


@dataclass(frozen=True)
class Recovery:
    """A graph's edges against the oracle's, each unordered pair once.

    Attributes:
        epsilon: threshold of the graph.
        precision: share of its edges that are edges of the oracle; 1 where it has none.
        recall: share of the oracle's edges that it has; 1 where the oracle has none.
        f1: 2 precision·recall / (precision + recall), 0 where both are 0.
        density: share of the pairs that are edges of the graph.
    """

    epsilon: float
    precision: float
    recall: float
    f1: float
    density: float


def edges_of(similarity: FloatMatrix, epsilon: float) -> AnyArray:
    """(N, N) bool: V_ij >= epsilon, i≠j; NaN is no edge.

    >>> edges_of(np.array([[1.0, 0.2], [0.2, 1.0]]), 0.1).astype(int)
    array([[0, 1],
           [1, 0]])
    """
    return np.asarray((similarity >= epsilon) & ~np.eye(len(similarity), dtype=bool))


def oracle_edges(
    products: FloatMatrix, variant: OracleVariant = "raw", *, epsilon: float = 0.1
) -> AnyArray:
    """(N, N) bool edges of the oracle: of raw products, or of products rescaled over the pairs i≠j or over all i, j.

    >>> oracle_edges(np.array([[1.0, 0.2, 0.0], [0.2, 1.0, 0.05], [0.0, 0.05, 1.0]]), "off_diagonal").sum() // 2
    np.int64(2)
    """
    return edges_of(products if variant == "raw" else min_max(products, variant), epsilon)


def recovery(similarity: FloatMatrix, oracle: AnyArray, *, epsilon: float) -> Recovery:
    """Precision, recall and F1 of the edges V_ij >= epsilon.

    Args:
        similarity: (N, N) V.
        oracle: (N, N) bool, the oracle's edges.
        epsilon: threshold.

    Raises:
        GraphError: the two are of different size.

    >>> truth = np.array([[False, True, True], [True, False, False], [True, False, False]])
    >>> recovery(np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.8], [0.0, 0.8, 1.0]]), truth, epsilon=0.5)
    Recovery(epsilon=0.5, precision=0.5, recall=0.5, f1=0.5, density=0.6666666666666666)
    """
    if similarity.shape != oracle.shape:
        raise GraphError(
            f"the oracle must have {len(similarity)} clients, got edges of shape {oracle.shape}"
        )
    above = np.triu_indices(len(similarity), 1)
    found, true = edges_of(similarity, epsilon)[above], oracle[above]
    both = int((found & true).sum())
    precision = both / int(found.sum()) if found.any() else 1.0
    recall = both / int(true.sum()) if true.any() else 1.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0
    return Recovery(
        float(epsilon), precision, recall, f1, float(found.mean()) if len(found) else 0.0
    )


def recovery_grid(
    similarity: FloatMatrix, oracle: AnyArray, epsilons: Sequence[float] = EPSILONS
) -> list[Recovery]:
    """`recovery` for each epsilon; the best F1 of it needs the oracle, see `epsilon_of_density` for a rule that does not.

    >>> [row.density for row in recovery_grid(np.array([[1.0, 0.2], [0.2, 1.0]]), np.eye(2) < 1, (0.1, 0.5))]
    [1.0, 0.0]
    """
    return [recovery(similarity, oracle, epsilon=epsilon) for epsilon in epsilons]


def density(edges: AnyArray) -> float:
    """Share of the pairs that are edges; 0 for one client.

    Args:
        edges: (N, N) bool, or lengths with inf for no edge.

    >>> density(np.array([[0.0, 2.0, np.inf], [2.0, 0.0, np.inf], [np.inf, np.inf, 0.0]]))
    0.3333333333333333
    """
    joined = _joined(edges)[np.triu_indices(len(edges), 1)]
    return float(joined.mean()) if len(joined) else 0.0


def components(edges: AnyArray) -> int:
    """How many connected parts the graph has.

    >>> components(np.array([[0.0, 2.0, np.inf], [2.0, 0.0, np.inf], [np.inf, np.inf, 0.0]]))
    2
    """
    from scipy.sparse import (
        csr_matrix,
    )  # here, since every command imports this module and one calls this function
    from scipy.sparse.csgraph import connected_components

    return int(connected_components(csr_matrix(_joined(edges)), directed=False)[0])


def epsilon_of_density(similarity: FloatMatrix, target: float) -> float:
    """The largest epsilon at which at least `target` of the pairs are edges: a rule that needs no oracle.

    What must be known is how often two clients are alike, which is a statement about the population
    and not about any client: with two of ten labels each, 1 - C(8,2)/C(10,2) = 38 % of the pairs
    share a label. Ties at epsilon are all edges. Pairs of similarity 0 are not alike: where fewer
    than `target` are above 0, epsilon is the smallest similarity above 0.

    Args:
        similarity: (N, N) V >= 0, symmetric.
        target: share of the pairs, in (0, 1].

    Returns:
        epsilon > 0; inf where all similarities are 0.

    Raises:
        GraphError: a target out of range, or fewer than two clients.

    >>> epsilon_of_density(np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.4], [0.1, 0.4, 1.0]]), 0.5)
    0.4
    """
    if not 0 < target <= 1:
        raise GraphError(f"the target density must be in (0, 1], got {target}")
    values = _pairs(similarity)
    positive = np.sort(values[values > 0])[::-1]
    wanted = max(1, int(np.ceil(target * len(values) - 1e-9)))
    return float(positive[min(wanted, len(positive)) - 1]) if len(positive) else float("inf")


def epsilon_of_histogram(similarity: FloatMatrix) -> float:
    """The epsilon that parts the similarities into two groups with the least variance within (Otsu's rule): needs nothing else.

    All similarities equal: that value, so every pair is an edge.

    >>> epsilon_of_histogram(np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.2], [0.1, 0.2, 1.0]]))
    0.9
    """
    values = np.sort(_pairs(similarity))
    size, total = len(values), np.cumsum(values)
    below = np.arange(1, size)
    gap = (
        total[-1] * below / size - total[:-1]
    )  # between-class variance is gap² / (below·above), up to a constant
    spread = gap**2 / (below * (size - below)) if size > 1 else np.empty(0)
    return (
        float(values[int(np.argmax(spread)) + 1])
        if len(spread) and spread.max() > 0
        else float(values[0])
    )


def _joined(edges: AnyArray) -> AnyArray:
    joined = edges if edges.dtype == np.bool_ else np.isfinite(edges)
    return np.asarray(joined & ~np.eye(len(edges), dtype=bool))


def _pairs(similarity: FloatMatrix) -> FloatArray:
    values = similarity[np.triu_indices(len(similarity), 1)]
    if len(values) == 0:
        raise GraphError("an epsilon needs at least two clients, got fewer")
    return np.asarray(values, dtype=np.float64)
