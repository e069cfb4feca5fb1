"""The samplers, and the interface to write one. Only NumPy and SciPy are needed."""

from fedgs.sampling.base import (
    AsksBatchLosses,
    AsksLosses,
    AsksReports,
    Grows,
    LearnsFromModels,
    Remembers,
    Sampler,
    Wish,
    sampler,
)
from fedgs.sampling.f3ast import F3AST
from fedgs.sampling.fedgs import FedGS, Solver
from fedgs.sampling.least_recent import LeastRecent
from fedgs.sampling.power_of_choice import PowerOfChoice
from fedgs.sampling.proportional import MD
from fedgs.sampling.uniform import Uniform

# isort: split
# Registered after those of the paper.
from fedgs.sampling.active_fl import ActiveFL
from fedgs.sampling.ca_fed import CAFed
from fedgs.sampling.clustered import Clustered, ClusteredSizes
from fedgs.sampling.divfl import DivFL
from fedgs.sampling.oort import Oort
from fedgs.sampling.permutation import Permutation
from fedgs.sampling.power_of_choice_variants import CPowD, RPowD
from fedgs.sampling.rbcs_f import RBCSF

__all__ = [
    "F3AST",
    "MD",
    "ActiveFL",
    "AsksBatchLosses",
    "AsksLosses",
    "AsksReports",
    "CPowD",
    "CAFed",
    "Clustered",
    "ClusteredSizes",
    "DivFL",
    "FedGS",
    "Grows",
    "LearnsFromModels",
    "LeastRecent",
    "Oort",
    "Permutation",
    "PowerOfChoice",
    "RBCSF",
    "RPowD",
    "Remembers",
    "Sampler",
    "Solver",
    "Uniform",
    "Wish",
    "sampler",
]
