"""The compiled draw of batches."""

from typing import Any

import numpy as np

from fedgs.compiling import compiled

__all__ = ["fill_batches"]


@compiled
def fill_batches(keys: Any, data_sizes: Any, ends: Any, steps: Any, indices: Any) -> None:
    """Write (r, E, B) batches: see `fedgs.local.batches`.

    Args:
        keys: (r,) the start of each client's stream.
        data_sizes: (r,) examples of each client.
        ends: (r,) how many of them a pass uses.
        steps: (r,) steps of each client.
        indices: (r, E, B), filled.
    """
    count, local_steps, batch_size = indices.shape
    order = np.arange(data_sizes.max() if count else 0)
    touched = np.empty(local_steps * batch_size, dtype=np.int64)
    for row in range(count):
        n, end, state, used, position = data_sizes[row], ends[row], keys[row], 0, 0
        for step in range(min(local_steps, steps[row])):
            if position >= end:  # the pass is over: put the order back
                for i in range(used):
                    order[touched[i]] = touched[i]
                used, position = 0, 0
            for slot in range(min(batch_size, end - position)):
                state = state + np.uint64(0x9E3779B97F4A7C15)
                mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                mixed = mixed ^ (mixed >> np.uint64(31))
                jump = (np.uint64(n - position) * (mixed >> np.uint64(32))) >> np.uint64(32)
                partner = position + np.int64(jump)
                indices[row, step, slot] = order[partner]
                order[partner] = order[position]
                touched[used] = partner
                used, position = used + 1, position + 1
        for i in range(used):
            order[touched[i]] = touched[i]
