"""Compiled kernels (numba). Imported only where numba is installed; each has a plain counterpart that it is tested against."""

import warnings
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from fedgs.arrays import IntArray

__all__ = ["compiled", "fill_batches"]


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """The function compiled by numba, cached on disk where that is possible, else compiled anew in each process.

    Kernels release the interpreter's lock, so that threads may run them side by side.
    """
    try:
        return numba.njit(cache=True, nogil=True, **options)(function)
    except RuntimeError as error:  # numba found no folder to cache in
        warnings.warn(f"compiled kernels cannot be cached, so each start compiles them again: {error}", stacklevel=2)
        return numba.njit(nogil=True, **options)(function)


def _fill_batches(keys: Any, data_sizes: IntArray, indices: IntArray) -> None:
    """Write (r, E, B) batches: see `fedgs.local.batches`."""
    count, local_steps, batch_size = indices.shape
    order = np.arange(data_sizes.max() if count else 0)
    touched = np.empty(local_steps * batch_size, dtype=np.int64)
    for row in range(count):
        n, state, used, position = data_sizes[row], keys[row], 0, 0
        for step in range(local_steps):
            if position >= n:  # the pass is over: put the order back
                for i in range(used):
                    order[touched[i]] = touched[i]
                used, position = 0, 0
            for slot in range(min(batch_size, n - position)):
                state = state + np.uint64(0x9E3779B97F4A7C15)
                mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                mixed = mixed ^ (mixed >> np.uint64(31))
                jump = (np.uint64(n - position) * (mixed >> np.uint64(32))) >> np.uint64(32)
                there = position + np.int64(jump)
                indices[row, step, slot] = order[there]
                order[there] = order[position]
                touched[used] = there
                used, position = used + 1, position + 1
        for i in range(used):
            order[touched[i]] = touched[i]


fill_batches = compiled(_fill_batches)
