"""How well a graph made without the data recovers the oracle's edges, and rules for epsilon."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedgs.arrays import AnyArray, BoolArray, FloatArray, FloatMatrix
from fedgs.errors import GraphError
from fedgs.graph.similarity import min_max

__all__ = [
    "EPSILONS",
    "ORACLES",
    "OracleVariant",
    "Recovery",
    "components",
    "density",
    "edge_recovery",
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
    """A graph's edges compared with the oracle's, each unordered pair once.

    Attributes:
        epsilon: threshold of the graph.
        precision: share of its edges that are edges of the oracle; 1 if it has none.
        recall: share of the oracle's edges that it has; 1 if the oracle has none.
        f1: 2 precision·recall / (precision + recall), 0 if both are 0.
        density: share of the pairs that are edges of the graph.
    """

    epsilon: float
    precision: float
    recall: float
    f1: float
    density: float


def edges_of(similarity: FloatMatrix, epsilon: float) -> BoolArray:
    """(N, N) bool: V_ij >= epsilon, i≠j; NaN is no edge.

    >>> edges_of(np.array([[1.0, 0.2], [0.2, 1.0]]), 0.1).astype(int)
    array([[0, 1],
           [1, 0]])
    """
    return np.asarray((similarity >= epsilon) & ~np.eye(len(similarity), dtype=bool))


def oracle_edges(
    products: FloatMatrix, variant: OracleVariant = "raw", *, epsilon: float = 0.1
) -> BoolArray:
    """(N, N) bool edges of the oracle.

    Args:
        products: (N, N) dot products u_i·u_j.
        variant: "raw" products, or products rescaled over the pairs i≠j ("off_diagonal") or over
            all i, j ("all").
        epsilon: threshold.

    >>> products = np.array([[1.0, 0.2, 0.0], [0.2, 1.0, 0.05], [0.0, 0.05, 1.0]])
    >>> oracle_edges(products, "off_diagonal").sum() // 2
    np.int64(2)
    """
    return edges_of(products if variant == "raw" else min_max(products, variant), epsilon)


def recovery(similarity: FloatMatrix, oracle: BoolArray, *, epsilon: float) -> Recovery:
    """Precision, recall and F1 of the edges V_ij >= epsilon.

    Args:
        similarity: (N, N) V.
        oracle: (N, N) bool, the oracle's edges.
        epsilon: threshold.

    Raises:
        GraphError: the two have different sizes.

    >>> truth = np.array([[False, True, True], [True, False, False], [True, False, False]])
    >>> recovery(np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.8], [0.0, 0.8, 1.0]]), truth, epsilon=0.5)
    Recovery(epsilon=0.5, precision=0.5, recall=0.5, f1=0.5, density=0.6666666666666666)
    """
    return edge_recovery(edges_of(similarity, epsilon), oracle, epsilon=epsilon)


def edge_recovery(edges: BoolArray, oracle: BoolArray, *, epsilon: float = 0.0) -> Recovery:
    """Precision, recall and F1 of some edges.

    Args:
        edges: (N, N) bool, symmetric; the diagonal does not count.
        oracle: (N, N) bool, the oracle's edges.
        epsilon: the threshold that gave the edges, for the answer.

    Raises:
        GraphError: the two have different sizes.

    >>> oracle = np.array([[False, True, False], [True, False, False], [False, False, False]])
    >>> edge_recovery(np.ones((3, 3), dtype=bool), oracle).f1  # 2·(1/3)·1 / (1/3 + 1)
    0.5
    """
    if edges.shape != oracle.shape:
        raise GraphError(
            f"the oracle must have {len(edges)} clients, got edges of shape {oracle.shape}"
        )
    above = np.triu_indices(len(edges), 1)
    estimated, true = edges[above], oracle[above]
    both = int((estimated & true).sum())
    precision = both / int(estimated.sum()) if estimated.any() else 1.0
    recall = both / int(true.sum()) if true.any() else 1.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0
    share = float(estimated.mean()) if len(estimated) else 0.0
    return Recovery(float(epsilon), precision, recall, f1, share)


def recovery_grid(
    similarity: FloatMatrix, oracle: BoolArray, epsilons: Sequence[float] = EPSILONS
) -> list[Recovery]:
    """`recovery` for each epsilon.

    To choose the one with the best F1 needs the oracle; `epsilon_of_density` does not.

    >>> similarity = np.array([[1.0, 0.2], [0.2, 1.0]])
    >>> [row.density for row in recovery_grid(similarity, np.eye(2) < 1, (0.1, 0.5))]
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
    is_edge = _is_edge(edges)[np.triu_indices(len(edges), 1)]
    return float(is_edge.mean()) if len(is_edge) else 0.0


def components(edges: AnyArray) -> int:
    """Number of connected components of the graph.

    Args:
        edges: (N, N) bool, or lengths with inf for no edge.

    >>> components(np.array([[0.0, 2.0, np.inf], [2.0, 0.0, np.inf], [np.inf, np.inf, 0.0]]))
    2
    """
    # Imported here, since every command imports this module and only one calls this function.
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    return int(connected_components(csr_matrix(_is_edge(edges).astype(np.int8)), directed=False)[0])


def epsilon_of_density(similarity: FloatMatrix, target: float) -> float:
    """The largest epsilon at which at least a share `target` of the pairs are edges.

    The rule needs no oracle, only an estimate of how often two clients are similar, which is a
    property of the population and not of any client: with two of ten labels each,
    1 - C(8,2)/C(10,2) = 38 % of the pairs share a label. All pairs with a similarity of epsilon are
    edges. Pairs of similarity 0 never are: if fewer than `target` are above 0, epsilon is the
    smallest similarity above 0.

    Args:
        similarity: (N, N) V >= 0, symmetric.
        target: share of the pairs, in (0, 1].

    Returns:
        epsilon > 0; inf if all similarities are 0.

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
    """The epsilon that splits the similarities into two groups with the least variance within.

    This is Otsu's rule, which needs the similarities alone. If all are equal, epsilon is their
    value, so that every pair is an edge.

    Raises:
        GraphError: fewer than two clients.

    References:
        N. Otsu (1979): A Threshold Selection Method from Gray-Level Histograms. IEEE Transactions
        on Systems, Man, and Cybernetics 9.

    >>> epsilon_of_histogram(np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.2], [0.1, 0.2, 1.0]]))
    0.9
    """
    values = np.sort(_pairs(similarity))
    size, total = len(values), np.cumsum(values)
    below = np.arange(1, size)
    # The variance between the groups is gap² / (below·above), up to a constant.
    gap = total[-1] * below / size - total[:-1]
    spread = gap**2 / (below * (size - below)) if size > 1 else np.empty(0)
    if len(spread) and spread.max() > 0:
        return float(values[int(np.argmax(spread)) + 1])
    return float(values[0])


def _is_edge(edges: AnyArray) -> BoolArray:
    is_edge = edges if edges.dtype == np.bool_ else np.isfinite(edges)
    return np.asarray(is_edge & ~np.eye(len(edges), dtype=bool))


def _pairs(similarity: FloatMatrix) -> FloatArray:
    values = similarity[np.triu_indices(len(similarity), 1)]
    if len(values) == 0:
        raise GraphError("an epsilon needs at least two clients, got fewer")
    return np.asarray(values, dtype=np.float64)
