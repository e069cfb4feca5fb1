"""Python's garbage collector in processes that are ours: commands and workers."""

import atexit
import gc

__all__ = ["collect_rarely"]


def collect_rarely() -> None:
    """Look for garbage after every 50,000 new objects instead of 700, and not once more at the end of the process.

    PyTorch and numba make a million objects when they are imported, all of which stay. Looking
    through them again and again takes a quarter of the time of a command's start, and most of its
    end. For processes of our own only: a library has no business with its user's collector.
    """
    gc.set_threshold(50_000, 20, 20)
    atexit.register(gc.freeze)
