"""The selection problem of a round and its solver: `solve`, or `select` for one cohort from plain arrays."""

from fedgs.solver.problem import Distances, Effort, SelectionProblem, Solution, Status, objective
from fedgs.solver.scales import Scale, balance_penalty, pair_weight
from fedgs.solver.select import select
from fedgs.solver.solve import solve

__all__ = [
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
