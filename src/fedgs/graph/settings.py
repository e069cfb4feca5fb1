"""The graph's settings, and the graph: similarity → adjacency → distance."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypedDict

import numpy as np
from pydantic import Field, model_validator

from fedgs.arrays import FloatMatrix
from fedgs.clients import Clients
from fedgs.errors import GraphError
from fedgs.graph.adjacency import complete_edges, edge_scale, edge_weights
from fedgs.graph.distance import first_asymmetry, graph_distance, shortest_paths
from fedgs.graph.effect import without_effect
from fedgs.graph.similarity import (
    NormalizeOver,
    client_features,
    cosines,
    feature_products,
    min_max,
    off_diagonal_range,
)
from fedgs.registry import Variant

__all__ = ["ClientGraph", "Graph", "Similarity"]

Similarity = Literal["oracle", "private", "update", "functional"]

_AUTHORS: dict[str, object] = {
    "normalize_by_norm": True,
    "normalize_over": "none",
    "epsilon": 0.01,
    "sigma_squared": 0.1,
    "power": 2,
    "covariance": "scalar",
}


class _EdgeRule(TypedDict):
    epsilon: float
    sigma_squared: float
    power: int


@dataclass(frozen=True, eq=False)
class ClientGraph:
    """The data-distribution-dependency graph of N clients.

    Attributes:
        similarity: (N, N) V after normalisation.
        adjacency: (N, N) edge lengths R, 0 on the diagonal, inf for no edge; in units of the
            longest edge if the settings normalise distances.
        distance: (N, N) H: symmetric, >= 0, finite, 0 on the diagonal.
    """

    similarity: FloatMatrix
    adjacency: FloatMatrix
    distance: FloatMatrix

    def __len__(self) -> int:
        return len(self.distance)


class Graph(Variant):
    """How the client graph is made (3DG of the paper).

    `preset` gives the values of settings that are left out: "paper", or "authors" for those of the
    authors' code (normalize_by_norm, no rescaling, exp(-V²/0.1), epsilon 0.01, scalar covariance).
    The object has every value.

    A setting that has no effect together with the others, such as `noise_samples` with similarity
    "oracle", is refused unless it has its standard value.

    Attributes:
        preset: "paper" or "authors", the values of settings that are left out.
        similarity: "oracle" (features or label proportions), "private" (the same products by the
            secure scalar product), "update" (cosines of first updates), "functional" (cosines of
            first models' outputs on noise).
        normalize_by_norm: divide products by both norms ("oracle" and "private").
        normalize_over: which products give the minimum and maximum of the rescaling to [0, 1]
            ("oracle" and "private").
        rescale: rescale "update" and "functional" similarities too, over the pairs i≠j; they are in
            [0, 1] without it.
        epsilon: similarities below have no edge, >= 0.
        sigma_squared: sigma² > 0 of the edge length exp(-V^power / sigma²).
        power: 1 (paper) or 2 (authors' code).
        construction: "threshold" (the paper's 3DG); "complete" (Theorem 1's graph, shortest paths
            of ‖e_i - e_j‖²); "complete_direct" (H is that matrix itself, as the paper's proof has
            it).
        unreachable: pairs without a path get the largest finite distance.
        normalize: divide H by its largest entry.
        noise_samples: inputs in the noise batch of "functional", >= 1.
        noise_examples: examples that mean and covariance of the noise are estimated from, >= 2.
        covariance: "full", "diagonal" or "scalar" covariance of the noise.
        layer: the submodule whose output "functional" takes; None: the logits.
        sketch: longer updates are projected to this many numbers for "update" by one fixed random
            projection, with an error of at most about 1/sqrt(sketch) in a cosine; 0: never, and all
            updates are held in memory at once.
        protocol: the secure scalar product of "private": "ring", or "paper" (Algorithm 2 as
            printed), see `fedgs.secure.private_similarity`.
        value_range: largest absolute value of a feature's entries, > 0, for "private"; None: 1 for
            label proportions, and for features the smallest power of two that no entry exceeds.
        dealer: the outside party that deals all masks of "private"; None: a third client for each
            pair.
        path: an .npz with `distance` (and `similarity`, `adjacency`) to be used instead.
        start: which clients give features before round 0: "all", or none; with "seen", clients give
            theirs with their first update in a cohort, and unknown pairs have the largest known
            distance.
        refresh: weight in [0, 1] of a later feature in the moving average of a seen client's
            features, all scaled to length 1 ("update" and "functional" that start with "seen"); at
            0 the first feature stays.
        structure: "dense" holds the distances of all pairs; "landmarks" those of a few clients, and
            for each other client the edge to one of these, see
            `fedgs.graph.landmark_distances`; "auto" is "dense" for up to 10,000 clients. With start
            "seen" the landmarks are among the clients that were selected.
        landmarks: number of landmarks, in 2..10,000.

    References:
        Z. Wang, X. Fan, J. Qi, H. Jin, P. Yang, S. Shen, C. Wang (2023): FedGS: Federated
        Graph-Based Sampling with Arbitrary Client Availability. AAAI 37.

    >>> Graph(preset="authors", epsilon=0.5).sigma_squared
    0.1
    """

    family: ClassVar[str] = "method.graph"

    preset: Literal["paper", "authors"] = "paper"
    similarity: Similarity = "oracle"
    normalize_by_norm: bool = False
    normalize_over: NormalizeOver = "off_diagonal"
    rescale: bool = False
    epsilon: float = Field(default=0.1, ge=0, allow_inf_nan=False)
    sigma_squared: float = Field(default=0.01, gt=0, allow_inf_nan=False)
    power: Literal[1, 2] = 1
    construction: Literal["threshold", "complete", "complete_direct"] = "threshold"
    unreachable: Literal["max"] = "max"
    normalize: bool = True
    noise_samples: int = Field(default=256, ge=1)
    noise_examples: int = Field(default=100, ge=2)
    covariance: Literal["full", "diagonal", "scalar"] = "full"
    layer: str | None = None
    sketch: int = Field(default=4096, ge=0)
    protocol: Literal["ring", "paper"] = "ring"
    value_range: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    dealer: str | None = None
    path: str | None = None
    start: Literal["all", "seen"] = "all"
    refresh: float = Field(default=0.5, ge=0, le=1)
    structure: Literal["auto", "dense", "landmarks"] = "auto"
    landmarks: int = Field(default=1024, ge=2, le=10_000)
    later_settings = (("structure",), ("landmarks",))

    @model_validator(mode="before")
    @classmethod
    def _fill_preset(cls, given: object) -> object:
        if isinstance(given, dict) and given.get("preset") == "authors":
            return {**_AUTHORS, **given}
        return given

    @classmethod
    def without_effect(cls, settings: Mapping[str, object]) -> dict[str, str]:
        """The given settings that have no effect together with the others, each with its message.

        >>> Graph.without_effect({"path": "graph.npz", "epsilon": 0.2}).keys()
        dict_keys(['epsilon'])
        """
        standard = {name: field.default for name, field in cls.model_fields.items()}
        preset = _AUTHORS if settings.get("preset") == "authors" else {}
        return without_effect(settings, {**standard, **preset}, where=cls.family)

    def of_clients(self, clients: Clients) -> ClientGraph:
        """The oracle's graph, from the clients' features or, without these, label proportions.

        Raises:
            GraphError: the clients have neither, or a feature is not finite.

        >>> labels = np.array([[2, 0], [1, 1], [0, 2]])
        >>> clients = Clients((0, 1, 2), np.array([2, 2, 2]), label_counts=labels)
        >>> Graph().of_clients(clients).distance
        array([[0. , 0.5, 1. ],
               [0.5, 0. , 0.5],
               [1. , 0.5, 0. ]])
        """
        return self.of_products(feature_products(client_features(clients)))

    def of_products(self, products: FloatMatrix) -> ClientGraph:
        """The graph from raw dot products u_i·u_j, for instance of the secure scalar product.

        Args:
            products: (N, N) symmetric; the diagonal is needed only by `normalize_by_norm`,
                `normalize_over = "all"` and the complete constructions, and may be NaN otherwise.
        """
        _check(products)
        if self.construction != "threshold":
            return self._finish(cosines(products), complete_edges(products), 1.0)
        similarity = cosines(products) if self.normalize_by_norm else products
        if self.normalize_over == "all" and np.isnan(np.diagonal(similarity)).any():
            raise GraphError(
                "graph.normalize_over = 'all' needs every client's own product, unknown here; use "
                "'off_diagonal'"
            )
        similarity = min_max(similarity, self.normalize_over)
        del products  # frees a matrix before the shortest paths are computed
        return self._threshold(similarity)

    def of_similarity(self, similarity: FloatMatrix) -> ClientGraph:
        """The graph from similarities that are already in [0, 1].

        These are `update` and `functional` similarities, or the user's own.

        Args:
            similarity: (N, N) symmetric.
        """
        _check(similarity)
        if self.construction != "threshold":
            return self._finish(similarity, complete_edges(similarity), 1.0)
        return self._threshold(min_max(similarity, "off_diagonal" if self.rescale else "none"))

    def _threshold(self, similarity: FloatMatrix) -> ClientGraph:
        rule = _EdgeRule(epsilon=self.epsilon, sigma_squared=self.sigma_squared, power=self.power)
        weights = edge_weights(similarity, **rule)
        scale = 1.0 if self.normalize else edge_scale(similarity, **rule)
        return self._finish(similarity, weights, scale)

    def _finish(self, similarity: FloatMatrix, weights: FloatMatrix, scale: float) -> ClientGraph:
        paths = weights if self.construction == "complete_direct" else shortest_paths(weights)
        any_path = bool((np.isfinite(paths) & (paths > 0)).any())
        # The adjacency itself where the edges are the paths; else a matrix that nothing else uses.
        own = self.construction != "complete_direct"
        distance = graph_distance(paths, normalize=self.normalize, overwrite=own)
        if scale != 1.0:
            weights, distance = weights * scale, distance * scale if any_path else distance
        return ClientGraph(similarity, weights, distance)


def _check(similarity: FloatMatrix) -> None:
    if similarity.ndim != 2 or similarity.shape[0] != similarity.shape[1]:
        raise GraphError(f"similarities must be a square matrix, got shape {similarity.shape}")
    if not np.isfinite(off_diagonal_range(similarity)).all() and len(similarity) > 1:
        raise GraphError("similarities between clients must be finite, got NaN or inf")
    if first_asymmetry(similarity, rtol=1e-9, atol=1e-12) is not None:
        raise GraphError("similarities must be symmetric")
