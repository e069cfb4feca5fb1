"""Equality of the states that runs carry from round to round."""

import numpy as np
import torch

from fedgs.checkpoint import State

__all__ = ["equal_states"]


def equal_states(a: State, b: State) -> bool:
    """Whether two states are equal to the last bit; NaN in a memory equals NaN."""
    return (
        a.round == b.round
        and torch.equal(a.parameters, b.parameters)
        and np.array_equal(a.counts, b.counts)
        and a.memory.keys() == b.memory.keys()
        and all(
            np.array_equal(a.memory[key], b.memory[key], equal_nan=a.memory[key].dtype.kind == "f")
            for key in a.memory
        )
    )
