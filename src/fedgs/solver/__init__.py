"""The selection problem of a round and its solver: `solve`, or `select` for one cohort from plain arrays."""

from fedgs.solver.problem import Distances, Effort, SelectionProblem, Solution, Status, objective
from fedgs.solver.scales import Scale, balance_penalty, pair_weight
from fedgs.solver.select import select
from fedgs.solver.solve import solve

__all__ = [
    "NUMERICS",
    "Distances",
    "Effort",
    "Scale",
    "SelectionProblem",
    "Solution",
    "Status",
    "balance_penalty",
    "objective",
    "pair_weight",
    "select",
    "solve",
]

NUMERICS = 1
"""Version of the cohorts that the solver selects, part of the identity of runs that use it.

Raise it in every change after which some selection problem and seed give another cohort.
"""
