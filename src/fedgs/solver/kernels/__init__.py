"""The solver's compiled loops: `search`, `tree` (knapsack), `proof` (branch and bound), and `small` for small pools.

The modules are loaded by `fedgs.compiling.load_kernels`, which returns None without numba.
"""
