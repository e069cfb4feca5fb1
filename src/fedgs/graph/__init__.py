"""The client graph: similarity → adjacency → distance."""

from fedgs.graph.adjacency import complete_edges, edge_weights
from fedgs.graph.distance import graph_distance, shortest_paths
from fedgs.graph.distances import MatrixDistances, checked_once
from fedgs.graph.settings import ClientGraph, Graph
from fedgs.graph.similarity import client_features, cosines, feature_products, min_max

__all__ = [
    "ClientGraph",
    "Graph",
    "MatrixDistances",
    "checked_once",
    "client_features",
    "complete_edges",
    "cosines",
    "edge_weights",
    "feature_products",
    "graph_distance",
    "min_max",
    "shortest_paths",
]
