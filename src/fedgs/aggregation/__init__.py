"""Aggregation: from the updates of a cohort to the parameters of the next round.

Folds reduce local models as they arrive. An aggregation says which folds it needs, what clients
start from and how their gradients are corrected, and makes the next parameters; its vectors are
saved with the state of the run. A server step turns the aggregated update into a step.
"""

from fedgs.aggregation.base import (
    Aggregation,
    Corrections,
    Round,
    Vectors,
    checked_step,
    checked_vectors,
)
from fedgs.aggregation.feddyn import FedDyn
from fedgs.aggregation.folds import Rows, WeightedMean, WeightedSum, all_finite, is_finite
from fedgs.aggregation.gossip import Gossip
from fedgs.aggregation.mean import Mean
from fedgs.aggregation.postponed import Postponed
from fedgs.aggregation.scaffold import Scaffold
from fedgs.aggregation.stale import Stale
from fedgs.aggregation.table import ClientTable
from fedgs.aggregation.tree import BLOCK
from fedgs.server_steps import Adagrad, Adam, Amplified, Momentum, ServerStep, Sgd, Yogi

__all__ = [
    "BLOCK",
    "Adagrad",
    "Adam",
    "Aggregation",
    "Amplified",
    "ClientTable",
    "Corrections",
    "FedDyn",
    "Gossip",
    "Mean",
    "Momentum",
    "Postponed",
    "Round",
    "Rows",
    "Scaffold",
    "ServerStep",
    "Sgd",
    "Stale",
    "Vectors",
    "WeightedMean",
    "WeightedSum",
    "Yogi",
    "all_finite",
    "checked_step",
    "checked_vectors",
    "is_finite",
]
