"""The scalar products that are known, by the rows of the clients."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fedgs.arrays import FloatMatrix
from fedgs.errors import ConfigError
from fedgs.graph import Graph
from fedgs.secure.channel import KeyPair

__all__ = ["Pair", "Products", "check_private"]

Pair = tuple[int, int]  # low < high


class Products:
    """The products of pairs of clients, of whom more join.

    Args:
        known: (N, N) symmetric products, NaN where unknown; None: none yet.

    >>> products = Products()
    >>> products.learn({(0, 2): 0.5})
    >>> products.missing([0, 1, 2])
    [(0, 1), (1, 2)]
    """

    def __init__(self, known: FloatMatrix | None = None) -> None:
        self._known = np.full((0, 0), np.nan) if known is None else np.array(known, dtype=float)

    def matrix(self, clients: int) -> FloatMatrix:
        """(N, N) products, NaN on the diagonal and where unknown."""
        self._grow(clients)
        return self._known[:clients, :clients].copy()

    def learn(self, products: Mapping[Pair, float]) -> None:
        """Store products that are not known yet; a known one stays."""
        if not products:
            return
        self._grow(1 + max(high for _, high in products))
        for (low, high), product in products.items():
            if np.isnan(self._known[low, high]):
                self._known[low, high] = self._known[high, low] = product

    def missing(self, rows: Sequence[int]) -> list[Pair]:
        """The pairs of these clients whose product is unknown, ascending."""
        ordered = np.array(sorted(rows), dtype=np.int64)
        if not len(ordered):
            return []
        self._grow(int(ordered[-1]) + 1)
        low, high = np.nonzero(np.triu(np.isnan(self._known[np.ix_(ordered, ordered)]), k=1))
        return list(zip(ordered[low].tolist(), ordered[high].tolist(), strict=True))

    def due(self, rows: Sequence[int], *, share: float) -> bool:
        """Whether more than `share` of the pairs of one of these clients are unknown."""
        counts = _counts(self.missing(rows))
        return any(count > share * (len(rows) - 1) for count in counts.values())

    def distances(self, graph: Graph, clients: int) -> FloatMatrix:
        """(N, N) H, the distances of the graph of these products.

        An unknown pair has the smallest known product, so that it has no edge. Without any known
        product all distances are 1.

        >>> Products().distances(Graph(similarity="private"), 2)
        array([[0., 1.],
               [1., 0.]])
        """
        products = self.matrix(clients)
        known = ~np.isnan(products)
        if not known.any():
            return np.ones((clients, clients)) - np.eye(clients)
        products[~known] = products[known].min()
        np.fill_diagonal(products, np.nan)
        return graph.of_products(products).distance

    def _grow(self, clients: int) -> None:
        before = len(self._known)
        if clients > before:
            grown = np.full((clients, clients), np.nan)
            grown[:before, :before] = self._known
            self._known = grown


def _counts(pairs: Iterable[Pair]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for pair in pairs:
        for row in pair:
            counts[row] = counts.get(row, 0) + 1
    return counts


def check_private(graph: Graph) -> None:
    """Refuse settings that a private graph does not have in a deployment.

    Raises:
        ConfigError: such a setting.
        MissingExtraError: `cryptography` is not installed.

    >>> check_private(Graph(similarity="private"))
    """
    KeyPair.generate()
    for name, allowed, why in (
        ("protocol", "ring", "with 'paper' the server can compute the vectors"),
        ("dealer", None, "a third client deals for each pair"),
        ("value_range", None, "it is set by describe_privately(app, value_range=...)"),
        ("normalize_by_norm", False, "no client's own product is computed"),
        ("normalize_over", ("off_diagonal", "none"), "no client's own product is computed"),
        ("construction", "threshold", "no client's own product is computed"),
        ("structure", ("auto", "dense"), "each pair of clients has a product"),
        ("start", "all", "clients meet in pairs before they are selected"),
    ):
        given = getattr(graph, name)
        choices = allowed if isinstance(allowed, tuple) else (allowed,)
        if given not in choices:
            listed = " or ".join(map(repr, choices))
            raise ConfigError(
                f"method.graph.{name} must be {listed} for similarity 'private' in a deployment "
                f"({why}), got {given!r}"
            )
