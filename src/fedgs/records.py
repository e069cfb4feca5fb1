"""The output of a run: a record for each round, and the run's folder.

A run's folder holds `config.toml` (resolved), `rounds.jsonl` (deterministic: equal runs have equal
files), `timings.jsonl` (seconds), `clients.npz` (names, data sizes and label counts, which tables
and pages need with the records) and, where they apply, `memory.npz` (the sampler's arrays at the
start, such as the distances H; or `memory.json`, the path of a file that runs share),
`checkpoint.npz`, `table-NAME.bin` (large tables of an aggregation) and `failure.json`. Everything
here reads and writes without torch and without the data.
"""

import contextlib
import errno
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

from fedgs.arrays import AnyArray, BoolArray, open_npz
from fedgs.clients import Clients
from fedgs.errors import OutputError

__all__ = [
    "Members",
    "Record",
    "RunFolder",
    "StoredRecords",
    "errors_named",
    "first_rounds",
    "write_atomically",
]


T = TypeVar("T")

_LEFT_OUT = (
    "stopped",
    "test_metrics",
    "per_client",
)  # fields that are written only where they have a value
_FIGURES = ("test_loss", "test_accuracy", "valid_loss")
_TAIL = 1 << 16  # bytes read at a time from the end of a file of records


class Members(Sequence[str | int]):
    """Some of the clients, by their own keys and in order.

    One bit a client is stored, so the record of a round with many clients takes little memory.

    Args:
        names: (N,) the keys of all clients, shared and not copied.
        inside: (N,) which of them belong to it.

    >>> members = Members(("a", "b", "c"), np.array([True, False, True]))
    >>> list(members), len(members), members == ["a", "c"]
    (['a', 'c'], 2, True)
    """

    __slots__ = ("_bits", "_length", "_names")

    def __init__(self, names: Sequence[str | int], inside: BoolArray) -> None:
        self._names = names
        self._bits = np.packbits(inside)
        self._length = int(np.count_nonzero(inside))

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[str | int]:
        indices = np.flatnonzero(np.unpackbits(self._bits, count=len(self._names)))
        return (self._names[k] for k in indices.tolist())

    @overload
    def __getitem__(self, position: int) -> str | int: ...
    @overload
    def __getitem__(self, position: slice) -> list[str | int]: ...
    def __getitem__(self, position: int | slice) -> str | int | list[str | int]:
        return list(self)[position]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Sequence) and not isinstance(other, str) and list(self) == list(other)
        )

    def __repr__(self) -> str:
        return f"Members({list(self)!r})"


def _as_list(value: object) -> list[str | int]:
    if isinstance(value, Members):
        return list(value)
    raise TypeError(f"a record holds numbers, words and lists of them, got {type(value).__name__}")


_encode = json.JSONEncoder(separators=(",", ":"), default=_as_list).encode


_OF_TIME = frozenset(("clock", "seconds", "fates", "worked", "traffic", "ended"))


@dataclass(frozen=True)
class Record:
    """Round t: the available clients, the cohort, and the metrics of theta^t before the update.

    Attributes:
        round: t; the last record, t = T, holds the metrics of the final model only.
        available, cohort: the clients' own keys, or None in the last record.
        num_available: size of A_t.
        draws: how often each client of the cohort was drawn, for samplers that draw with
            replacement.
        weights: aggregation weights of the cohort, sum 1.
        selection_status: the solver's status; "skipped" where no client was available, "empty"
            where the sampler selected none of the available ones; None where no solver ran.
        selection_objective, selection_upper_bound: the solver's figures.
        test_loss, test_accuracy, valid_loss: of theta^t, or None where the round was not evaluated.
            The accuracy is also None where no answer is right or wrong, as in regression.
        stopped: in the last record of a run that ended before round T: "target" or "patience", see
            `fedgs.stopping`. It is left out of `rounds.jsonl` where it is None.
        test_metrics: name -> value of the metrics of `evaluation.metrics`; the field is left out
            of `rounds.jsonl` where it is None.
        per_client: figures of theta^t on the examples of each client, in the order of the run's
            clients, None for clients without examples: "loss", and "accuracy" where there is one;
            "part" says which examples, "test" or "validation". None, and left out of
            `rounds.jsonl`, in rounds without `evaluation.per_client`.
        clock: seconds of the run at the beginning of the round. It and the following are None, and
            left out of files, where a run has no clock (no table `[system]`).
        seconds: from the beginning of the round to its end.
        fates: what became of each client of the cohort: "answered", "late", "gone" or "failed".
            Clients that did not answer have weight 0.
        worked: seconds that each client of the cohort worked in the round.
        traffic: bytes of the models sent to the cohort and of the answers.
        ended: what ended the round: "target" (enough answers), "deadline" or "nobody" (no client
            was working any more); None in a round without a cohort.
    """

    round: int
    available: Sequence[str | int] | None = None
    num_available: int | None = None
    cohort: Sequence[str | int] | None = None
    draws: Sequence[int] | None = None
    weights: Sequence[float] | None = None
    selection_status: str | None = None
    selection_objective: float | None = None
    selection_upper_bound: float | None = None
    test_loss: float | None = None
    test_accuracy: float | None = None
    valid_loss: float | None = None
    stopped: str | None = None
    test_metrics: Mapping[str, float] | None = None
    per_client: Mapping[str, Any] | None = None
    clock: float | None = None
    seconds: float | None = None
    fates: Sequence[str] | None = None
    worked: Sequence[float] | None = None
    traffic: int | None = None
    ended: str | None = None

    def value(self, figure: str) -> float | None:
        """A figure of the model by its name; None where the record does not have it.

        Args:
            figure: "test_loss", "test_accuracy", "valid_loss", or "test_" and the name of a metric.

        >>> Record(0, test_loss=0.5, test_metrics={"auc": 0.9}).value("test_auc")
        0.9
        """
        if figure in _FIGURES:
            own: float | None = getattr(self, figure)
            return own
        return (self.test_metrics or {}).get(figure.removeprefix("test_"))

    def to_json(self) -> str:
        """One line without the newline.

        >>> Record.from_json(Record(round=3, cohort=["a"]).to_json()).cohort
        ['a']
        """
        fields = self.__dict__
        if self.stopped is None or self.test_metrics is None or self.per_client is None:
            absent = {name for name in _LEFT_OUT if fields[name] is None}
            fields = {name: value for name, value in fields.items() if name not in absent}
        if self.clock is None:
            fields = {name: value for name, value in fields.items() if name not in _OF_TIME}
        return _encode(fields)

    @staticmethod
    def from_json(line: str) -> "Record":
        """The record of one line.

        Raises:
            OutputError: the line is not a record.
        """
        try:
            return Record(**json.loads(line))
        except (ValueError, TypeError):
            raise OutputError(f"not a record of a round: {line[:80]!r}") from None


def first_rounds(records: Sequence[Record], rounds: int) -> list[Record]:
    """The records of a run of `rounds` rounds, from those of a run of the same or more rounds.

    Args:
        records: records 0, 1, ..., possibly of fewer rounds.
        rounds: T >= 0.

    >>> records = [Record(0, cohort=["a"]), Record(1, cohort=["b"], test_loss=0.5), Record(2)]
    >>> shorter = first_rounds(records, 1)
    >>> len(shorter), shorter[1].test_loss, shorter[1].cohort is None
    (2, 0.5, True)
    """
    if len(records) <= rounds:
        return list(records)
    last = records[rounds]
    final = Record(
        rounds,
        test_loss=last.test_loss,
        test_accuracy=last.test_accuracy,
        valid_loss=last.valid_loss,
        test_metrics=last.test_metrics,
        per_client=last.per_client,
        clock=last.clock,
    )
    return [*records[:rounds], final]


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
        records = self._naming_the_file(lambda: _parsed(list(self._lines("rounds.jsonl"))))
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
                    tuple(names),
                    stored["data_sizes"],
                    stored.get("label_counts"),
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
        arrays: dict[str, npt.ArrayLike] = {
            "names": json.dumps(list(clients.names)),
            "data_sizes": clients.data_sizes,
        }
        if clients.label_counts is not None:
            arrays["label_counts"] = clients.label_counts
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


def _parsed(lines: list[str]) -> list[Record]:
    """The records of the lines.

    All are parsed in one call, which is faster, and one by one only to find a damaged line.
    """
    try:
        tables = json.loads(f"[{','.join(lines)}]")
        if len(tables) == len(lines):
            return [Record(**table) for table in tables]
    except (ValueError, TypeError):
        pass
    return [Record.from_json(line) for line in lines]  # raises for the damaged one


def read_arrays(path: Path) -> dict[str, AnyArray]:
    """The arrays of an .npz.

    Raises:
        OutputError: the file is damaged.
    """
    try:
        with open_npz(path) as stored:
            return {key: stored[key] for key in stored.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise OutputError(
            f"{path} is damaged ({error}); remove the run's folder to restart it"
        ) from None


def save_arrays(path: Path, arrays: Mapping[str, npt.ArrayLike]) -> None:
    """Write an uncompressed .npz atomically."""
    temporary = path.with_name(path.name + ".part")
    keywords: dict[str, Any] = dict(arrays)  # `savez` has options of its own among its keywords
    with errors_named(path), temporary.open("wb") as file:
        np.savez(file, **keywords)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a whole file or nothing: to a temporary name, to the disk, then renamed."""
    temporary = path.with_name(path.name + ".part")
    with errors_named(path), temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


@contextlib.contextmanager
def errors_named(path: Path) -> Iterator[None]:
    """Raise errors of the file system, such as a full disk, with the name of the file."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or "the file could not be written completely, the disk may be full"
        raise OSError(error.errno or errno.EIO, reason, str(path)) from error
