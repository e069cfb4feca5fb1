"""Imports the modules of all commands, and loads the compiled kernels by a small study."""

import fedgs
from fedgs.cli import main
from fedgs.data import Synthetic

main._build()
fedgs.compare(
    Synthetic(clients=4),
    methods=["uniform", "fedgs", "power_of_choice"],
    training={"rounds": 1, "local_steps": 1, "proportion": 0.5},
).table(against="uniform")
