"""Python's garbage collector in the package's own processes: commands and workers."""

import atexit
import gc

__all__ = ["collect_rarely"]


def collect_rarely() -> None:
    """Collect garbage after every 50,000 new objects instead of 700, and not at the process's end.

    PyTorch and numba make a million objects when they are imported, all of which stay. Scanning
    them again and again takes a quarter of the time of a command's start, and most of its end. For
    the package's own processes only: a library must not change its user's collector.
    """
    gc.set_threshold(50_000, 20, 20)
    atexit.register(gc.freeze)
