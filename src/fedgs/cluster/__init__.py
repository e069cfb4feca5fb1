"""Computers that are reached through Ray: joining them, and what they must have in common.

Nothing else of the package imports Ray, and these modules do so when a cluster is opened.
"""

from fedgs.cluster.joining import Cluster, driver_folders, open_cluster
from fedgs.cluster.nodes import Node

__all__ = ["Cluster", "Node", "driver_folders", "open_cluster"]
