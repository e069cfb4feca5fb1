"""Folders of runs that are carried out on another computer: what has changed, and what to send.

A member of a cluster keeps its runs in a scratch folder of its own. After each write it sends what
has changed, and the study applies it to the output folder, which it alone writes. The study sends
the folder of a run that begins where an earlier start stopped.
"""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fedgs.errors import OutputError
from fedgs.experiments.memories import FOLDER
from fedgs.records import RunFolder, errors_named, write_atomically

__all__ = ["FileChange", "Mirror", "apply_changes", "content_of"]

APPENDED = (".jsonl", ".bits")  # their first bytes are not read again by a run that resumes
BLOCK = 1 << 20  # bytes of a mapped file that are compared and sent together
_PLACES = {"clients.npz": 0, "checkpoint.npz": 2, "config.toml": 3}  # in order; 1: other files


@dataclass(frozen=True)
class FileChange:
    """A change of one file of a run's folder.

    Attributes:
        name: of the file.
        offset: where `content` is written; None: it is the whole file.
        content: bytes; None: the file was removed.
        size: of the file afterwards, where `offset` is given.
        shared: whether the file is one of those that runs share, in the folder beside the runs.
    """

    name: str
    offset: int | None
    content: bytes | None
    size: int = 0
    shared: bool = False


@dataclass
class _Seen:
    """A file as it was sent.

    Attributes:
        inode, size, changed: of its status.
        blocks: digests of its blocks, for files that are changed in place.
    """

    inode: int
    size: int
    changed: int
    blocks: list[bytes] = field(default_factory=list)


class Mirror:
    r"""Finds what has changed in folders since it was last asked.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     folder, mirror = Path(name), Mirror()
    ...     _ = (folder / "rounds.jsonl").write_text("first\n")
    ...     before = mirror.changes(folder)
    ...     with (folder / "rounds.jsonl").open("a") as file:
    ...         _ = file.write("second\n")
    ...     [(change.offset, change.content) for change in before + mirror.changes(folder)]
    [(None, b'first\n'), (6, b'second\n')]
    """

    def __init__(self) -> None:
        self._seen: dict[Path, dict[str, _Seen]] = {}
        self._shared: set[Path] = set()

    def know(self, folder: Path) -> None:
        """Take what the folder holds as sent."""
        for _ in self._changes(folder):
            pass

    def changes(self, folder: Path) -> list[FileChange]:
        """What has changed, in an order in which an interruption does no harm.

        Records come before the checkpoint that counts them, and `config.toml` comes last, since it
        marks the folder as a run's.
        """
        return list(self._changes(folder))

    def _changes(self, folder: Path) -> Iterator[FileChange]:
        seen = self._seen.setdefault(folder, {})
        entries = {
            entry.name: entry
            for entry in os.scandir(folder)
            if entry.is_file() and not entry.name.endswith(".part")
        }
        for name in sorted(entries, key=_order):
            status, before = entries[name].stat(), seen.get(name)
            now = _Seen(status.st_ino, status.st_size, status.st_mtime_ns)
            if name.endswith(".bin"):
                now.blocks = [] if before is None else before.blocks
                yield from _changed_blocks(folder / name, now)
            elif before is None or before.inode != now.inode:
                if name == "memory.json":
                    yield from self._shared_file(folder)
                yield FileChange(name, None, (folder / name).read_bytes())
            elif (before.size, before.changed) != (now.size, now.changed):
                offset = min(before.size, now.size)
                yield FileChange(name, offset, _tail(folder / name, offset), now.size)
            seen[name] = now
        for name in [name for name in seen if name not in entries]:
            del seen[name]
            yield FileChange(name, None, None)

    def _shared_file(self, folder: Path) -> Iterator[FileChange]:
        """The file that `memory.json` points to, once."""
        file = RunFolder(folder).shared_file("memory")
        if file is not None and file.is_file() and file.resolve() not in self._shared:
            self._shared.add(file.resolve())
            yield FileChange(file.name, None, file.read_bytes(), shared=True)


def apply_changes(folder: Path, changes: list[FileChange]) -> None:
    """Carry changes out in the folder of a run, which exists afterwards.

    Raises:
        OutputError: a name leads out of the folder; nothing of that change is written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for change in changes:
        if Path(change.name).name != change.name or change.name in ("", ".", ".."):
            raise OutputError(f"a member of the cluster sent a file named {change.name!r}")
        place = folder.parent / FOLDER if change.shared else folder
        path = place / change.name
        if change.content is None:
            path.unlink(missing_ok=True)
        elif change.offset is not None:
            _write_part(path, change.offset, change.content, change.size)
        elif not (change.shared and path.is_file()):
            place.mkdir(exist_ok=True)
            write_atomically(path, change.content)


def content_of(folder: RunFolder, sent_before: set[str]) -> list[FileChange]:
    """What another computer needs to resume a stored run; empty for a run that has not begun.

    Of files that only grow the size alone is sent, since what they hold is not read again.

    Args:
        folder: of the run.
        sent_before: names of files that runs share and that are sent with another run; a further
            one is added.
    """
    if not folder.exists():
        return []
    sent = []
    for entry in sorted(os.scandir(folder.path), key=lambda entry: _order(entry.name)):
        if not entry.is_file() or entry.name.endswith(".part"):
            continue
        if entry.name.endswith(APPENDED):
            sent.append(FileChange(entry.name, 0, b"", entry.stat().st_size))
        else:
            sent.append(FileChange(entry.name, None, Path(entry.path).read_bytes()))
    shared = folder.shared_file("memory")
    if shared is not None and shared.is_file() and shared.name not in sent_before:
        sent_before.add(shared.name)
        sent.append(FileChange(shared.name, None, shared.read_bytes(), shared=True))
    return sent


def _order(name: str) -> tuple[int, str]:
    return _PLACES.get(name, 1), name


def _tail(path: Path, offset: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read()


def _write_part(path: Path, offset: int, content: bytes, size: int) -> None:
    with errors_named(path), path.open("r+b" if path.is_file() else "w+b") as file:
        file.seek(offset)
        file.write(content)
        file.truncate(size)


def _changed_blocks(path: Path, now: _Seen) -> Iterator[FileChange]:
    """The blocks of a mapped file whose digests have changed; `now` gets the new ones."""
    before, now.blocks = now.blocks, []
    with path.open("rb") as file:
        for number in range(-(-now.size // BLOCK)):
            block = file.read(BLOCK)
            digest = hashlib.blake2b(block, digest_size=16).digest()
            now.blocks.append(digest)
            if number >= len(before) or before[number] != digest:
                yield FileChange(path.name, number * BLOCK, block, now.size)
