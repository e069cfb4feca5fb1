"""The samplers, and the interface to write one. Only NumPy and SciPy are needed."""

from fedgs.sampling.base import (
    AsksLosses,
    AsksReports,
    LearnsFromModels,
    Remembers,
    Sampler,
    Wish,
    sampler,
)
from fedgs.sampling.fedgs import FedGS, Solver
from fedgs.sampling.power_of_choice import PowerOfChoice
from fedgs.sampling.proportional import MD
from fedgs.sampling.uniform import Uniform

__all__ = [
    "MD",
    "AsksLosses",
    "AsksReports",
    "FedGS",
    "LearnsFromModels",
    "PowerOfChoice",
    "Remembers",
    "Sampler",
    "Solver",
    "Uniform",
    "Wish",
    "sampler",
]
