"""One writer at a time: in an output folder, or of each run in it.

The locks of the file system are used, or lock files where it has none.
"""

import contextlib
import errno
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from fedgs.errors import OutputError
from fedgs.experiments.lock_files import held, refuse_held

__all__ = ["LOCK_FILE", "only_writer", "only_writer_of_runs"]

LOCK_FILE = ".fedgs.lock"
RUN_LOCKS = ".fedgs.runs"  # its bytes are locked, one a run; or the beginning of lock files' names
_WITHOUT_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL}
_IN_USE = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}


@contextlib.contextmanager
def only_writer(folder: Path, descriptor: int) -> Iterator[None]:
    """Keep other processes out of the folder while the block runs.

    Args:
        folder: it exists and can be written.
        descriptor: of a file in it, open for writing; the lock ends when it is closed.

    Raises:
        OutputError: another process is writing there, or no lock can be had.
    """
    with contextlib.ExitStack() as stack:
        with _named(folder):
            path, what = folder / LOCK_FILE, repr(str(folder))
            if _locked(descriptor, what, shared=False):
                refuse_held(path, what)  # of a process whose system gave it no lock
            else:
                for other in sorted(folder.glob(f"{RUN_LOCKS}.*")):
                    refuse_held(other, what)
                stack.enter_context(held([path], [what]))
        yield


@contextlib.contextmanager
def only_writer_of_runs(folder: Path, descriptor: int, names: Sequence[str]) -> Iterator[None]:
    """Keep other processes out of some runs of the folder while the block runs.

    Others may write other runs meanwhile, but none may hold the whole folder.

    Args:
        folder: it exists and can be written.
        descriptor: of a file in it, open for writing; the lock ends when it is closed.
        names: of the runs' folders.

    Raises:
        OutputError: another process is writing to one of them or to the whole folder, or no lock
            can be had.
    """
    with contextlib.ExitStack() as stack:
        with _named(folder):
            whole = repr(str(folder))
            has_locks = _locked(descriptor, whole, shared=True)
            refuse_held(folder / LOCK_FILE, whole)
            if has_locks:
                file = stack.enter_context((folder / RUN_LOCKS).open("ab"))
                for name in names:
                    _lock_byte(file.fileno(), _place(name), repr(str(folder / name)))
            else:
                paths = [folder / f"{RUN_LOCKS}.{name}" for name in names]
                stack.enter_context(held(paths, [repr(str(folder / name)) for name in names]))
        yield


@contextlib.contextmanager
def _named(folder: Path) -> Iterator[None]:
    """Give errors of the file system as one sentence that names the folder."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"--out {str(folder)!r} cannot be locked: {error.strerror or error}"
        ) from None


def _locked(descriptor: int, what: str, *, shared: bool) -> bool:
    """Whether the file system has given its lock; False where it has none."""
    try:
        import fcntl
    except ImportError:  # not a Unix system
        return False
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _IN_USE:
            raise _in_use(what) from None
        if error.errno in _WITHOUT_LOCKS:
            return False
        raise
    return True


def _lock_byte(descriptor: int, place: int, what: str) -> None:
    """Lock one byte of a file, which need not exist: one descriptor serves any number of runs."""
    import fcntl

    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except OSError as error:
        if error.errno in _IN_USE:
            raise _in_use(what) from None
        raise


def _in_use(what: str) -> OutputError:
    return OutputError(f"another process is writing to {what}; wait for it or choose another --out")


def _place(name: str) -> int:
    """The byte that stands for a run."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")
