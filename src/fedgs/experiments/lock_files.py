"""Lock files, for file systems that have no locks: they name the process that writes."""

import contextlib
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fedgs.errors import OutputError

__all__ = ["held", "refuse_held"]

# An unreadable lock file that is older was left by a process that died while it wrote the file.
WRITING_SECONDS = 60.0
# A lock file is touched this often; one of another computer that was not touched for longer than
# the second number was left by a process that died.
TOUCH_SECONDS, FOREIGN_SECONDS = 30.0, 900.0


class _Writer(NamedTuple):
    """The process that a lock file names; `started` as `_start_of` said, None where unknown."""

    host: str
    pid: int
    started: object


@contextlib.contextmanager
def held(paths: Sequence[Path], what: Sequence[str]) -> Iterator[None]:
    """Hold lock files while the block runs; those of dead processes are replaced.

    Args:
        paths: the lock files.
        what: what each of them protects, for the message.

    Raises:
        OutputError: another process holds one of them.
    """
    taken: dict[Path, bytes] = {}
    ended = threading.Event()
    keeper = threading.Thread(target=_touch, args=(taken, ended), daemon=True)
    try:
        for path, protected in zip(paths, what, strict=True):
            taken[path] = _take(path, protected)
        keeper.start()
        yield
    finally:
        ended.set()
        if keeper.ident is not None:
            keeper.join()
        for path, content in taken.items():
            if _content(path) == content:
                path.unlink(missing_ok=True)


def _touch(taken: dict[Path, bytes], ended: threading.Event) -> None:
    """Renew the times of the files until the block ends, so that others see that it is alive."""
    while not ended.wait(TOUCH_SECONDS):
        for path, content in taken.items():
            if _content(path) == content:
                with contextlib.suppress(OSError):
                    os.utime(path)


def _take(path: Path, what: str) -> bytes:
    """Create a lock file, in place of one that a dead process left.

    Returns:
        The content of the file.
    """
    about = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "started": _start_of(os.getpid()),
        "token": secrets.token_hex(8),
    }
    content = json.dumps(about).encode()
    for _ in range(10):  # as often as another process takes the same file away
        refuse_held(path, what)
        with contextlib.suppress(FileExistsError), path.open("xb") as file:
            file.write(content)
            return content
    raise OutputError(f"another process is writing to {what}; wait for it or choose another --out")


def refuse_held(path: Path, what: str) -> None:
    """Raise `OutputError` where a lock file is in use; remove one whose process is dead."""
    content = _content(path)
    if content is None:
        return
    if not _is_stale(path, content):
        writer = _writer(content)
        who = f"process {writer.pid} on {writer.host}" if writer else "another process"
        raise OutputError(
            f"{who} is writing to {what}; wait for it, choose another --out, "
            f"or remove {str(path)!r} if it does not run"
        )
    aside = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    with contextlib.suppress(FileNotFoundError):
        path.rename(aside)
        if _content(aside) != content:  # a new one, created since it was read: put it back
            with contextlib.suppress(FileExistsError):
                os.link(aside, path)
        aside.unlink()


def _is_stale(path: Path, content: bytes) -> bool:
    writer = _writer(content)
    if writer is None:
        return _age(path) > WRITING_SECONDS
    if writer.host != socket.gethostname() or os.name != "posix":
        return _age(path) > FOREIGN_SECONDS
    try:
        os.kill(writer.pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass
    before, now = writer.started, _start_of(writer.pid)
    # Another time of start: the number belongs to another process now.
    return before is not None and now is not None and before != now


def _age(path: Path) -> float:
    """Seconds since the file was touched, by the clock of its file system; inf if it is gone."""
    probe = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        touched = path.stat().st_mtime
    except FileNotFoundError:
        return float("inf")
    try:
        probe.touch()
        now = probe.stat().st_mtime
        probe.unlink()
    except OSError:
        now = time.time()
    return now - touched


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
