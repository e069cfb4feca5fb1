"""Samplers' memories before round 0, computed and stored once for all runs that share them.

Runs share a memory that depends on the clients and the sampler's settings alone.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from fedgs.arrays import AnyArray
from fedgs.clients import Memory
from fedgs.records import RunFolder, read_arrays, save_arrays
from fedgs.sampler_answers import kept_memory

__all__ = ["FOLDER", "StartMemories"]

FOLDER = "graphs"  # in an output folder, beside the runs


class StartMemories:
    """The memories of a study before round 0.

    Runs whose samplers name the same key share one set of arrays, and one file.

    Args:
        out: the output folder, or None: nothing is written.
    """

    def __init__(self, out: Path | None) -> None:
        self._folder = None if out is None else out / FOLDER
        self._held: dict[str, Memory] = {}

    def start(self, key: str, make: Callable[[], Memory]) -> Memory:
        """The memory with this key: from an earlier run, from a file, or computed now."""
        if key not in self._held:
            self._held[key] = kept_memory(self._made(key, make))
        return self._held[key]

    def file(self, key: str) -> Path | None:
        """Where the memory is stored."""
        return None if self._folder is None else self._folder / f"{key}.npz"

    def of_run(self, folder: RunFolder) -> Memory:
        """The memory that a stored run began with; empty where it has none."""
        shared = folder.shared_file("memory")
        if shared is None:
            return kept_memory(folder.arrays("memory"))
        return self.start(shared.stem, lambda: folder.arrays("memory"))

    def _made(self, key: str, make: Callable[[], Memory]) -> Memory:
        path = self.file(key)
        if path is None:
            return make()
        path.parent.mkdir(exist_ok=True)
        # Worker processes wait for the first one, instead of computing the memory again.
        with _alone(path.with_name(f".{key}.lock")):
            if path.is_file():
                arrays: dict[str, AnyArray] = read_arrays(path)
                return arrays
            memory = make()
            save_arrays(path, memory)
            return memory


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Keep other processes out.

    Where files cannot be locked, each process computes the memory itself, and the file of the last
    process stays.
    """
    try:
        import fcntl
    except ImportError:  # not a Unix system
        yield
        return
    with lock.open("w") as file:
        with contextlib.suppress(OSError):
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        yield
