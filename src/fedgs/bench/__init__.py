"""Measurements of the solver (`solver`, checked by the MILP of `referee`) and of the `engines`."""
