"""The selection problem of a round and its solver: `solve`, and `select` for plain arrays.

`problem` states the problem and `scales` computes its penalties and weights. `solve` takes these
steps in order; compiled functions are in `kernels`:

=========  ============================  =====================  ===================
step       NumPy (the reference)         compiled               up to 64 clients
=========  ============================  =====================  ===================
reduction  `reduction.reduced`                                  `small.narrow`
tree       `tree.plain_best_on_forest`   `tree.knapsack`        the same
search     `plain.descend`, `.iterate`   `search.search`        the same
bound      `plain.row_bound`                                    `small.row_bound`
ties       `plain.shuffle_ties`          `search.shuffle_ties`  the same
proof      `plain.enumerate_all`         `proof.branch`         `small.try_all`
=========  ============================  =====================  ===================

* `search` calls the compiled kernels, or `plain` where numba is not installed.
* `small_pools` calls the kernels for pools of up to 64 clients, where the overhead of NumPy's calls
  exceeds the work. It draws its order of the clients from another generator than the general path,
  so the two paths may break ties differently.
* `on_demand` searches distances that are not held as a matrix. It reads only the rows of selected
  clients.
* `limits` holds the sizes at which a method changes.
"""

from fedgs.solver.problem import Distances, Effort, SelectionProblem, Solution, Status, objective
from fedgs.solver.scales import Scale, balance_bound, balance_penalty, pair_weight
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
    "balance_bound",
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
