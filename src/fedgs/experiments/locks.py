"""One writer at a time in an output folder.

The lock of the file system is used, or a lock file where it has none.
"""

import contextlib
import errno
import json
import os
import secrets
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fedgs.errors import OutputError

__all__ = ["LOCK_FILE", "only_writer"]

LOCK_FILE = ".fedgs.lock"
# An unreadable lock file that is older was left by a process that died while it wrote the file.
WRITING_SECONDS = 60.0
_WITHOUT_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL}
_IN_USE = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}


class _Writer(NamedTuple):
    """The process that a lock file names; `started` as `_start_of` said, None where unknown."""

    host: str
    pid: int
    started: object


@contextlib.contextmanager
def only_writer(folder: Path, descriptor: int) -> Iterator[None]:
    """Keep other processes out of the folder while the block runs.

    Args:
        folder: it exists and can be written.
        descriptor: of a file in it, open for writing; the lock ends when it is closed.

    Raises:
        OutputError: another process is writing there, or no lock can be had.
    """
    taken = None
    try:
        if _locked(folder, descriptor):
            _refuse_lock_file(folder)  # of a process whose system gave it no lock
        else:
            taken = _take_lock_file(folder)
    except OSError as error:
        raise OutputError(
            f"--out {str(folder)!r} cannot be locked: {error.strerror or error}"
        ) from None
    try:
        yield
    finally:
        if taken is not None and _content(folder / LOCK_FILE) == taken:
            (folder / LOCK_FILE).unlink(missing_ok=True)


def _locked(folder: Path, descriptor: int) -> bool:
    """Whether the file system has given its lock; False where it has none."""
    try:
        import fcntl
    except ImportError:  # not a Unix system
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _IN_USE:
            raise OutputError(
                f"another process is writing to {str(folder)!r}; "
                "wait for it or choose another --out"
            ) from None
        if error.errno in _WITHOUT_LOCKS:
            return False
        raise
    return True


def _take_lock_file(folder: Path) -> bytes:
    """Create the lock file, in place of one that a dead process left.

    Returns:
        The content of the file.
    """
    path = folder / LOCK_FILE
    about = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "started": _start_of(os.getpid()),
        "token": secrets.token_hex(8),
    }
    content = json.dumps(about).encode()
    for _ in range(10):  # as often as another process takes the same file away
        _refuse_lock_file(folder)
        with contextlib.suppress(FileExistsError), path.open("xb") as file:
            file.write(content)
            return content
    raise OutputError(
        f"another process is writing to {str(folder)!r}; wait for it or choose another --out"
    )


def _refuse_lock_file(folder: Path) -> None:
    """Raise `OutputError` where a lock file is in use; remove one whose process is dead."""
    path = folder / LOCK_FILE
    content = _content(path)
    if content is None:
        return
    if not _is_stale(path, content):
        writer = _writer(content)
        who = f"process {writer.pid} on {writer.host}" if writer else "another process"
        raise OutputError(
            f"{who} is writing to {str(folder)!r}; wait for it, choose another --out, "
            f"or remove {str(path)!r} if it does not run"
        )
    aside = path.with_name(f"{LOCK_FILE}.{secrets.token_hex(8)}")
    with contextlib.suppress(FileNotFoundError):
        path.rename(aside)
        if _content(aside) != content:  # a new one, created since it was read: put it back
            with contextlib.suppress(FileExistsError):
                os.link(aside, path)
        aside.unlink()


def _is_stale(path: Path, content: bytes) -> bool:
    writer = _writer(content)
    if writer is None:
        with contextlib.suppress(FileNotFoundError):
            return time.time() - path.stat().st_mtime > WRITING_SECONDS
        return True
    if writer.host != socket.gethostname() or os.name != "posix":
        return False  # nothing is known about processes of other computers
    try:
        os.kill(writer.pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass
    before, now = writer.started, _start_of(writer.pid)
    # Another time of start: the number belongs to another process now.
    return before is not None and now is not None and before != now


def _start_of(pid: int) -> str | None:
    """When a process started, in the system's own count; None where the system does not say."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _writer(content: bytes) -> _Writer | None:
    """The process that a lock file names; None where the file is not complete."""
    try:
        about = json.loads(content)
        host, pid, started = about["host"], about["pid"], about.get("started")
    except (ValueError, TypeError, KeyError):
        return None
    complete = isinstance(host, str) and type(pid) is int and pid > 0
    return _Writer(host, pid, started) if complete else None
