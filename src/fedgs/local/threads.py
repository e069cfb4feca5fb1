"""How work is cut among threads."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import torch

from fedgs.machine import cpu_quota

__all__ = [
    "SMALL_MODEL",
    "SMALL_STEP",
    "in_threads",
    "one_thread_if",
    "threads_of",
    "usable_threads",
]

# Multiplications of a forward pass over one batch below which a model that PyTorch trains alone has
# one thread: further ones save little, and cost many times as much where other programs use the
# cores.
SMALL_MODEL = 1 << 27
SMALL_STEP = 1 << 21  # multiplications below which a second thread costs more than it brings


def usable_threads() -> int:
    """How many threads PyTorch may use here.

    It is PyTorch's own number, which `OMP_NUM_THREADS` or the program may have set, but not more
    than a container's share of processor time allows.

    >>> 1 <= usable_threads() <= torch.get_num_threads()
    True
    """
    threads, quota = torch.get_num_threads(), cpu_quota()
    if quota is None or "OMP_NUM_THREADS" in os.environ:
        return threads
    return max(1, min(threads, int(quota)))


@contextmanager
def threads_of(count: int) -> Iterator[None]:
    """Let PyTorch compute in `count` threads within the block.

    >>> with threads_of(1):
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    if count == before:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def one_thread_if(small: bool) -> Iterator[None]:
    """Let PyTorch compute in one thread within the block, if `small`.

    Tiny matrix products gain nothing from a second thread, and wait milliseconds for it where other
    programs use the cores.

    >>> with one_thread_if(True):
    ...     torch.get_num_threads()
    1
    """
    with threads_of(1 if small else torch.get_num_threads()):
        yield


def in_threads(chunk: Callable[[int, int, int], None], count: int, cost: int) -> None:
    """Call chunk(thread, a, b) for ranges a..b-1 that make up 0..count-1, in several threads.

    There are at most as many threads as PyTorch may use; within each of them PyTorch computes in
    one.

    Args:
        chunk: does the work; must give the same result however the ranges are cut.
        count: how many items there are.
        cost: multiplications an item takes; a thread is worth some 2 million.
    """
    threads = min(torch.get_num_threads(), count, 1 + count * cost // SMALL_STEP)
    with one_thread_if(True):
        if threads <= 1:
            chunk(0, 0, count)
            return
        cuts = np.linspace(0, count, threads + 1).astype(int).tolist()
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(chunk, range(threads), cuts[:-1], cuts[1:]))
