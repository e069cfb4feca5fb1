"""The solver's compiled loops: `search`, `tree` (knapsack), `proof` and `small` (small pools).

The modules are loaded by `fedgs.compiling.load_kernels`, which returns None without numba.
"""
