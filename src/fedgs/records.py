"""The output of a run: a record for each round, and the run's folder.

A run's folder holds `config.toml` (resolved), `rounds.jsonl` (deterministic: equal runs have equal
files), `available.bits` (the available clients, where there are more than 1000 clients),
`timings.jsonl` (seconds), `clients.npz` (names, data sizes and label counts, which tables and pages
need with the records) and, where they apply, `memory.npz` (the sampler's arrays at the start, such
as the distances H; or `memory.json`, the path of a file that runs share), `checkpoint.npz`,
`table-NAME.bin` and `optimizer-NAME.bin` (large tables of an aggregation and of optimisers) and
`failure.json`. Everything here reads and writes without torch and without the data.
"""

import contextlib
import json
import os
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt
import tomli_w

from fedgs.arrays import AnyArray, open_npz
from fedgs.available_clients import AvailableClients, keep_bits
from fedgs.client_names import LONG
from fedgs.clients import Clients
from fedgs.errors import OutputError
from fedgs.file_writing import errors_named, read_arrays, save_arrays, write_atomically
from fedgs.members import Members
from fedgs.record import FindAvailable, Record, first_rounds

__all__ = [
    "Members",
    "Record",
    "RunFolder",
    "StoredRecords",
    "errors_named",
    "first_rounds",
    "read_arrays",
    "save_arrays",
    "write_atomically",
]


T = TypeVar("T")

_TAIL = 1 << 16  # bytes read at a time from the end of a file of records


@dataclass(frozen=True)
class RunFolder:
    """One run on disk.

    >>> RunFolder(Path("nowhere")).exists()
    False
    """

    path: Path

    def exists(self) -> bool:
        """Whether the folder holds a run."""
        return (self.path / "config.toml").is_file()

    def config(self) -> dict[str, Any]:
        """The resolved configuration as plain tables.

        Raises:
            OutputError: no such file, or not TOML.
        """
        try:
            return tomllib.loads((self.path / "config.toml").read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise OutputError(f"{self.path / 'config.toml'} is not readable: {error}") from None

    def records(self) -> list[Record]:
        """All complete records, in order of rounds; a last line that was cut off is left out.

        Raises:
            OutputError: a complete line that is not a record, or rounds out of order.
        """
        find = AvailableClients(self.path, self.config, self.clients).find
        records = self._naming_the_file(lambda: _parsed(list(self._lines("rounds.jsonl")), find))
        for position, record in enumerate(records):
            if record.round != position:
                raise OutputError(
                    f"{self.path / 'rounds.jsonl'}: "
                    f"line {position + 1} is round {record.round}, not {position}"
                )
        return records

    def timings(self) -> list[dict[str, float]]:
        """Seconds by phase, one entry a round; damaged lines are left out."""
        timings = []
        for line in self._lines("timings.jsonl"):
            with contextlib.suppress(ValueError):
                timings.append(json.loads(line))
        return timings

    def clients(self) -> Clients:
        """Names, data sizes, label counts and features of the run's clients."""
        try:
            with open_npz(self.path / "clients.npz") as stored:
                names = json.loads(str(stored["names"]))
                return Clients(
                    range(names) if type(names) is int else tuple(names),
                    stored["data_sizes"].astype(np.int64),
                    _counts(stored.get("label_counts")),
                    stored.get("features"),
                )
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise OutputError(f"{self.path / 'clients.npz'} is not readable: {error}") from None

    def arrays(self, name: str) -> dict[str, AnyArray]:
        """The arrays of `NAME.npz` in the folder, or of the file that runs share.

        The result is empty if there is neither.

        Raises:
            OutputError: the file is damaged, or the shared one is missing.
        """
        shared = self.shared_file(name)
        path = self.path / f"{name}.npz" if shared is None else shared
        if shared is not None and not shared.is_file():
            raise OutputError(
                f"{shared} is missing, which {self.path} begins with; "
                "remove the run's folder to restart it"
            )
        return read_arrays(path) if path.is_file() else {}

    def shared_file(self, name: str) -> Path | None:
        """The file of arrays that this run shares with others, or None.

        Raises:
            OutputError: the pointer is damaged.
        """
        pointer = self.path / f"{name}.json"
        if not pointer.is_file():
            return None
        try:
            return self.path / str(json.loads(pointer.read_text(encoding="utf-8"))["file"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise OutputError(
                f"{pointer} is damaged ({error}); remove the run's folder to restart it"
            ) from None

    def share(self, name: str, file: Path) -> None:
        """Point to arrays in a file that several runs share, instead of storing them here."""
        relative = os.path.relpath(file, self.path)
        write_atomically(
            self.path / f"{name}.json", json.dumps({"file": Path(relative).as_posix()}).encode()
        )

    def failure(self) -> dict[str, object] | None:
        """Why the run ended early (`round`, `client`, `error`, `traceback`), or None."""
        path = self.path / "failure.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

    def create(
        self, config: Mapping[str, object], clients: Clients, memory: Mapping[str, AnyArray]
    ) -> None:
        """Write the files that do not change during the run.

        `config.toml` comes last, since it marks the folder as a run's.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        names = clients.names
        arrays: dict[str, npt.ArrayLike] = {
            "names": json.dumps(len(names) if isinstance(names, range) else list(names)),
            "data_sizes": _small(clients.data_sizes),
        }
        if clients.label_counts is not None:
            arrays["label_counts"] = _small(clients.label_counts)
        if clients.features is not None:
            arrays["features"] = clients.features
        save_arrays(self.path / "clients.npz", arrays)
        if memory:
            save_arrays(self.path / "memory.npz", memory)
        self.write_config(config)

    def write_config(self, config: Mapping[str, object]) -> None:
        """Write `config.toml`."""
        write_atomically(self.path / "config.toml", tomli_w.dumps(dict(config)).encode())

    def write_failure(self, failure: Mapping[str, object] | None) -> None:
        """Write `failure.json`, or remove it."""
        path = self.path / "failure.json"
        if failure is None:
            path.unlink(missing_ok=True)
        else:
            write_atomically(path, json.dumps(failure, indent=1).encode())

    def last_record(self) -> Record | None:
        """The last record, without reading those before it.

        None where there is no record, or the last line was cut off.

        Raises:
            OutputError: the last line is not a record.
        """
        start = self.size("rounds.jsonl")
        if start == 0:
            return None
        tail = b""
        with (self.path / "rounds.jsonl").open("rb") as file:
            while start > 0 and tail[:-1].count(b"\n") == 0:
                step = min(start, _TAIL)
                start -= step
                file.seek(start)
                tail = file.read(step) + tail
        if not tail.endswith(b"\n"):
            return None
        line = tail[:-1].split(b"\n")[-1].decode("utf-8", errors="replace")
        record = self._naming_the_file(lambda: Record.from_json(line))
        if type(record.round) is not int:
            raise OutputError(
                f"not a record of a round: {line[:80]!r}, in {self.path / 'rounds.jsonl'}"
            )
        return record

    def _naming_the_file(self, read: Callable[[], T]) -> T:
        """The result of `read`, whose errors are raised with the name of the records' file."""
        try:
            return read()
        except OutputError as error:
            raise OutputError(f"{error}, in {self.path / 'rounds.jsonl'}") from None

    def size(self, name: str) -> int:
        """Bytes of a file in the folder, 0 where there is none."""
        path = self.path / name
        return path.stat().st_size if path.is_file() else 0

    def truncate(self, name: str, size: int) -> None:
        """Cut a file to its first `size` bytes."""
        if self.size(name) > size:
            os.truncate(self.path / name, size)

    def keep_available(self, record: Record) -> None:
        """Write the available clients of a record whose line holds their digest alone.

        It comes before the line is appended.
        """
        if isinstance(record.available, Members):
            keep_bits(self.path, record.round, record.available)

    def append(self, name: str, lines: Sequence[str]) -> None:
        """Append lines to `rounds.jsonl` or `timings.jsonl`."""
        with (
            errors_named(self.path / name),
            (self.path / name).open("a", encoding="utf-8") as file,
        ):
            file.write("".join(line + "\n" for line in lines))

    def _lines(self, name: str) -> Iterator[str]:
        path = self.path / name
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            yield from text.split("\n")[:-1]  # text after the last newline is a line cut off


class StoredRecords(Sequence[Record]):
    """The records of a run's first rounds, read from its folder when they are first used.

    Args:
        folder: of the run.
        rounds: T; see `first_rounds`.

    Raises:
        OutputError: when they are read, a record is damaged.
    """

    def __init__(self, folder: RunFolder, rounds: int) -> None:
        self._folder = folder
        self._rounds = rounds

    @cached_property
    def _records(self) -> list[Record]:
        return first_rounds(self._folder.records(), self._rounds)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | list[Record]:
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)


def _small(counts: AnyArray) -> AnyArray:
    """Counts of more than 1000 clients in the smallest type of integers that holds them."""
    if len(counts) <= LONG or counts.dtype.kind not in "iu" or counts.min(initial=0) < 0:
        return counts
    return counts.astype(np.min_scalar_type(counts.max(initial=0)))


def _counts(stored: AnyArray | None) -> AnyArray | None:
    """Label counts in a type whose sums do not overflow."""
    return stored if stored is None or stored.dtype.itemsize >= 4 else stored.astype(np.int32)


def _parsed(lines: list[str], find: FindAvailable) -> list[Record]:
    """The records of the lines.

    All are parsed in one call, which is faster, and one by one only to find a damaged line.
    """
    try:
        tables = json.loads(f"[{','.join(lines)}]")
        if len(tables) == len(lines):
            return [Record.from_table(table, find) for table in tables]
    except (ValueError, TypeError, KeyError, AttributeError):
        pass
    return [Record.from_json(line) for line in lines]  # raises for the damaged one
