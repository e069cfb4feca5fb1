"""The client graph: similarity → adjacency → distance."""

from typing import TYPE_CHECKING

from fedgs.graph.adjacency import complete_edges, edge_weights
from fedgs.graph.distance import graph_distance, shortest_paths
from fedgs.graph.landmarks import LandmarkDistances
from fedgs.graph.matrix_distances import MatrixDistances, checked_once
from fedgs.graph.similarity import client_features, cosines, feature_products, min_max

if TYPE_CHECKING:
    from fedgs.graph.landmark_building import landmark_distances
    from fedgs.graph.settings import ClientGraph, Graph

__all__ = [
    "ClientGraph",
    "Graph",
    "LandmarkDistances",
    "MatrixDistances",
    "checked_once",
    "client_features",
    "complete_edges",
    "cosines",
    "edge_weights",
    "feature_products",
    "graph_distance",
    "landmark_distances",
    "min_max",
    "shortest_paths",
]


def __getattr__(name: str) -> object:
    # Loaded on first use: a solver from plain arrays needs no settings.
    if name in ("ClientGraph", "Graph"):
        from fedgs.graph import settings

        return getattr(settings, name)
    if name == "landmark_distances":
        from fedgs.graph.landmark_building import landmark_distances

        return landmark_distances
    raise AttributeError(f"module 'fedgs.graph' has no attribute {name!r}")
