"""How work is cut among threads."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import torch

__all__ = ["SMALL_STEP", "in_threads", "one_thread_if"]

SMALL_STEP = 1 << 21  # multiplications below which a second thread costs more than it brings


@contextmanager
def one_thread_if(small: bool) -> Iterator[None]:
    """Let PyTorch compute in one thread within the block, if `small`.

    Tiny matrix products gain nothing from a second thread, and wait milliseconds for it where other programs use the cores.

    >>> with one_thread_if(True):
    ...     torch.get_num_threads()
    1
    """
    threads = torch.get_num_threads()
    if not small or threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def in_threads(chunk: Callable[[int, int, int], None], count: int, cost: int) -> None:
    """Call chunk(thread, a, b) for ranges a..b-1 that make up 0..count-1, in as many threads as PyTorch may use.

    Within each of these threads PyTorch computes in one.

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
