"""Aggregation weights: how much the update of each client of a cohort counts.

NumPy alone, so that a deployment computes the same weights as a simulation.
"""

from fedgs.weighting.base import (
    Weighting,
    WeightingSetting,
    as_weighting,
    checked_weights,
    weighting_of_selection,
)
from fedgs.weighting.rules import AllClients, DataSize, Draws, Equal, InverseParticipation

# isort: split
from fedgs.weighting.ca_fed import CAFedWeighting
from fedgs.weighting.coverage import Coverage
from fedgs.weighting.deficit import Deficit
from fedgs.weighting.f3ast import F3ASTWeighting
from fedgs.weighting.fedau import FedAU
from fedgs.weighting.oracle import Known

__all__ = [
    "AllClients",
    "CAFedWeighting",
    "Coverage",
    "DataSize",
    "Deficit",
    "Draws",
    "Equal",
    "F3ASTWeighting",
    "FedAU",
    "InverseParticipation",
    "Known",
    "Weighting",
    "WeightingSetting",
    "as_weighting",
    "checked_weights",
    "weighting_of_selection",
]
