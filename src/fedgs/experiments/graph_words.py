"""A client graph in words: its edges, its effect on cohorts, and how near it is to the oracle's."""

from collections.abc import Mapping

import numpy as np

from fedgs.arrays import FloatArray
from fedgs.clients import Clients
from fedgs.errors import GraphError
from fedgs.experiments.similarity import edge_rows
from fedgs.graph import ClientGraph, Graph, client_features, feature_products
from fedgs.graph.recovery import ORACLES, Recovery, components, edge_recovery, oracle_edges
from fedgs.plurals import counted
from fedgs.sampling import FedGS
from fedgs.solver import balance_bound

__all__ = ["edges_in_words", "effect_in_words", "nearness_in_words", "recovery_table"]


def edges_in_words(graph: ClientGraph) -> str:
    """How many pairs of clients are joined, and in how many connected parts the clients are.

    >>> lengths = np.array([[0.0, 2.0, np.inf], [2.0, 0.0, np.inf], [np.inf, np.inf, 0.0]])
    >>> edges_in_words(ClientGraph(np.eye(3), lengths, np.ones((3, 3)) - np.eye(3)))
    '1 of 3 pairs of clients (33 %), 2 connected parts'
    """
    joined = np.isfinite(graph.adjacency[np.triu_indices(len(graph), 1)])
    share = f" ({joined.mean():.0%})".replace("%", " %") if len(joined) else ""
    parts = counted(components(graph.adjacency), "connected part")
    return f"{joined.sum()} of {counted(len(joined), 'pair')} of clients{share}, {parts}"


def effect_in_words(graph: ClientGraph, method: FedGS, cohort_limit: int) -> str:
    """Whether the graph can change which clients are selected, and what else decides.

    Args:
        graph: of all N clients.
        method: FedGS with alpha and scale.
        cohort_limit: M.
    """
    lengths, alpha = graph.distance[np.triu_indices(len(graph), 1)], method.alpha
    reason = (
        "a cohort can hold all clients"
        if cohort_limit >= len(graph)
        else "cohorts of one client have no pairs"
        if cohort_limit == 1
        else "method.alpha is 0"
        if alpha == 0
        else "all pairs have the same distance, so all cohorts are equally diverse"
        if np.ptp(lengths) == 0
        else ""
    )
    if reason:
        return f"none on the cohorts: {reason}"
    figures = (f"{value:.3g}" if value >= 5e-4 else "0" for value in _range(lengths))
    spread = "distances from {} to {}, median {}".format(*figures)
    if method.scale == "cohort":
        return f"{spread}; diversity is weighed against balance by alpha = {alpha:g}"
    bound = balance_bound(len(graph), cohort_limit) / float(lengths.max())
    if alpha < bound:
        why = f"since alpha = {alpha:g} is below {bound:.3g}"
        return f"{spread}; they decide only between equally balanced cohorts, {why}"
    return f"{spread}; they can outweigh balance, since alpha = {alpha:g} is at least {bound:.3g}"


def _range(values: FloatArray) -> tuple[float, float, float]:
    """The smallest value, the largest one and the median."""
    return float(values.min()), float(values.max()), float(np.median(values))


def nearness_in_words(graph: ClientGraph, clients: Clients) -> str:
    """How many edges the graph shares with the oracle's, beside a graph that joins all pairs.

    The oracle is that of the default settings of `fedgs.Graph`.
    """
    try:
        products = feature_products(client_features(clients))
    except GraphError:
        return "none to compare with, since the clients have neither features nor labels"
    oracle = oracle_edges(products, "off_diagonal", epsilon=Graph().epsilon)
    own = edge_recovery(np.isfinite(graph.adjacency), oracle)
    all_pairs = edge_recovery(np.ones_like(oracle), oracle)
    found = (
        f"{own.recall:.0%} of its edges are in the graph, {own.precision:.0%} of the graph's in it"
    )
    return f"{found}: F1 {own.f1:.3f}, and {all_pairs.f1:.3f} for all pairs joined".replace(
        "%", " %"
    )


# Rule of `edge_rows` -> what the table calls it, with its epsilon.
_RULES: Mapping[str, str] = {
    "grid": "{:g}",
    "density": "target density 1/3: {:.3f}",
    "histogram": "histogram (Otsu): {:.3f}",
}


def recovery_table(graph: ClientGraph, clients: Clients) -> list[str]:
    """F1 (precision, recall), one line for each epsilon, one column for each oracle, with a legend.

    The last line is the base line, a graph that joins all pairs. Without an oracle, and for a
    single client, there is no table.
    """
    try:
        products = feature_products(client_features(clients))
    except GraphError:
        return []
    if len(graph) < 2:
        return []
    columns: dict[str, list[tuple[str, Recovery]]] = {}
    for oracle, rule, row in edge_rows(graph.similarity, products):
        columns.setdefault(oracle, []).append((_RULES[rule].format(row.epsilon), row))
    for oracle in ORACLES:
        every_pair = np.ones(products.shape, dtype=bool)
        baseline = edge_recovery(every_pair, oracle_edges(products, oracle))
        columns[oracle].append(("all pairs (base line)", baseline))
    lines = [
        "F1 (precision, recall) of the pairs whose similarity is at least epsilon",
        "",
        f"{'epsilon':<28}{'density':>8}" + "".join(f"{oracle:>22}" for oracle in columns),
    ]
    for cells in zip(*columns.values(), strict=True):
        name, first = cells[0]
        figures = (f"{row.f1:.3f} ({row.precision:.3f}, {row.recall:.3f})" for _, row in cells)
        lines.append(
            f"{name:<28}{first.density:>8.1%}" + "".join(f"{text:>22}" for text in figures)
        )
    return [*lines, "", *_LEGEND]


_LEGEND = (
    "density: share of the pairs that are joined. precision: share of them that are edges of the "
    "oracle.",
    "recall: share of the oracle's edges that are joined. F1: 2 precision recall / (precision + "
    "recall).",
    "raw, off_diagonal, all: the oracle joins clients whose product of label proportions is at "
    "least 0.1,",
    "as it is, or rescaled to [0, 1] over the pairs of different clients, or over all pairs.",
    "target density: the largest epsilon at which a third of the pairs are joined. histogram: the "
    "epsilon",
    "that splits the similarities into two groups with the least variance within.",
)
